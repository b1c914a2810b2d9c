"""The command line: parses, calls, prints. Nothing is decided here.

Nothing heavy is imported before a command runs, so that `remask --help` answers at once. A user's
mistake ends in one sentence on standard error: exit code 2 for usage, 1 for failure.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from remask.errors import RemaskError

app = typer.Typer(
    name="remask",
    help="Know when a diffusion language model is wrong.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command()
def train(
    out: Annotated[Path, typer.Option(help="Folder for checkpoints, log and the finished model.")],
    steps: Annotated[int, typer.Option(help="Optimizer updates.")] = 20_000,
    batch: Annotated[int, typer.Option(help="Problems per update.")] = 512,
    lr: Annotated[float, typer.Option(help="Peak learning rate of Muon and AdamW.")] = 1.2e-3,
    layers: Annotated[int, typer.Option(help="Transformer blocks.")] = 8,
    width: Annotated[int, typer.Option(help="Hidden width.")] = 384,
    heads: Annotated[int, typer.Option(help="Attention heads.")] = 6,
    inner: Annotated[int, typer.Option(help="Width inside the MLP.")] = 1024,
    mix: Annotated[
        str, typer.Option(help="Task shares, as in wordmath=0.4,choice=0.6; all by default.")
    ] = "",
    seed: Annotated[int, typer.Option(help="Seed of data, weights and noise.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes that generate problems.")] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    eval_every: Annotated[int, typer.Option(help="Updates between held-out accuracies.")] = 2_000,
    eval_problems: Annotated[int, typer.Option(help="Held-out problems per task, level.")] = 64,
) -> None:
    """Train a small LLaDA on generated problems; the same command again resumes."""
    from remask.pretrain.trainer import MIX, TrainSettings
    from remask.pretrain.trainer import train as run

    settings = TrainSettings(
        out=out, steps=steps, batch=batch, lr=lr, layers=layers, width=width, heads=heads,
        inner=inner, mix=_shares(mix) or MIX, seed=seed, workers=workers, device=device,
        eval_every=eval_every, eval_problems=eval_problems,
    )  # fmt: skip
    folder = run(settings, say=lambda line: print(line, flush=True))
    print(folder)


def _shares(text: str) -> dict[str, float]:
    """Return {"wordmath": 0.4, ...} from "wordmath=0.4,..."."""
    try:
        pairs = [part.split("=") for part in text.split(",") if part]
        return {name.strip(): float(share) for name, share in pairs}
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not of the form wordmath=0.4,choice=0.6") from None


def main() -> None:
    """Run the command line; an error of ours is one sentence, never a traceback."""
    try:
        app()
    except RemaskError as error:
        print(f"remask: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("remask: interrupted; the same command again continues.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
