"""Commands on records: collect them, show them, fit weights, certificates and calibrators."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer

from remask.cli import settings as opt
from remask.cli.app import say_aside, tell
from remask.cli.engines import Backend, backend
from remask.cli.flags import FlagsOf, UsageError
from remask.cli.query import Query
from remask.collect.settings import CollectSettings, choose_baselines
from remask.consistency.settings import ConsistencySettings, MetricSet
from remask.decide.settings import BUDGET, Confidence, Risk
from remask.errors import InputError
from remask.records import outputs
from remask.records.lock import locked
from remask.settings import Setting, unknown_name
from remask.tasks.base import Split
from remask.values import ROUNDTRIPS

if TYPE_CHECKING:
    from remask.collect.collect import Collection, CollectSummary
    from remask.decide.stages import StagedVerifier
    from remask.denoisers.base import Denoiser

_NAMED = 3  # problems that could not be asked, told one by one
_SPLITS, _LAYOUTS = get_args(Split), get_args(opt.Split)
# The one command that draws problems has one flag for both splits; no word belongs to two.
Splits = Annotated[
    list[str] | None,
    typer.Option(
        "--split",
        metavar=f"<{'|'.join((*_SPLITS, *_LAYOUTS))}>",
        help="Which problems of the task, test by default; again for replicas or layers: of "
        "several devices a replica on each, or the layers of one model over all.",
    ),
]
CollectFlags = Annotated[
    dict[str, Any], FlagsOf(kind=CollectSettings, without=("split", "chunk", "tokens"))
]
SplitModel = Annotated[opt.ModelSettings, FlagsOf(kind=opt.ModelSettings, without=("split",))]
Shard = Annotated[
    str | None,
    Setting(
        "Do this part of the problems alone, such as 2/8, the second of eight; the other parts are "
        "done elsewhere, and join makes one file of all."
    ),
]
ShardSources = Annotated[
    list[Path],
    typer.Argument(
        help="The shards: the files of one collection or one scored file, or folders that hold a "
        "file each."
    ),
]
JoinOut = Annotated[Path, Setting("The file to write; of folders, the folder.", short="-o")]
RetryErrors = Annotated[bool, Setting("Ask again what could not be asked before.")]
Weights = Annotated[Path | None, Setting("Weights that fit wrote; uniform ones by default.")]
RecordedMetrics = Annotated[
    MetricSet | None, Setting("Metric set; the one collected with by default.")
]
Columns = Annotated[
    tuple[str, ...] | None,
    Setting(
        "Combine these instead of metrics: confidence, confidence_canvas, vote, agreement; "
        "self_evaluation, editor, probe or verifier where they were collected."
    ),
]
FittedScorer = Annotated[
    Literal["roundtrips", "verifier", "verifier_at_hand"],
    Setting(
        "Whose score is fitted: weights of the round trips, or a verifier in stages; for answers "
        "that were not written here verifier_at_hand."
    ),
]
RecordedScorer = Annotated[
    str,
    Setting(
        "Whose scores: roundtrips, probe, verifier (label-free; verifier_at_hand for answers that "
        "were not written here), or a baseline by its name."
    ),
]
CertifiedBudget = Annotated[
    int, replace(BUDGET, help="Samples drawn until one is accepted, for rejection sampling.")
]
Method = Annotated[Literal["isotonic", "platt"], Setting("Shape of the curve.")]
Sources = Annotated[
    list[Path], typer.Argument(help="Records that collect wrote: files, or one folder of them.")
]
Title = Annotated[str, Setting("Title of the page.")]
Plots = Annotated[bool, Setting("Write every plot beside it too, as SVG and CSV.")]


def collect(
    *,
    out: opt.Out,
    model: SplitModel,
    split: Splits = None,
    flags: CollectFlags,
    sampler: opt.SamplerFlags,
    trips: ConsistencySettings,
    engine: opt.EngineSettings,
    shard: Shard = None,
    retry_errors: RetryErrors = False,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Answer, grade and score the problems of a task.

    One JSON line per sample, and beside it a manifest; the same command again continues an
    interrupted run. A problem that cannot be asked is a line with its error. A public benchmark is
    read from --data, or from the hub.
    """
    opt.require_pool(model, sampler, flags["samples"], "--samples")
    part, layout = splits(split)
    from remask.collect import collect as study
    from remask.collect.job_shard import JobShard

    flags["baselines"] = _baselines(flags.get("baselines", ()), flags["samples"])
    settings = CollectSettings(**flags, split=part, consistency=trips)
    part_of_it = None if shard is None else JobShard.parse(shard)
    collection = study.prepare(settings, out, force, shard=part_of_it)
    query = Query("", settings.task, collection.task, collection.problem(0))
    with locked(out), backend(engine, replace(model, split=layout)) as place:
        denoiser = place.load()
        settings = replace(collection.settings, sampler=query.sampler(denoiser, sampler))
        collection = replace(collection, settings=settings)
        summary = _collect(denoiser, place, collection, out, retry_errors, force)
    _show_collected(out, summary, shard, as_json)


def splits(words: list[str] | None) -> tuple[Split, opt.Split]:
    """Return which problems are drawn, and how a model lies on several devices."""
    known = (*_SPLITS, *_LAYOUTS)
    for word in words or []:
        if word not in known:
            raise unknown_name("split", word, known, error=UsageError)
    problems, layouts = ([w for w in words or [] if w in kind] for kind in (_SPLITS, _LAYOUTS))
    if len(problems) > 1 or len(layouts) > 1:
        raise UsageError(
            f"--split {' --split '.join(words or [])} is more than one choice of problems and one "
            "of devices"
        )
    return cast(Split, (*problems, "test")[0]), cast(opt.Split, (*layouts, "replicas")[0])


def _baselines(names: tuple[str, ...], samples: int) -> tuple[str, ...]:
    """Return the baselines that were named, and those that come by themselves."""
    lonely = [name for name in names if name in ("vote", "agreement") and samples == 1]
    if lonely:
        raise UsageError(f"--baselines {lonely[0]} compares samples; add --samples with 2 or more")
    return choose_baselines(names)


def _collect(
    denoiser: "Denoiser",
    place: Backend,
    collection: "Collection",
    out: Path,
    retry_errors: bool,
    force: bool,
) -> "CollectSummary":
    """Collect with a bar, in chunks of what the device computes at once."""
    from remask.cli import terminal
    from remask.collect.answers import edits
    from remask.sampling.batches import token_budget

    settings = replace(collection.settings, tokens=token_budget(denoiser.device))
    if "editor" in settings.baselines and not edits(denoiser):
        say_aside(f"{denoiser.name} was not trained to edit; editor may tell of copying alone.")
    run = replace(collection, settings=settings).with_model(denoiser, out, place.engine)
    with terminal.Bar("collecting", run.num_answers, "answers") as bar:
        return run.complete(bar.advance_to, retry_errors=retry_errors, force=force)


def _show_collected(out: Path, summary: "CollectSummary", shard: str | None, as_json: bool) -> None:
    """Print what there is now, an earlier call's too, and which problems could not be asked."""
    for error in summary.errors[:_NAMED]:
        say_aside(error)
    problems, rows, errors = summary.problems, summary.rows, len(summary.errors)
    document = {"out": str(out), "problems": problems, "rows": rows, "errors": errors}
    counts = f"{_counted(problems, 'problem')}, {_counted(rows - errors, 'answer')}"
    if errors:
        counts += f", {errors} error{'s' if errors > 1 else ''} (--retry-errors asks again)"
    if shard:
        document["shard"], counts = shard, f"shard {shard}: {counts}"
    tell(document, f"{counts}: {out}", as_json)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def join(
    *,
    sources: ShardSources,
    out: JoinOut,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Make one file of the shards of a collection.

    Or of those of a scored file. The rows are those of one job that does everything, byte for byte.
    Shards of two files, unfinished ones, and a shard that is missing or there twice are refused.
    """
    from remask.collect.join import join_shards

    joined = join_shards(sources, out, force=force)
    rows = [{"out": str(one.out), "shards": one.shards, "rows": one.rows} for one in joined]
    tell(
        rows,
        "\n".join(f"{one.shards} shards, {one.rows} rows: {one.out}" for one in joined),
        as_json,
    )


def fit(
    *,
    records: opt.Records,
    out: opt.Out,
    scorer: FittedScorer = "roundtrips",
    metrics: RecordedMetrics = None,
    columns: Columns = None,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Fit weights that tell right answers from wrong ones.

    Use records of a split of their own: numbers to report, and a certificate, need other answers.
    With --scorer verifier what is fitted is the probability of being right, in stages, to what
    collect --probes read.
    """
    from remask.analysis import fitting
    from remask.verifier.columns import MEANS

    if scorer != ROUNDTRIPS and (metrics is not None or columns is not None):
        flag = "--metrics" if columns is None else "--columns"
        raise UsageError(f"{flag} is of weights, which --scorer {scorer} has none of")
    with outputs.hold(out, outputs.of_records([records]), force=force):
        if scorer != ROUNDTRIPS:
            _fit_verifier(records, out, as_json, at_hand=scorer != "verifier")
            return
        weights = fitting.fit(records, metrics, columns or ())
        weights.save(out)
        values = ", ".join(f"{name} {value:g}" for name, value in weights.values.items())
        quality = f"AUROC {weights.auroc:.3f}, uniform {weights.auroc_uniform:.3f}"
        sentence = f"{values} ({quality}, on the same {weights.n} answers)"
        document = {"out": str(out), **asdict(weights)}
        if columns is not None and len(columns) == 1 and columns[0] in MEANS:  # it has no weights
            threshold = fitting.threshold_of(records, columns[0])
            document["threshold"] = threshold
            sentence += f"; {_decided(threshold)}"
    tell(document, f"{sentence}: {out}", as_json)


def _fit_verifier(records: Path, out: Path, as_json: bool, *, at_hand: bool) -> None:
    """Fit a verifier in stages, and say how well it does and what it costs."""
    from remask.analysis import fitting

    staged = fitting.fit_stages_of(records, at_hand=at_hand)
    staged.save(out)
    tell(
        {"out": str(out), **asdict(staged), "reason": staged.reason or None},
        f"{_quality(staged)}: {out}",
        as_json,
    )


def _quality(staged: "StagedVerifier") -> str:
    """Return what is known of a verifier in stages, in a sentence without its full stop."""
    counts = f"{staged.n} answers, {staged.num_right} right, {staged.n - staged.num_right} wrong"
    if staged.reason:
        return f"{counts}; {staged.reason}"
    names = ", ".join(stage.name for stage in staged.stages)
    price = sum(stage.forwards for stage in staged.stages)
    return (
        f"{counts}; stages {names}; cross-validated AUROC {staged.auroc:.3f} in stages, "
        f"{staged.auroc_full:.3f} in full; {staged.mean_forwards:.1f} forwards per answer of "
        f"{price:.1f}; {_decided(staged.threshold)}"
    )


def _decided(threshold: float | None) -> str:
    """Return which threshold to use."""
    if threshold is None:
        return "no threshold, accepting all of them is best"
    return f"--threshold {threshold:g} by F1"


def certify(
    *,
    records: opt.Records,
    out: opt.Out,
    scorer: RecordedScorer = ROUNDTRIPS,
    weights: Weights = None,
    risk: Risk = 0.1,
    confidence: Confidence = 0.95,
    budget: CertifiedBudget = 1,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Certify a threshold: few of what it accepts are wrong.

    Use records that nothing was fitted to or chosen on before, and keep the test split for the
    numbers you report. If no threshold can be certified, the exit code is 1.
    """
    from remask.analysis import fitting
    from remask.decide.threshold import Refusal

    with outputs.hold(out, [*outputs.of_records([records]), weights], force=force):
        result = fitting.certify_records(
            records, weights, scorer=scorer, risk=risk, confidence=confidence, budget=budget
        )
        if isinstance(result, Refusal):
            raise InputError(f"no threshold is certified: {result.reason}")
        result.save(out)
    split = result.provenance.split
    if split == "test":
        say_aside(
            f"{records} holds answers to the test split. Do not report numbers on this split for "
            "the certified threshold."
        )
    document = {"out": str(out), **asdict(result), "coverage": result.coverage, "split": split}
    tell(document, f"{result} {out}", as_json)


def calibrate(
    *,
    records: opt.Records,
    out: opt.Out,
    scorer: RecordedScorer = ROUNDTRIPS,
    weights: Weights = None,
    method: Method = "isotonic",
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Fit a curve from scores to probabilities."""
    from remask.analysis import fitting

    with outputs.hold(out, [*outputs.of_records([records]), weights], force=force):
        curve = fitting.calibrate(records, weights, method, scorer=scorer)
        curve.save(out)
    scores = (0.5, 0.75, 0.9)
    chances = zip(scores, curve.probabilities(scores), strict=True)
    shown = ", ".join(f"{score:g} is right in {chance:.0%}" for score, chance in chances)
    shape = asdict(curve)
    document = {name: shape.pop(name) for name in ("method", "n", "provenance")}
    tell(
        {"out": str(out), **document, "shape": shape},
        f"{method} curve of {curve.n} answers: a score of {shown}: {out}",
        as_json,
    )


def report(
    *,
    sources: Sources,
    out: opt.Out,
    title: Title = "",
    plots: Plots = False,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Show records on one HTML page: tables, plots, answers.

    The page works from disk and asks for nothing from elsewhere. A folder that holds the files of
    a whole study also gets its curves.
    """
    from remask.cli import terminal
    from remask.report.page import plots_of, write_page

    source = sources[0] if len(sources) == 1 else sources
    with outputs.hold(out, outputs.of_records(sources), force=force):
        if plots:
            outputs.claim_in_folder(plots_of(out), ["*"], force=force)
        with terminal.waiting("reading, resampling and drawing"):
            write_page(source, out, title=title, with_plots=plots)
    size = out.stat().st_size
    tell({"out": str(out), "bytes": size}, f"{size / 1e6:.1f} MB: {out}", as_json)
