"""Commands on answers: draw and check one (solve), check one (verify), check a file (score)."""

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from remask import options as opt
from remask.cli.app import app, load_model, print_json
from remask.cli.promise import read_promise
from remask.errors import InputError

if TYPE_CHECKING:
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
    dtype: opt.Precision = "auto",
    as_json: opt.Json = False,
) -> None:
    """Answer a prompt, resampling until an answer is stable."""
    opt.require_model(model)
    rows = opt.Rows(data, wording, allow_execution)
    asked = opt.question(prompt, task, level, kind, seed, rows)
    from remask import api, paint

    promise = read_promise(weights, certificate, asked.kind, metrics, threshold)
    settings = opt.consistency(mask_ratio, mask_design, trips, rebuild_steps, rebuild_temperature)
    denoiser = load_model(model, device, dtype, preset)
    limit = _limit(denoiser, asked, promise.threshold(threshold))
    sampler = opt.sampler(
        denoiser, asked, preset=preset, temperature=temperature, steps=steps, length=length,
        block=block, order=order, reveal_threshold=reveal_threshold, edit_threshold=edit_threshold,
    )  # fmt: skip
    trip = asdict(settings)
    promise.check(budget, asked, model=model, sampler=asdict(sampler), consistency=trip)
    extract = api.reader(asked.kind).extract
    if asked.problem is not None and not as_json:
        paint.show_question(asked.prompt, asked.problem.id)
    decision = api.solve(
        denoiser, asked.prompt, kind=asked.kind, sampler=sampler, settings=settings,
        metrics=metrics, weights=promise.weights, threshold=limit, budget=budget, seed=seed,
        watch=_watcher(limit, extract, silent=as_json),
    )  # fmt: skip
    about: dict[str, Any] = {"model": model, "preset": preset or None, "seed": seed}
    about |= {"settings": {**trip, "metrics": metrics, "kind": asked.kind}}
    about |= {"weights": promise.weights, "sampler": asdict(sampler)}
    _show_decision(decision, asked, limit, about, as_json)


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
    allow_execution: opt.AllowExecution = False,
    kind: opt.Kind = None,
    threshold: opt.Threshold = None,
    preset: opt.Preset = "",
    trips: opt.Trips = 4,
    rebuild_steps: opt.RebuildSteps = 16,
    mask_ratio: opt.MaskRatio = "0.9",
    mask_design: opt.Design = "independent",
    rebuild_temperature: opt.RebuildTemperature = 0.0,
    metrics: opt.Metrics = "paper",
    seed: opt.ProblemSeed = 0,
    device: opt.Device = "auto",
    dtype: opt.Precision = "auto",
    as_json: opt.Json = False,
) -> None:
    """Say how far to trust an answer you already have."""
    opt.require_model(model)
    rows = opt.Rows(data, wording, allow_execution)
    asked = opt.question(prompt, task, level, kind, seed, rows)
    text = opt.answer(answer, answer_text, answer_file)
    from remask import api, documents, paint

    settings = opt.consistency(mask_ratio, mask_design, trips, rebuild_steps, rebuild_temperature)
    denoiser = load_model(model, device, dtype, preset)
    limit = _limit(denoiser, asked, threshold)
    scorer = api.consistency(
        denoiser, kind=asked.kind, settings=settings, metrics=metrics, seed=seed
    )
    sample = api.bring(denoiser, asked.prompt, text)
    score = scorer.score([sample])[0]
    tokens, graded = sample.canvas[: sample.num_response], asked.grade(text)
    if asked.problem is not None and not as_json:
        paint.show_question(asked.prompt, asked.problem.id)
    if not as_json:
        spans = paint.spans(denoiser.tokenizer, tokens, score.drift)
        paint.show_verdict(score, limit, spans, scorer.extract(text), graded)
        return
    print_json(
        {"model": model, "prompt": asked.prompt, "preset": preset or None}
        | {**documents.scored(text, score, limit, scorer.extract), **graded}
        | {"threshold": limit, "forwards": score.forwards, "seed": seed}
        | {"tokens": denoiser.tokenizer.pieces(tokens), "drift": score.drift}
        | {"settings": {**asdict(settings), "metrics": metrics, "kind": asked.kind}}
    )


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
    batch: opt.Batch = 32,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    dtype: opt.Precision = "auto",
    as_json: opt.Json = False,
) -> None:
    """Score a file of answers, one row out per row in.

    The same command again continues an interrupted run. Every column is kept; added are
    remask_score, remask_stderr, remask_metrics, remask_drift, remask_forwards and remask_error. A
    row that cannot be scored says why in remask_error and the run goes on; the exit code is 1 only
    where every row failed. A broken file is refused before anything is scored.
    """
    opt.require_model(model)
    from remask import jobs, paint
    from remask.denoisers.load import choose_devices, choose_dtype

    precision = str(choose_dtype(dtype, choose_devices(device)[0])).removeprefix("torch.")
    settings = jobs.ScoreSettings(
        model=model, dtype=precision, preset=preset, kind=kind or "number", metrics=metrics,
        weights=read_promise(weights, None, kind or "number", metrics).weights,
        seed=seed,
        prompt_column=prompt_column, answer_column=answer_column,
        consistency=opt.consistency(
            mask_ratio, mask_design, trips, rebuild_steps, rebuild_temperature
        ),
    )  # fmt: skip
    job = jobs.prepare(source, out, settings)
    denoiser = load_model(model, device, dtype, preset)
    with paint.Bar("scoring", len(job.table.rows), "rows") as bar:
        done = jobs.score_file(denoiser, job, batch=batch, progress=bar.advance_to)
    if as_json:
        print_json({"out": str(out), **asdict(done)})
    else:
        before = f" ({done.resumed} by an earlier run)" if done.resumed else ""
        counts = f"{done.rows} rows{before}, {done.failed} failed, {done.forwards:,} forwards"
        paint.say(f"{counts}: {out}")
    if done.rows and done.failed == done.rows:
        raise InputError(f"every row failed, the first because {done.first_error}")


def _show_decision(
    decision: "Decision", asked: opt.Question, limit: float, about: dict[str, Any], as_json: bool
) -> None:
    """Print what was decided, with its grade where the truth is known."""
    from remask import api, documents, paint

    extract = api.reader(asked.kind).extract
    graded = asked.grade(decision.sample.text)
    if as_json:
        told = documents.decided(decision, limit, extract)
        print_json({"prompt": asked.prompt, "threshold": limit, **about, **told, **graded})
    else:
        paint.show_decision(decision, extract(decision.sample.text), graded)


def _watcher(
    limit: float, extract: Callable[[str], str | None], *, silent: bool
) -> "Callable[[Sample, Score], None]":
    """Return what shows each attempt as it comes."""
    from remask import paint

    def watch(sample: "Sample", score: "Score") -> None:
        if not silent:
            paint.show_attempt(sample, score, limit, extract(sample.text))

    return watch


def _limit(denoiser: "Denoiser", asked: opt.Question, threshold: float | None) -> float:
    if threshold is None:
        return denoiser.preset.for_task(asked.kind).threshold
    if not math.isfinite(threshold):
        raise opt.UsageError(f"--threshold {threshold} is not a finite number")
    return threshold
