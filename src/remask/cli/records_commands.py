"""Commands on records: collect them, show them, fit weights, certificates and calibrators."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from remask.cli import flags as opt
from remask.cli.app import app, say_aside, tell
from remask.cli.engines import Asked, Place, place
from remask.collect.settings import CollectSettings
from remask.errors import InputError
from remask.records import outputs

if TYPE_CHECKING:
    from remask.denoisers.base import Denoiser
    from remask.tasks.base import Task


_NAMED = 3  # problems that could not be asked, told one by one


@app.command()
def collect(
    out: opt.Out,
    task: opt.RequiredTask,
    model: opt.Model = "",
    level: opt.Level = "", split: opt.Splits = None,
    data: opt.Data = None,
    wording: opt.Wording = "llada", shots: opt.Shots = 0,
    allow_execution: opt.AllowExecution = False,
    problems: opt.Problems = 32, samples: opt.Samples = 1, scored: opt.Scored = 1,
    baselines: opt.Baselines = None,
    preset: opt.Preset = "",
    temperature: opt.Temperature = None,
    steps: opt.Steps = None, length: opt.Length = None, block: opt.Block = None,
    order: opt.Order = None,
    reveal_threshold: opt.RevealThreshold = None,
    edit_threshold: opt.EditThreshold = None,
    trips: opt.Trips = 4,
    rebuild_steps: opt.RebuildSteps = 16,
    mask_ratio: opt.MaskRatio = "0.9",
    mask_design: opt.Design = "independent",
    tail: opt.Tail = "masked",
    rebuild_temperature: opt.RebuildTemperature = 0.0,
    metrics: opt.Metrics = "paper",
    seed: opt.Seed = 0,
    device: opt.Device = "auto", dtype: opt.Precision = "auto",
    engine: opt.Engine = "local", workers: opt.Workers = None, address: opt.Address = "",
    retry_errors: opt.RetryErrors = False, force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:  # fmt: skip
    """Answer, grade and score the problems of a task.

    One JSON line per sample, and beside it a manifest; the same command again continues an
    interrupted run. A problem that cannot be asked is a line with its error. A public benchmark is
    read from --data, or from the hub.
    """
    opt.require_pool(model, temperature, samples, "--samples")
    part, layout = opt.splits(split)
    from remask.collect import collect as study

    trip = opt.consistency(mask_ratio, mask_design, trips, rebuild_steps, rebuild_temperature, tail)
    settings = CollectSettings(
        task=task, data=data, wording=wording, shots=shots, allow_execution=allow_execution,
        level=level, split=part, problems=problems, samples=samples, scored=scored,
        baselines=opt.baselines(baselines, samples), metrics=metrics, seed=seed, consistency=trip,
    )  # fmt: skip
    asked = _asked(study.prepare(settings, out, force), settings)
    with place(Asked(engine, workers, address), model, device, dtype, preset, layout) as where:
        denoiser = where.load()
        sampler = opt.sampler(
            denoiser, asked, edit_threshold=edit_threshold, steps=steps, block=block,
            temperature=temperature, length=length, order=order, reveal_threshold=reveal_threshold,
        )  # fmt: skip
        settings = replace(settings, sampler=sampler)
        _collect(denoiser, where, settings, out, retry_errors, force)
    _tell_collected(out, as_json)


def _asked(task: "Task", settings: CollectSettings) -> opt.Question:
    """Return the first problem, by which the sampler is chosen."""
    problem = task.problem(0, split=settings.split, level=settings.level)
    return opt.Question("", settings.task, task, problem)


def _collect(
    denoiser: "Denoiser",
    where: Place,
    settings: CollectSettings,
    out: Path,
    retry_errors: bool,
    force: bool,
) -> None:
    """Collect with a bar, in portions of what the device computes at once."""
    from remask.cli import terminal
    from remask.collect import collect as study
    from remask.collect import rivals
    from remask.sampling.batches import token_budget

    if "editor" in settings.baselines and not rivals.edits(denoiser):
        say_aside(f"{denoiser.name} was not trained to edit; editor may tell of copying alone.")
    settings = replace(settings, tokens=token_budget(denoiser.device))
    with terminal.Bar("collecting", settings.problems * settings.samples, "answers") as bar:
        study.collect(
            denoiser, settings, out, bar.advance_to, where.engine, retry_errors=retry_errors,
            force=force,
        )  # fmt: skip


def _tell_collected(out: Path, as_json: bool) -> None:
    """Say what there is now, an earlier call's too, and which problems could not be asked."""
    from remask.records import jsonl

    rows = errors = 0
    problems = set()
    for row in jsonl.read(out):
        rows += 1
        problems.add(row["id"])
        errors += "error" in row
        if "error" in row and errors <= _NAMED:
            say_aside(row["error"])
    document = {"out": str(out), "problems": len(problems), "rows": rows, "errors": errors}
    counts = f"{len(problems)} problems, {rows - errors} answers"
    if errors:
        counts += f", {errors} error{'s' if errors > 1 else ''} (--retry-errors asks again)"
    tell(document, f"{counts}: {out}", as_json)


@app.command()
def fit(
    records: opt.Records,
    out: opt.Out,
    metrics: opt.RecordedMetrics = None,
    columns: opt.Columns = "",
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Fit weights that tell right answers from wrong ones.

    Use records of a split of their own: numbers to report, and a certificate, need other answers.
    """
    from remask.analysis import fitting

    outputs.claim(out, outputs.of_records([records]), force=force)
    names = [name.strip() for name in columns.split(",") if name.strip()]
    found = fitting.fit(records, metrics, names)
    out.parent.mkdir(parents=True, exist_ok=True)
    found.save(out)
    values = ", ".join(f"{name} {value:g}" for name, value in found.values.items())
    told = f"AUROC {found.auroc:.3f}, uniform {found.auroc_uniform:.3f}, on the same {found.n}"
    tell({"out": str(out), **asdict(found)}, f"{values} ({told} answers): {out}", as_json)


@app.command()
def certify(
    records: opt.Records,
    out: opt.Out,
    weights: opt.WeightsFile = None,
    risk: opt.Risk = 0.1,
    confidence: opt.Confidence = 0.95,
    budget: opt.CertifiedBudget = 1,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Certify a threshold: few of what it accepts are wrong.

    Use records that nothing was fitted to or chosen on before. Where no threshold can be
    certified the exit code is 1, and the reason is told.
    """
    from remask.analysis import fitting
    from remask.decide.threshold import Refusal

    outputs.claim(out, [*outputs.of_records([records]), weights], force=force)
    found = fitting.certify_records(
        records, weights, risk=risk, confidence=confidence, budget=budget
    )
    if isinstance(found, Refusal):
        raise InputError(f"no threshold is certified: {found.reason}")
    out.parent.mkdir(parents=True, exist_ok=True)
    found.save(out)
    document = {"out": str(out), **asdict(found), "coverage": found.coverage}
    tell(document, f"{found} {out}", as_json)


@app.command()
def calibrate(
    records: opt.Records,
    out: opt.Out,
    weights: opt.WeightsFile = None,
    method: opt.CalibrationMethod = "isotonic",
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Fit a curve from scores to probabilities."""
    from remask.analysis import fitting

    outputs.claim(out, [*outputs.of_records([records]), weights], force=force)
    found = fitting.calibrate(records, weights, method)
    out.parent.mkdir(parents=True, exist_ok=True)
    found.save(out)
    scores = (0.5, 0.75, 0.9)
    chances = zip(scores, found.probabilities(scores), strict=True)
    shown = ", ".join(f"{score:g} is right in {chance:.0%}" for score, chance in chances)
    tell(
        {"out": str(out), **asdict(found)},
        f"{method} curve of {found.n} answers: a score of {shown}: {out}",
        as_json,
    )


@app.command()
def report(
    sources: opt.Sources,
    out: opt.Out,
    title: opt.Title = "",
    plots: opt.Plots = False,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Show records on one HTML page: tables, plots, answers.

    The page works from disk and asks for nothing from elsewhere. A folder that holds the files of
    a whole study also gets its curves.
    """
    from remask.cli import terminal
    from remask.report.page import plots_of, write_page

    outputs.claim(out, outputs.of_records(sources), force=force)
    if plots:
        outputs.claim_in_folder(plots_of(out), ["*"], force=force)
    with terminal.waiting("reading, resampling and drawing"):
        write_page(sources[0] if len(sources) == 1 else sources, out, title=title, with_plots=plots)
    size = out.stat().st_size
    tell({"out": str(out), "bytes": size}, f"{size / 1e6:.1f} MB: {out}", as_json)
