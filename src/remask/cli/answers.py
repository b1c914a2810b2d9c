"""Commands on answers: draw and check one (solve), check one (verify), check a file (score)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from remask.cli import settings as opt
from remask.cli.app import load_model, print_json
from remask.cli.certificate import (
    Criterion,
    certified_kind,
    model_context,
    query_context,
    read_criterion,
)
from remask.cli.engines import Backend, backend
from remask.cli.fitted import VERIFIER, VerifierFlags, read_verifier_flags
from remask.cli.flags import FlagsOf, UsageError
from remask.cli.query import Query, read_answer, read_query
from remask.collect.settings import ScoreSettings
from remask.consistency.settings import ConsistencySettings, Metrics
from remask.decide.settings import Budget
from remask.errors import InputError
from remask.settings import Seed, Setting, unknown_name
from remask.values import ROUNDTRIPS

if TYPE_CHECKING:
    from remask import api
    from remask.collect.score_file import ScoreJob, ScoreSummary
    from remask.denoisers.base import Denoiser
    from remask.values import Decision, Sample, Score, Scorer
    from remask.verifier.threshold import ScoreThreshold

Answer = Annotated[str | None, typer.Argument(help="The answer, as text; - reads it from stdin.")]
AnswerText = Annotated[str | None, typer.Option("--answer", help="The answer, as text.")]
AnswerFile = Annotated[Path | None, Setting("A file that holds the answer; - is stdin.")]
Rows = Annotated[Path, typer.Argument(help="Rows to score, .jsonl or .parquet.")]
Own = Annotated[
    bool,
    typer.Option("--own", help="The model wrote the answer: thresholds for its own answers apply."),
]
Columns = Annotated[
    dict[str, Any], FlagsOf(kind=ScoreSettings, only=("prompt_column", "answer_column"))
]
Batch = Annotated[int, Setting("Rows between two writes to disk.", least=1, most=100_000)]
FileShard = Annotated[
    str | None,
    Setting(
        "Score this part of the rows alone, such as 2/8, the second of eight; the other parts are "
        "scored elsewhere, and join makes one file of all."
    ),
]
FileJudge = Annotated[
    opt.JudgeSettings, FlagsOf(kind=opt.JudgeSettings, without=("threshold", "metrics", "weights"))
]


def solve(
    *,
    prompt: opt.Prompt = None,
    model: opt.ModelUnpacked,
    task: opt.OptionalTask,
    kind: opt.Kind = None,
    judge: opt.UnweightedJudge,
    weights: opt.EitherWeights = None,
    budget: Budget = 10,
    sampler: opt.SamplerFlags,
    trips: opt.TripSettings,
    seed: opt.ProblemSeed = 0,
    as_json: opt.Json = False,
) -> None:
    """Answer a prompt, resampling until an answer is stable."""
    model, judge = opt.with_weights(model, judge, weights)
    opt.require_pool(model, sampler, budget, "--budget")
    verification = read_verifier_flags(judge)
    kind = verification.kind(certified_kind(judge.certificate, kind), task.task)
    query = read_query(prompt, task, kind, seed)
    from remask import api

    given, metrics = _other_scorer(judge, trips, verification), _metrics(judge.metrics)
    criterion = read_criterion(judge, query.kind)
    denoiser = load_model(model)
    context = query_context(
        model.model, denoiser, query, task, source="model", consistency=_scored(judge, trips)
    )
    verification.check(context)
    scorer = _made(given, denoiser, query, trips, metrics, criterion, seed)
    threshold = api.threshold_for(
        denoiser, scorer, kind=query.kind, source="model", given=_given(judge.threshold),
        certificate=criterion.certificate, stops=True,
    )  # fmt: skip
    drawn = verification.sampler(denoiser, query, sampler).for_pool(budget)
    criterion.check(replace(context, sampler=asdict(drawn), budget=budget))
    _show_query(query, as_json)
    decision = api.solve(
        denoiser, query.prompt, kind=query.kind, sampler=drawn, scorer=scorer,
        threshold=threshold.value, budget=budget, seed=seed, examples=query.examples,
        watch=_watcher(threshold, query.kind, silent=as_json),
    )  # fmt: skip
    document = _settings_document(model, query, judge, trips, seed, verification)
    document |= {"weights": criterion.weights, "sampler": asdict(drawn)}
    document |= criterion.verdict(decision.score)
    _show_decision(decision, query, threshold, document, as_json)


def verify(
    *,
    prompt: opt.Prompt = None,
    answer: Answer = None,
    answer_text: AnswerText = None,
    answer_file: AnswerFile = None,
    model: opt.ModelUnpacked,
    task: opt.OptionalTask,
    kind: opt.Kind = None,
    judge: opt.UnweightedJudge,
    weights: opt.EitherWeights = None,
    trips: opt.TripSettings,
    own: Own = False,
    seed: opt.ProblemSeed = 0,
    as_json: opt.Json = False,
) -> None:
    """Say how far to trust an answer you already have.

    With a certificate it is accepted or not, and the promise is shown.
    """
    model, judge = opt.with_weights(model, judge, weights)
    opt.require_model(model)
    verification = read_verifier_flags(judge)
    kind = verification.kind(certified_kind(judge.certificate, kind), task.task)
    query = read_query(prompt, task, kind, seed)
    text = read_answer(answer, answer_text, answer_file)
    from remask import api
    from remask.verifier.threshold import text_source

    given, metrics = _other_scorer(judge, trips, verification), _metrics(judge.metrics)
    criterion = read_criterion(judge, query.kind, at_hand=True)
    denoiser = load_model(model)
    source = text_source(own, judge.scorer, is_fitted=verification.fitted is not None)
    context = query_context(
        model.model, denoiser, query, task, source=source, consistency=_scored(judge, trips)
    )
    verification.check(context)
    scorer = _made(given, denoiser, query, trips, metrics, criterion, seed)
    criterion.check(context)
    threshold = api.threshold_for(
        denoiser, scorer, kind=query.kind, source=source, given=_given(judge.threshold),
        certificate=criterion.certificate,
    )  # fmt: skip
    sample = api.sample_from_text(
        denoiser, query.prompt, text, length=criterion.length or verification.length,
        examples=query.examples,
    )  # fmt: skip
    score = api.score(denoiser, query.prompt, sample, kind=query.kind, scorer=scorer, seed=seed)
    document = _settings_document(model, query, judge, trips, seed, verification)
    document |= {"weights": criterion.weights, "source": source, **criterion.verdict(score)}
    _show_query(query, as_json)
    _show_verdict(denoiser, sample, score, query, threshold, document, as_json)


def score(
    *,
    source: Rows,
    out: opt.Out,
    model: opt.ModelUnpacked,
    columns: Columns,
    kind: opt.Kind = None,
    trips: opt.TripSettings,
    judge: FileJudge,
    weights: opt.EitherWeights = None,
    metrics: Metrics = "paper",
    own: Own = False,
    batch: Batch = 32,
    shard: FileShard = None,
    force: opt.Force = False,
    seed: Seed = 0,
    engine: opt.EngineSettings,
    as_json: opt.Json = False,
) -> None:
    """Score a file of answers, one row out per row in.

    The same command again continues an interrupted run. Every column is kept; added are
    remask_score, remask_stderr, remask_metrics, remask_drift, remask_forwards and remask_error. A
    row that cannot be scored says why in remask_error and the run goes on; the exit code is 1 only
    where every row failed. A broken file is refused before anything is scored. Another scorer than
    round trips is named in a column remask_scorer; with --fitted a column remask_stage says which
    stage settled an answer, remask_reason why a score is no probability. With a certificate a
    column remask_accepted says which answers its promise is about.
    """
    model, judge = opt.with_weights(model, judge, weights)
    opt.require_model(model)
    from remask import api
    from remask.collect import score_file
    from remask.collect.job_shard import JobShard
    from remask.verifier.columns import score_name
    from remask.verifier.threshold import text_source

    part = None if shard is None else JobShard.parse(shard)
    verification = read_verifier_flags(judge)
    read_as = verification.kind(certified_kind(judge.certificate, kind), "") or "number"
    judge = replace(judge, metrics=metrics)
    _other_scorer(judge, trips, verification)
    criterion = read_criterion(judge, read_as, at_hand=True)
    writer = text_source(own, judge.scorer, is_fitted=verification.fitted is not None)
    with backend(engine, model) as place:
        context = model_context(
            model.model, place.precision, api.reader(read_as).name, source=writer,
            consistency=_scored(judge, trips),
        )  # fmt: skip
        criterion.check(context)
        verification.check(context)
        certified = criterion.certificate
        settings = ScoreSettings(
            model=model.model, dtype=place.precision, preset=model.preset, kind=read_as,
            scorer=judge.scorer, metrics=metrics, weights=criterion.weights,
            threshold=None if certified is None else certified.threshold,
            length=criterion.length or verification.length,
            seed=seed, consistency=trips, max_forwards=verification.max_forwards, **columns,
        )  # fmt: skip
        inputs = (judge.weights, judge.certificate, judge.fitted)
        job = score_file.prepare(
            source, out, settings, fitted=verification.fitted, inputs=inputs, force=force,
            shard=part,
        )  # fmt: skip
        done = _complete(job, place, batch)
    name = score_name(judge.scorer, at_hand=True, is_fitted=verification.is_fitted)
    _show_summary(done, out, name, criterion, shard, as_json)
    if done.rows and done.failed == done.rows:
        raise InputError(f"every row failed, the first because {done.first_error}")


def _complete(job: "ScoreJob", place: Backend, batch: int) -> "ScoreSummary":
    """Load the model and score the rows that are left, with a bar."""
    from remask.cli import terminal
    from remask.collect import score_file
    from remask.records.lock import locked

    with locked(job.out):
        denoiser = place.load()
        job = score_file.divided(denoiser, job, batch)
        with terminal.Bar("scoring", len(job.rows), "rows") as bar:
            return score_file.score_file(
                denoiser, job, batch=batch, progress=bar.advance_to, engine=place.engine
            )


def _metrics(text: str) -> "api.Metrics":
    """Return a metric set, or the metrics that are listed."""
    from remask.consistency.metrics import METRICS, find_metric
    from remask.consistency.settings import MetricSet

    if text in get_args(MetricSet):
        return cast(MetricSet, text)
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if ":" not in name and name not in METRICS]
    if unknown:
        known = (*get_args(MetricSet), *METRICS)
        raise unknown_name("metric", unknown[0], known, ", or module:name", UsageError)
    return [find_metric(name) for name in names]


def _other_scorer(
    judge: opt.JudgeSettings, trips: opt.TripSettings, verification: VerifierFlags
) -> "api.AnyScorer | None":
    """Return the scorer where it is not the round trips, which some flags are of."""
    from remask import api
    from remask.extension import resolve

    if judge.scorer == ROUNDTRIPS:
        return None
    usual = {**asdict(opt.JudgeSettings()), **asdict(ConsistencySettings())}
    given = {**asdict(judge), **asdict(trips)}
    for name in ("weights", "metrics", *asdict(trips)):
        if given[name] != usual[name]:
            flag = "--" + name.replace("_", "-")
            raise UsageError(f"{flag} belongs to round trips, not to --scorer {judge.scorer}")
    if judge.scorer == VERIFIER:
        return verification.maker
    return resolve("scorer", judge.scorer, api.SCORERS)


def _made(
    scorer: "api.AnyScorer | None",
    denoiser: "Denoiser",
    query: Query,
    trips: opt.TripSettings,
    metrics: "api.Metrics",
    criterion: Criterion,
    seed: int,
) -> "Scorer":
    """Return the scorer of answers to this query; None is the round trips."""
    from remask import api

    if scorer is None:
        return api.consistency(
            denoiser, kind=query.kind, settings=trips, metrics=metrics,
            weights=criterion.weights, seed=seed,
        )  # fmt: skip
    return api.find_scorer(scorer, denoiser, [query.prompt], kind=query.kind, seed=seed)


def _scored(judge: opt.JudgeSettings, trips: opt.TripSettings) -> dict[str, Any] | None:
    """Return the settings of the round trips; None for other scorers."""
    return asdict(trips) if judge.scorer == ROUNDTRIPS else None


def _settings_document(
    model: opt.ModelSettings,
    query: Query,
    judge: opt.JudgeSettings,
    trips: opt.TripSettings,
    seed: int,
    verification: VerifierFlags,
) -> dict[str, Any]:
    """Return what JSON says of how an answer was scored; round trips have settings."""
    settings = {"kind": query.kind, "scorer": judge.scorer, **verification.document}
    if judge.scorer == ROUNDTRIPS:
        settings = {**asdict(trips), "metrics": judge.metrics, "kind": query.kind}
    about = {"model": model.model, "preset": model.preset or None, "seed": seed}
    packed = {} if model.weights == "full" else {"packed_as": model.weights}
    return {**about, **packed, "settings": settings}


def _show_summary(
    done: "ScoreSummary",
    out: Path,
    scorer: str,
    criterion: Criterion,
    shard: str | None,
    as_json: bool,
) -> None:
    """Print what a scored file amounts to, and the promise where there is a certificate."""
    from remask.cli import terminal

    promise = criterion.sentence()
    if as_json:
        counts = {name: value for name, value in asdict(done).items() if value is not None}
        about = {"out": str(out), "scorer": scorer, **({"shard": shard} if shard else {})}
        print_json({**about, **counts, **({"promise": promise} if promise else {})})
    else:
        before = f" ({done.resumed} by an earlier run)" if done.resumed else ""
        accepted = "" if done.accepted is None else f" {done.accepted} accepted,"
        spent = f"{done.failed} failed, {done.forwards:,} forwards"
        which = f"shard {shard}: " if shard else ""
        terminal.say(f"{which}{done.rows} rows{before},{accepted} {spent}: {out}")
        if promise:
            terminal.say(promise)


def _show_decision(
    decision: "Decision",
    query: Query,
    threshold: "ScoreThreshold",
    document: dict[str, Any],
    as_json: bool,
) -> None:
    """Print what was decided, with its grade where the truth is known."""
    from remask import api
    from remask.cli import json_output, terminal

    extract = api.reader(query.kind).extract
    graded = query.grade(decision.sample.text)
    if as_json:
        result = json_output.decided(decision, threshold, extract)
        print_json({"prompt": query.prompt, **document, **result, **graded})
    else:
        terminal.show_decision(decision, threshold, extract(decision.sample.text), graded)
        _say_promise(document)


def _show_query(query: Query, as_json: bool) -> None:
    """Print a question that was drawn; the user's own is known."""
    from remask.cli import terminal

    if query.problem is not None and not as_json:
        terminal.show_question(query.prompt, query.problem.id)


def _show_verdict(
    denoiser: "Denoiser",
    sample: "Sample",
    score: "Score",
    query: Query,
    threshold: "ScoreThreshold",
    document: dict[str, Any],
    as_json: bool,
) -> None:
    """Print an answer with its score, and with its grade where the truth is known."""
    from remask import api
    from remask.cli import json_output, terminal

    extract = api.reader(query.kind).extract
    tokens, graded = sample.canvas[: sample.num_response], query.grade(sample.text)
    if as_json:
        result = json_output.scored(sample.text, score, threshold, extract)
        pieces = denoiser.tokenizer.pieces(tokens)
        result |= {"forwards": score.forwards, "tokens": pieces, "drift": score.drift}
        result |= {"logp": score.logp} if score.logp else {}
        print_json({"prompt": query.prompt, **document, **result, **graded})
    else:
        lost = score.drift or terminal.doubts(score.logp)
        spans = terminal.spans(denoiser.tokenizer, tokens, lost)
        terminal.show_verdict(score, threshold, spans, extract(sample.text), graded)
        _say_promise(document)


def _say_promise(document: Mapping[str, Any]) -> None:
    """Print whether the answer is accepted, and the promise; nothing where there is none."""
    from remask.cli import terminal

    if "promise" in document:
        verdict = "accepted" if document["accepted"] else "not accepted"
        terminal.say(f"{verdict}. {document['promise']}")


def _watcher(
    threshold: "ScoreThreshold", kind: str, *, silent: bool
) -> "Callable[[Sample, Score], None]":
    """Return what shows each attempt as it comes."""
    from remask import api
    from remask.cli import terminal

    extract = api.reader(kind).extract

    def watch(sample: "Sample", score: "Score") -> None:
        if not silent:
            terminal.show_attempt(sample, score, threshold, extract(sample.text))

    return watch


def _given(threshold: float | None) -> float | None:
    """Return the threshold that was given, or raise where it is none."""
    if threshold is not None and not math.isfinite(threshold):
        raise UsageError(f"--threshold {threshold} is not a finite number")
    return threshold
