"""The command that makes a diffusion model of an autoregressive one."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from remask.cli import settings as opt
from remask.cli.app import print_json, say_aside
from remask.cli.flags import FlagsOf
from remask.pretrain.adapt_settings import AdaptSettings

Source = Annotated[
    str,
    typer.Argument(help="A Llama, Qwen2 or Qwen3: a folder in the hub's layout, a hub id, a GGUF."),
]
Rows = Annotated[
    list[Path], typer.Argument(help="Files of JSON lines, each with prompt and response.")
]
SettingFlags = Annotated[dict[str, Any], FlagsOf(kind=AdaptSettings)]


def adapt(
    *, source: Source, rows: Rows, flags: SettingFlags, as_json: opt.JsonLines = False
) -> None:
    """Make a masked diffusion model of an autoregressive one.

    It looks both ways and learns to fill masks in the responses of ROWS. The same command again
    continues an interrupted run.
    """
    settings = AdaptSettings(source=source, rows=tuple(rows), **flags)
    from remask.pretrain.adapt import adapt as run
    from remask.report.training import draw_training

    def say(row: dict[str, Any]) -> None:
        if as_json:
            print_json(row)
        else:
            typer.echo(line_of(row))
        for remark in remarks(row, settings):
            say_aside(remark)

    run(settings, say)
    picture = draw_training(settings.out)
    if picture is not None:
        say_aside(f"curves drawn in {picture}")


def line_of(row: dict[str, Any]) -> str:
    """Return a row of the log as one line."""
    if "resumed" in row:
        return f"resumed at step {row['resumed']:,}"
    if "rows" in row:
        return f"{row['rows']:,} rows of {row['files']}"
    if "model" in row:
        return f"model of step {row['of_step']:,} written to {row['model']}"
    place = f"step {row['step']:,}/{row['max_steps']:,}"
    if "stopped" in row:
        return f"{place}  {row['stopped']}"
    if "valid_loss" in row:
        return f"{place}  held-out loss {row['valid_loss']:.4f}, best at step {row['best_step']:,}"
    left = timedelta(seconds=round(row["left_s"]))
    loss = f"loss {row['loss']:.4f}" if "loss" in row else f"causal loss {row['causal_loss']:.4f}"
    return (
        f"{place}  {loss}  {row['tokens_per_s']:,.0f} tokens/s  "
        f"pass {row['epoch'] + 1}  {left} left"
    )


def remarks(row: dict[str, Any], settings: AdaptSettings) -> list[str]:
    """Return what a row says that somebody should know."""
    if row.get("dropped"):
        return [
            f"{row['dropped']:,} rows of {row['files']} are left out: with an end token they do "
            f"not fit into a canvas of {settings.canvas} or a row of {row['longest']}"
        ]
    if row.get("largest_mb", 0) > settings.shard_megabytes:
        return [
            f"a tensor is larger than a shard of {settings.shard_megabytes:g} MB; its file has "
            f"{row['largest_mb']:.1f}"
        ]
    return []
