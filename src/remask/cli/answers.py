"""Commands on answers: draw and check one (solve), check one (verify), check a file (score)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remask.cli import flags as opt
from remask.cli.app import app, load_model, print_json
from remask.cli.certificate import asked_settings, certified_kind, model_settings, read_promise
from remask.cli.engines import Asked, place
from remask.collect.settings import ScoreSettings
from remask.errors import InputError

if TYPE_CHECKING:
    from remask.collect.score_file import ScoreSummary
    from remask.denoisers.base import Denoiser
    from remask.values import Decision, Sample, Score


@app.command()
def solve(
    prompt: opt.Prompt = None,
    model: opt.Model = "",
    task: opt.TaskName = "",
    level: opt.Level = "",
    data: opt.Data = None,
    wording: opt.Wording = "llada",
    shots: opt.Shots = 0,
    allow_execution: opt.AllowExecution = False,
    kind: opt.Kind = None,
    threshold: opt.Threshold = None,
    weights: opt.WeightsFile = None,
    certificate: opt.CertificateFile = None,
    budget: opt.Budget = 10,
    preset: opt.Preset = "",
    temperature: opt.Temperature = None,
    steps: opt.Steps = None,
    length: opt.Length = None,
    block: opt.Block = None,
    order: opt.Order = None,
    reveal_threshold: opt.RevealThreshold = None,
    edit_threshold: opt.EditThreshold = None,
    trips: opt.Trips = 4,
    rebuild_steps: opt.RebuildSteps = 16,
    mask_ratio: opt.MaskRatio = "0.9",
    mask_design: opt.Design = "independent",
    rebuild_temperature: opt.RebuildTemperature = 0.0,
    metrics: opt.Metrics = "paper",
    seed: opt.ProblemSeed = 0,
    device: opt.Device = "auto",
    split: opt.Layout = "replicas",
    dtype: opt.Precision = "auto",
    as_json: opt.Json = False,
) -> None:
    """Answer a prompt, resampling until an answer is stable."""
    opt.require_pool(model, temperature, budget, "--budget")
    rows = opt.Rows(data, wording, allow_execution, shots)
    asked = opt.question(prompt, task, level, certified_kind(certificate, kind), seed, rows)
    from remask import api

    promise = read_promise(weights, certificate, asked.kind, metrics, threshold)
    settings = opt.consistency(mask_ratio, mask_design, trips, rebuild_steps, rebuild_temperature)
    denoiser = load_model(model, device, dtype, preset, split)
    limit = _limit(denoiser, asked, promise.threshold(threshold))
    sampler = opt.sampler(
        denoiser, asked, temperature=temperature, steps=steps, length=length,
        block=block, order=order, reveal_threshold=reveal_threshold, edit_threshold=edit_threshold,
    ).for_pool(budget)  # fmt: skip
    same = asked_settings(model, denoiser, rows)
    promise.check(budget, asked, sampler=asdict(sampler), consistency=asdict(settings), **same)
    _show_question(asked, as_json)
    decision = api.solve(
        denoiser, asked.prompt, kind=asked.kind, sampler=sampler, settings=settings,
        metrics=metrics, weights=promise.weights, threshold=limit, budget=budget, seed=seed,
        examples=asked.examples, watch=_watcher(limit, asked.kind, silent=as_json),
    )  # fmt: skip
    about: dict[str, Any] = {"model": model, "preset": preset or None, "seed": seed}
    about |= {"settings": {**asdict(settings), "metrics": metrics, "kind": asked.kind}}
    about |= {"weights": promise.weights, "sampler": asdict(sampler)}
    _show_decision(decision, asked, limit, about | promise.told(decision.score), as_json)


@app.command()
def verify(
    prompt: opt.Prompt = None,
    answer: opt.Answer = None,
    answer_text: opt.AnswerText = None,
    answer_file: opt.AnswerFile = None,
    model: opt.Model = "",
    task: opt.TaskName = "",
    level: opt.Level = "",
    data: opt.Data = None,
    wording: opt.Wording = "llada",
    shots: opt.Shots = 0,
    allow_execution: opt.AllowExecution = False,
    kind: opt.Kind = None,
    threshold: opt.Threshold = None,
    weights: opt.WeightsFile = None,
    certificate: opt.CertificateFile = None,
    preset: opt.Preset = "",
    trips: opt.Trips = 4,
    rebuild_steps: opt.RebuildSteps = 16,
    mask_ratio: opt.MaskRatio = "0.9",
    mask_design: opt.Design = "independent",
    rebuild_temperature: opt.RebuildTemperature = 0.0,
    metrics: opt.Metrics = "paper",
    seed: opt.ProblemSeed = 0,
    device: opt.Device = "auto",
    split: opt.Layout = "replicas",
    dtype: opt.Precision = "auto",
    as_json: opt.Json = False,
) -> None:
    """Say how far to trust an answer you already have.

    With a certificate it is accepted or not, and the promise is told.
    """
    opt.require_model(model)
    rows = opt.Rows(data, wording, allow_execution, shots)
    asked = opt.question(prompt, task, level, certified_kind(certificate, kind), seed, rows)
    text = opt.answer(answer, answer_text, answer_file)
    from remask import api

    promise = read_promise(weights, certificate, asked.kind, metrics, threshold)
    settings = opt.consistency(mask_ratio, mask_design, trips, rebuild_steps, rebuild_temperature)
    denoiser = load_model(model, device, dtype, preset, split)
    same = asked_settings(model, denoiser, rows)
    promise.check(1, asked, consistency=asdict(settings), **same)
    limit = _limit(denoiser, asked, promise.threshold(threshold))
    sample = api.sample_from_text(
        denoiser, asked.prompt, text, length=promise.length, examples=asked.examples
    )
    score = api.score(
        denoiser, asked.prompt, sample, kind=asked.kind, settings=settings, metrics=metrics,
        weights=promise.weights, seed=seed,
    )  # fmt: skip
    about: dict[str, Any] = {"model": model, "preset": preset or None, "seed": seed}
    about |= {"settings": {**asdict(settings), "metrics": metrics, "kind": asked.kind}}
    about |= {"weights": promise.weights, "threshold": limit, **promise.told(score)}
    _show_question(asked, as_json)
    _show_verdict(denoiser, sample, score, asked, about, as_json)


@app.command()
def score(
    source: opt.Source,
    out: opt.Out,
    model: opt.Model = "",
    prompt_column: opt.PromptColumn = "prompt",
    answer_column: opt.AnswerColumn = "answer",
    kind: opt.Kind = None,
    preset: opt.Preset = "",
    trips: opt.Trips = 4,
    rebuild_steps: opt.RebuildSteps = 16,
    mask_ratio: opt.MaskRatio = "0.9",
    mask_design: opt.Design = "independent",
    rebuild_temperature: opt.RebuildTemperature = 0.0,
    metrics: opt.Metrics = "paper",
    weights: opt.WeightsFile = None,
    certificate: opt.CertificateFile = None,
    batch: opt.Batch = 32,
    force: opt.Force = False,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    split: opt.Layout = "replicas",
    dtype: opt.Precision = "auto",
    engine: opt.Engine = "local",
    workers: opt.Workers = None,
    address: opt.Address = "",
    as_json: opt.Json = False,
) -> None:
    """Score a file of answers, one row out per row in.

    The same command again continues an interrupted run. Every column is kept; added are
    remask_score, remask_stderr, remask_metrics, remask_drift, remask_forwards and remask_error. A
    row that cannot be scored says why in remask_error and the run goes on; the exit code is 1 only
    where every row failed. A broken file is refused before anything is scored. With a certificate
    a column remask_accepted says which answers its promise is about.
    """
    opt.require_model(model)
    from remask.cli import terminal
    from remask.collect import score_file

    read_as = certified_kind(certificate, kind) or "number"
    promise = read_promise(weights, certificate, read_as, metrics)
    trip = opt.consistency(mask_ratio, mask_design, trips, rebuild_steps, rebuild_temperature)
    with place(Asked(engine, workers, address), model, device, dtype, preset, split) as where:
        same = model_settings(model, where.precision)
        promise.check(1, opt.Question("", read_as), consistency=asdict(trip), **same)
        settings = ScoreSettings(
            model=model, dtype=where.precision, preset=preset, kind=read_as, metrics=metrics,
            weights=promise.weights, threshold=promise.threshold(None), length=promise.length,
            seed=seed, prompt_column=prompt_column, answer_column=answer_column, consistency=trip,
        )  # fmt: skip
        read = (weights, certificate)
        job = score_file.prepare(source, out, settings, inputs=read, force=force)
        denoiser = where.load()
        with terminal.Bar("scoring", len(job.table), "rows") as bar:
            done = score_file.score_file(
                denoiser, job, batch=batch, progress=bar.advance_to, engine=where.engine
            )
    _show_summary(done, out, promise.sentence() if promise.certificate else None, as_json)
    if done.rows and done.failed == done.rows:
        raise InputError(f"every row failed, the first because {done.first_error}")


def _show_summary(done: "ScoreSummary", out: Path, promised: str | None, as_json: bool) -> None:
    """Print what a scored file amounts to, and the promise where there is one."""
    from remask.cli import terminal

    if as_json:
        counts = {name: value for name, value in asdict(done).items() if value is not None}
        told = {} if promised is None else {"promise": promised}
        print_json({"out": str(out), **counts, **told})
    else:
        before = f" ({done.resumed} by an earlier run)" if done.resumed else ""
        kept = "" if done.accepted is None else f" {done.accepted} accepted,"
        spent = f"{done.failed} failed, {done.forwards:,} forwards"
        terminal.say(f"{done.rows} rows{before},{kept} {spent}: {out}")
        if promised is not None:
            terminal.say(promised)


def _show_decision(
    decision: "Decision", asked: opt.Question, limit: float, about: dict[str, Any], as_json: bool
) -> None:
    """Print what was decided, with its grade where the truth is known."""
    from remask import api
    from remask.cli import json_output, terminal

    extract = api.reader(asked.kind).extract
    graded = asked.grade(decision.sample.text)
    if as_json:
        told = json_output.decided(decision, limit, extract)
        print_json({"prompt": asked.prompt, "threshold": limit, **about, **told, **graded})
    else:
        terminal.show_decision(decision, extract(decision.sample.text), graded)
        _say_promise(about)


def _show_question(asked: opt.Question, as_json: bool) -> None:
    """Print a question that was drawn; the user's own is known."""
    from remask.cli import terminal

    if asked.problem is not None and not as_json:
        terminal.show_question(asked.prompt, asked.problem.id)


def _show_verdict(
    denoiser: "Denoiser",
    sample: "Sample",
    score: "Score",
    asked: opt.Question,
    about: dict[str, Any],
    as_json: bool,
) -> None:
    """Print an answer with its score, and with its grade where the truth is known."""
    from remask import api
    from remask.cli import json_output, terminal

    extract, limit = api.reader(asked.kind).extract, about["threshold"]
    tokens, graded = sample.canvas[: sample.num_response], asked.grade(sample.text)
    if as_json:
        told = json_output.scored(sample.text, score, limit, extract)
        pieces = denoiser.tokenizer.pieces(tokens)
        told |= {"forwards": score.forwards, "tokens": pieces, "drift": score.drift}
        print_json({"prompt": asked.prompt, **about, **told, **graded})
    else:
        spans = terminal.spans(denoiser.tokenizer, tokens, score.drift)
        terminal.show_verdict(score, limit, spans, extract(sample.text), graded)
        _say_promise(about)


def _say_promise(told: Mapping[str, Any]) -> None:
    """Print whether the answer is accepted, and the promise; nothing where there is none."""
    from remask.cli import terminal

    if "promise" in told:
        terminal.say(f"{'accepted' if told['accepted'] else 'not accepted'}. {told['promise']}")


def _watcher(limit: float, kind: str, *, silent: bool) -> "Callable[[Sample, Score], None]":
    """Return what shows each attempt as it comes."""
    from remask import api
    from remask.cli import terminal

    extract = api.reader(kind).extract

    def watch(sample: "Sample", score: "Score") -> None:
        if not silent:
            terminal.show_attempt(sample, score, limit, extract(sample.text))

    return watch


def _limit(denoiser: "Denoiser", asked: opt.Question, threshold: float | None) -> float:
    if threshold is None:
        return denoiser.preset.for_task(asked.kind).threshold
    if not math.isfinite(threshold):
        raise opt.UsageError(f"--threshold {threshold} is not a finite number")
    return threshold
