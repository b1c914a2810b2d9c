"""The frame of the command line: the application, how it ends, and what its commands share.

Nothing heavy is imported before a command runs, so that `remask --help` answers at once. A user's
mistake ends in one sentence on standard error: exit code 2 for usage, 1 for failure. Results go to
standard output, progress to standard error; under --json standard output holds JSON alone.
"""

import json
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from remask.cli.flags import UsageError, with_flags
from remask.denoisers.quantisers import own_process
from remask.errors import RemaskError
from remask.extension import cause_of
from remask.settings import nearest, setting_fields

if TYPE_CHECKING:
    from remask.cli.settings import ModelSettings
    from remask.denoisers.base import Denoiser


COMMANDS = {  # by name, in the order of `remask --help`: the module, and the line there
    "solve": ("answers", "Answer a prompt, resampling until an answer is stable."),
    "verify": ("answers", "Say how far to trust an answer you already have."),
    "score": ("answers", "Score a file of answers, one row out per row in."),
    "adapt": ("adapt", "Make a masked diffusion model of an autoregressive one."),
    "demo": ("models", "Watch the embedded model catch its own errors."),
    "models": ("models", "List published models; with an id, its authors' presets."),
    "doctor": ("models", "Say what is installed, what is missing, what fits in memory."),
    "collect": ("records_commands", "Answer, grade and score the problems of a task."),
    "join": ("records_commands", "Make one file of the shards of a collection."),
    "fit": ("records_commands", "Fit weights that tell right answers from wrong ones."),
    "certify": ("records_commands", "Certify a threshold: few of what it accepts are wrong."),
    "calibrate": ("records_commands", "Fit a curve from scores to probabilities."),
    "report": ("records_commands", "Show records on one HTML page: tables, plots, answers."),
    "study": ("studies", "Run one study on collected records, with intervals and cost."),
    "align": ("align", "Train a model with the score as a reward."),
    "serve": ("serve", "Put a model behind HTTP, with a page to watch it."),
}
_RESUMED = ("score", "collect", "align", "adapt")  # continue what is unfinished
_STOPPED = {130: "interrupted", 128 + signal.SIGTERM: "terminated"}  # by exit code
_PLAIN: Any = {
    "add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None,
}  # fmt: skip


class LazyCommands(Mapping[str, Any]):
    """The commands by name; the module of one is imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        """Return the command, its flags made from its settings."""
        function = getattr(import_module(f"remask.cli.{COMMANDS[name][0]}"), name)
        single = typer.Typer(**_PLAIN)
        single.command(name)(with_flags(function))
        return typer.main.get_command(single)

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(COMMANDS)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(COMMANDS)


class LazyGroup(TyperGroup):
    """Commands that are imported when they are named; help needs none of them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = LazyCommands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the line of every command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


app = typer.Typer(name="remask", cls=LazyGroup, **_PLAIN)


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


def load_model(model: "ModelSettings") -> "Denoiser":
    """Load a model under a spinner, and print what its preset sets that is unsupported."""
    from remask.cli import terminal
    from remask.denoisers.catalog import UnsupportedSetting
    from remask.denoisers.load import load

    tell_note(model)
    with terminal.waiting(f"loading {model.model}"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedSetting)  # printed above
        return load(
            model.model, device=model.device, dtype=model.dtype, preset=model.preset,
            split=model.split, weights=model.weights, compiled=model.compile,
        )  # fmt: skip


def tell_note(model: "ModelSettings") -> None:
    """Print the unsupported settings of a preset."""
    from remask.denoisers.catalog import find_preset

    warning = find_preset(model.model, model.preset).warning if model.preset else ""
    if warning:
        say_aside(warning)


def say_aside(sentence: str) -> None:
    """Print a remark on standard error."""
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


class _Terminated(BaseException):
    """SIGTERM arrived."""


def _terminate(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_DFL)
    if os.getpid() != _PROCESS:  # a worker process that was forked
        os.kill(os.getpid(), number)
    raise _Terminated


_PROCESS = os.getpid()


def main() -> None:
    """Run the command line; a mistake is one sentence, never a traceback."""
    _prepare_terminal()
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        with own_process():
            code = app(standalone_mode=False)
    except RemaskError as error:
        _fail(str(error), 1)
    except UsageError as error:
        command = error.ctx.command_path if error.ctx else "remask"
        message = _usage_message(error)
        see = " See" if message.endswith("?") else "; see"
        _fail(f"{message.rstrip('.')}{see} {command} --help.", 2)
    except OSError as error:
        where = f"cannot use {error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}.", 1)
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except Exception as error:  # of the user's code, or a defect of ours
        _fail(f"{' '.join(sys.argv[1:2])} failed with {cause_of(error)}.", 1)
    except _Terminated:
        code = 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)
    if code in _STOPPED:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C ends at once
        resumes = any(word in _RESUMED for word in sys.argv[1:2])
        remedy = " Run the same command again to continue." if resumes else ""
        _fail(f"{_STOPPED[code]}.{remedy}", code)
    sys.exit(code or 0)


def _prepare_terminal() -> None:
    """Replace a closed standard error, and settings that no line can be printed with."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    if sys.stdout is None:
        _fail("standard output is closed; redirect it to a file.", 1)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if not os.environ.get("COLUMNS", "1").lstrip("0").isdecimal():
        del os.environ["COLUMNS"]  # rich would print lines without a column


def _usage_message(error: Any) -> str:
    """Return what is wrong with a command line; the nearest option if one does not exist."""
    wrong = getattr(error, "option_name", "")
    if not hasattr(error, "possibilities") or not wrong or error.ctx is None:
        return str(error.format_message())
    parameters = error.ctx.command.params
    known = [name for one in parameters for name in (*one.opts, *one.secondary_opts)]
    near = nearest(wrong, [name for name in known if name.startswith("--")])
    if "--set" in known and not near:
        from remask.align.settings import AlignSettings

        word, names = wrong.strip("-").replace("-", "_"), list(setting_fields(AlignSettings))
        short = {"".join(part[0] for part in name.split("_")): name for name in names}
        field = nearest(word, names) or short.get(word)  # such as lr for learning_rate
        near = f"--set {field}=..." if field else None
    return f"Unknown option {wrong}." + (f" Did you mean {near}?" if near else "")


def _fail(sentence: str, code: int) -> None:
    """Leave with one line on standard error."""
    typer.echo(f"remask: {_written_out(sentence)}", err=True)
    sys.exit(code)


def _written_out(sentence: str) -> str:
    """Return the sentence with what a terminal might obey spelled."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in sentence)
