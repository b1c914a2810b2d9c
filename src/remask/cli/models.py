"""Commands on models and machines: train one, watch one, list them, say what fits."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from remask.cli import flags as opt
from remask.cli.app import app, print_json
from remask.records import outputs


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
    from remask.cli import terminal
    from remask.pretrain.settings import MIX, TrainSettings
    from remask.pretrain.trainer import train as run

    settings = TrainSettings(
        out=out, init=init, steps=steps, batch=batch, lr=lr, layers=layers, width=width,
        heads=heads, inner=inner, mix=named or MIX, seed=seed, workers=workers, device=device,
        eval_every=eval_every, eval_problems=eval_problems,
    )  # fmt: skip

    def say(line: str) -> None:
        typer.echo(line if as_json else terminal.training_line(json.loads(line), steps))

    folder = run(settings, say=say)
    say(json.dumps({"model": str(folder)}))


@app.command()
def demo(
    out: opt.OutFolder = Path("demo-output"),
    problems: opt.Problems = 32,
    samples: opt.Samples = 3,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    split: opt.Layout = "replicas",
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> int:
    """Watch the embedded model catch its own errors."""
    earlier = (out / "summary.json").is_file() and (out / "records.jsonl").is_file()
    outputs.claim_folder(out, is_ours=earlier, force=force)
    from remask.cli.demonstration import run

    return run(
        out=out,
        problems=problems,
        samples=samples,
        seed=seed,
        device=device,
        split=split,
        as_json=as_json,
    )


@app.command()
def models(
    name: Annotated[str, typer.Argument(metavar="[ID]", help="Show this one's presets.")] = "",
    as_json: opt.Json = False,
) -> None:
    """List published models; with an id, its authors' presets."""
    from remask.cli import listing, terminal

    found: Any = listing.model(name) if name else listing.models()
    if as_json:
        print_json(found)
    elif name:
        terminal.show_model(found)
    else:
        terminal.show_models(found)


@app.command(name="doctor")
def examine(
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="Say whether this one fits in memory.")
    ] = "",
    no_device: opt.NoDevice = False,
    as_json: opt.Json = False,
) -> None:
    """Say what is installed, what is missing, what fits in memory."""
    if no_device and model:
        raise opt.UsageError(
            f"whether {model} fits is asked of a device: leave --no-device out, or see its size "
            "with remask models"
        )
    from remask.cli import terminal

    if no_device:
        from remask.cli.listing import installed

        found = installed()
    else:
        from remask.cli import doctor

        found = doctor.estimate(model) if model else doctor.examine()
    if as_json:
        print_json(found)
    elif model:
        terminal.show_estimate(found)
    else:
        terminal.show_examination(found)
