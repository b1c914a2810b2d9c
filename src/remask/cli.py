"""The command line: parses, calls, prints. Nothing is decided here.

Nothing heavy is imported before a command runs, so that `remask --help` answers at once. A user's
mistake ends in one sentence on standard error: exit code 2 for usage, 1 for failure. Results go to
standard output, progress to standard error; under --json standard output holds JSON alone.
"""

import json
import math
import sys
import warnings
from dataclasses import asdict
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remask import options as opt
from remask.errors import InputError, RemaskError

if TYPE_CHECKING:
    from remask.denoisers.base import Denoiser
    from remask.values import Sample, Score

app = typer.Typer(
    name="remask",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Know when a diffusion language model is wrong."""
    if version:
        from importlib import metadata

        print(metadata.version("remask"))
    elif context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def solve(
    prompt: opt.Prompt = None,
    model: opt.Model = "",
    task: opt.TaskName = "",
    level: opt.Level = "",
    kind: opt.Kind = None,
    threshold: opt.Threshold = None,
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
    asked = opt.question(prompt, task, level, kind, seed)
    from remask import api, documents, paint

    settings = opt.consistency(mask_ratio, mask_design, trips, rebuild_steps, rebuild_temperature)
    denoiser = _load(model, device, dtype, preset)
    limit = _limit(denoiser, asked, threshold)
    sampler = opt.sampler(
        denoiser, asked, preset=preset, temperature=temperature, steps=steps, length=length,
        block=block, order=order, reveal_threshold=reveal_threshold, edit_threshold=edit_threshold,
    )  # fmt: skip
    extract = api.reader(asked.kind).extract

    def watch(sample: "Sample", score: "Score") -> None:
        if not as_json:
            paint.show_attempt(sample, score, limit, extract(sample.text))

    if asked.problem is not None and not as_json:
        paint.show_question(asked.prompt, asked.problem.id)
    decision = api.solve(
        denoiser, asked.prompt, kind=asked.kind, sampler=sampler, settings=settings,
        metrics=metrics, threshold=limit, budget=budget, seed=seed, watch=watch,
    )  # fmt: skip
    graded = asked.grade(decision.sample.text)
    if not as_json:
        paint.show_decision(decision, extract(decision.sample.text), graded)
        return
    _print_json(
        {"model": model, "prompt": asked.prompt, "preset": preset or None, "threshold": limit}
        | {**documents.decided(decision, limit, extract), **graded, "sampler": asdict(sampler)}
        | {"settings": {**asdict(settings), "metrics": metrics, "kind": asked.kind}, "seed": seed}
    )


@app.command()
def verify(
    prompt: opt.Prompt = None,
    answer: opt.Answer = None,
    answer_text: opt.AnswerText = None,
    answer_file: opt.AnswerFile = None,
    model: opt.Model = "",
    task: opt.TaskName = "",
    level: opt.Level = "",
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
    asked = opt.question(prompt, task, level, kind, seed)
    text = opt.answer(answer, answer_text, answer_file)
    from remask import api, documents, paint

    settings = opt.consistency(mask_ratio, mask_design, trips, rebuild_steps, rebuild_temperature)
    denoiser = _load(model, device, dtype, preset)
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
    _print_json(
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
        seed=seed,
        prompt_column=prompt_column, answer_column=answer_column,
        consistency=opt.consistency(
            mask_ratio, mask_design, trips, rebuild_steps, rebuild_temperature
        ),
    )  # fmt: skip
    job = jobs.prepare(source, out, settings)
    denoiser = _load(model, device, dtype, preset)
    with paint.Bar("scoring", len(job.table.rows), "rows") as bar:
        done = jobs.score_file(denoiser, job, batch=batch, progress=bar.advance_to)
    if as_json:
        _print_json({"out": str(out), **asdict(done)})
    else:
        before = f" ({done.resumed} by an earlier run)" if done.resumed else ""
        counts = f"{done.rows} rows{before}, {done.failed} failed, {done.forwards:,} forwards"
        paint.say(f"{counts}: {out}")
    if done.rows and done.failed == done.rows:
        raise InputError(f"every row failed, the first because {done.first_error}")


@app.command()
def collect(
    out: opt.Out,
    task: opt.RequiredTask,
    model: opt.Model = "",
    level: opt.Level = "",
    split: opt.Split = "test",
    problems: opt.Problems = 32,
    samples: opt.Samples = 1,
    scored: opt.Scored = 1,
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
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    dtype: opt.Precision = "auto",
    as_json: opt.Json = False,
) -> None:
    """Answer, grade and score generated problems.

    One JSON line per sample; the same command again continues an interrupted run.
    """
    opt.require_model(model)
    from remask import paint, records
    from remask.studies.collect import CollectSettings
    from remask.studies.collect import collect as run

    asked = opt.question(None, task, level, None, 0)
    trip = opt.consistency(mask_ratio, mask_design, trips, rebuild_steps, rebuild_temperature)
    denoiser = _load(model, device, dtype, preset)
    settings = CollectSettings(
        task=task, level=level, split=split, problems=problems, samples=samples, scored=scored,
        sampler=opt.sampler(
            denoiser, asked, preset=preset, temperature=temperature, steps=steps, length=length,
            block=block, order=order, reveal_threshold=reveal_threshold,
            edit_threshold=edit_threshold,
        ),
        consistency=trip, metrics=metrics, seed=seed,
        # A chunk is what a kill can cost: a CPU works minutes on what a GPU does in seconds.
        chunk=256 if denoiser.device.type == "cuda" else 8,
    )  # fmt: skip
    with paint.Bar("collecting", problems, "problems") as bar:
        run(denoiser, settings, out, progress=bar.advance_to)
    num_rows = sum(1 for _ in records.read(out))
    if as_json:
        _print_json({"out": str(out), "problems": problems, "rows": num_rows})
    else:
        paint.say(f"{problems} problems, {num_rows} rows: {out}")


@app.command()
def train(
    out: Annotated[Path, typer.Option(help="Folder for checkpoints, log and the finished model.")],
    init: Annotated[
        Path | None, typer.Option(help="Checkpoint folder to start from; its shape must fit.")
    ] = None,
    steps: Annotated[int, typer.Option(help="Optimizer updates.")] = 27_000,
    batch: Annotated[int, typer.Option(help="Problems per update.")] = 512,
    lr: Annotated[float, typer.Option(help="Peak learning rate of Muon and AdamW.")] = 1.2e-3,
    layers: Annotated[int, typer.Option(help="Transformer blocks.")] = 7,
    width: Annotated[int, typer.Option(help="Hidden width.")] = 320,
    heads: Annotated[int, typer.Option(help="Attention heads.")] = 5,
    inner: Annotated[int, typer.Option(help="Width inside the MLP.")] = 768,
    mix: Annotated[
        str, typer.Option(help="Task shares, as in wordmath=0.4,choice=0.6; all by default.")
    ] = "",
    seed: Annotated[int, typer.Option(help="Seed of data, weights and noise.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes that generate problems.")] = 1,
    device: opt.OneDevice = "auto",
    eval_every: Annotated[int, typer.Option(help="Updates between held-out accuracies.")] = 2_000,
    eval_problems: Annotated[int, typer.Option(help="Held-out problems per task, level.")] = 64,
    as_json: opt.JsonLines = False,
) -> None:
    """Train a small LLaDA on generated problems.

    The same command again continues an interrupted run.
    """
    named = opt.shares(mix)
    from remask import paint
    from remask.pretrain.trainer import MIX, TrainSettings
    from remask.pretrain.trainer import train as run

    settings = TrainSettings(
        out=out, init=init, steps=steps, batch=batch, lr=lr, layers=layers, width=width,
        heads=heads, inner=inner, mix=named or MIX, seed=seed, workers=workers, device=device,
        eval_every=eval_every, eval_problems=eval_problems,
    )  # fmt: skip

    def say(line: str) -> None:
        print(line if as_json else paint.training_line(json.loads(line), steps), flush=True)

    folder = run(settings, say=say)
    say(json.dumps({"model": str(folder)}))


@app.command()
def demo(
    out: opt.OutFolder = Path("demo-output"),
    problems: opt.Problems = 32,
    samples: opt.Samples = 3,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    as_json: opt.Json = False,
) -> int:
    """Watch the embedded model catch its own errors."""
    from remask.demo import run

    return run(
        out=out, problems=problems, samples=samples, seed=seed, device=device, as_json=as_json
    )


@app.command()
def models(
    name: Annotated[str, typer.Argument(metavar="[ID]", help="Show this one's presets.")] = "",
    as_json: opt.Json = False,
) -> None:
    """List published models; with an id, its authors' presets."""
    from remask import doctor, paint

    found: Any = doctor.model(name) if name else doctor.models()
    if as_json:
        _print_json(found)
    elif name:
        paint.show_model(found)
    else:
        paint.show_models(found)


@app.command(name="doctor")
def examine(
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="Say whether this one fits in memory.")
    ] = "",
    as_json: opt.Json = False,
) -> None:
    """Say what is installed, what is missing, what fits in memory."""
    from remask import doctor, paint

    found = doctor.estimate(model) if model else doctor.examine()
    if as_json:
        _print_json(found)
    elif model:
        paint.show_estimate(found)
    else:
        paint.show_examination(found)


def _load(model: str, device: str, dtype: str, preset: str) -> "Denoiser":
    from remask import paint
    from remask.denoisers.load import load
    from remask.denoisers.presets import Unmet, official

    note = official(model, preset).note if preset else ""
    if note:
        print(f"remask: {_written_out(note)}", file=sys.stderr)
    with paint.waiting(f"loading {model}"), warnings.catch_warnings():
        warnings.simplefilter("ignore", Unmet)  # it has just been told
        return load(model, device=device, dtype=dtype, preset=preset)


def _limit(denoiser: "Denoiser", asked: opt.Question, threshold: float | None) -> float:
    if threshold is None:
        return denoiser.preset.for_task(asked.kind).threshold
    if not math.isfinite(threshold):
        raise opt.UsageError(f"--threshold {threshold} is not a finite number")
    return threshold


def _print_json(value: Any) -> None:
    # Escapes keep the document valid whatever the terminal's encoding.
    print(json.dumps(value, allow_nan=False))


def main() -> None:
    """Run the command line; a mistake is one sentence, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
    except RemaskError as error:
        _fail(str(error), 1)
    except opt.UsageError as error:
        command = error.ctx.command_path if error.ctx else "remask"
        _fail(f"{error.format_message().rstrip('.')}; see {command} --help.", 2)
    except OSError as error:
        where = f"cannot use {error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}.", 1)
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    if code == 130:
        _fail("interrupted; score, collect and train continue when called again.", 130)
    sys.exit(code or 0)


def _fail(sentence: str, code: int) -> None:
    """Leave with one line on standard error."""
    print(f"remask: {_written_out(sentence)}", file=sys.stderr)
    sys.exit(code)


def _written_out(sentence: str) -> str:
    """Return the sentence with what a terminal might obey spelled."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in sentence)


if __name__ == "__main__":
    main()
