"""The frame of the command line: the application, how it ends, and what its commands share.

Nothing heavy is imported before a command runs, so that `remask --help` answers at once. A user's
mistake ends in one sentence on standard error: exit code 2 for usage, 1 for failure. Results go to
standard output, progress to standard error; under --json standard output holds JSON alone.
"""

import json
import sys
import warnings
from io import TextIOWrapper
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remask.cli import flags as opt
from remask.errors import RemaskError

if TYPE_CHECKING:
    from remask.denoisers.base import Denoiser

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

        typer.echo(metadata.version("remask"))
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def load_model(
    model: str, device: str, dtype: str, preset: str, split: opt.LayoutName = "replicas"
) -> "Denoiser":
    from remask.cli import terminal
    from remask.denoisers.load import load
    from remask.denoisers.presets import Unmet

    tell_note(model, preset)
    with terminal.waiting(f"loading {model}"), warnings.catch_warnings():
        warnings.simplefilter("ignore", Unmet)  # it has just been told
        return load(model, device=device, dtype=dtype, preset=preset, split=split)


def tell_note(model: str, preset: str) -> None:
    """Say what of a preset cannot be met."""
    from remask.denoisers.presets import official

    note = official(model, preset).note if preset else ""
    if note:
        say_aside(note)


def say_aside(sentence: str) -> None:
    """Say on standard error what is no result."""
    typer.echo(f"remask: {_written_out(sentence)}", err=True)


def print_json(value: Any) -> None:
    # Escapes keep the document valid whatever the terminal's encoding.
    typer.echo(json.dumps(value, allow_nan=False))


def tell(document: Any, sentence: str, as_json: bool) -> None:
    """Print a result, as JSON or as a sentence."""
    from remask.cli import terminal

    if as_json:
        print_json(document)
    else:
        terminal.say(sentence)


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
    typer.echo(f"remask: {_written_out(sentence)}", err=True)
    sys.exit(code)


def _written_out(sentence: str) -> str:
    """Return the sentence with what a terminal might obey spelled."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in sentence)
