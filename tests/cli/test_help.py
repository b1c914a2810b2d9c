"""What the command line says of itself."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

import pytest
import typer

from remask import cli
from remask.cli.app import COMMANDS as ENTRIES
from remask.cli.records_commands import splits
from remask.collect.settings import CollectSettings
from remask.consistency.settings import ConsistencySettings
from remask.decide.rejection import reject
from remask.denoisers.load import load

Run = Callable[..., Any]
GROUP: Any = typer.main.get_command(cli.app)
COMMANDS = GROUP.commands
NAMES = {
    "solve", "verify", "score", "collect", "fit", "certify", "calibrate", "report",
    "demo", "models", "doctor", "study", "align", "adapt", "serve", "join",
}  # fmt: skip


def default(function: Callable[..., object], name: str) -> object:
    return inspect.signature(function).parameters[name].default


LOADED = (
    "import sys\nfrom remask.cli import main\nsys.argv = {words}\n"
    "try:\n    main()\nexcept SystemExit:\n    pass\n"
    "heavy = set(['torch', 'rich', 'pydantic', 'numpy']) & set(sys.modules)\n"
    "ours = [name for name in sys.modules if name.startswith('remask.cli.')]\n"
    "print(sorted(heavy), len(sys.modules) < 350, sorted(ours))"
)


def test_help_imports_little_and_neither_torch_nor_pydantic() -> None:
    """Its time is that of its imports: about 200 modules; torch alone has 2,000."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(words=["remask", "--help"])],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    loaded = "['remask.cli.app', 'remask.cli.flags']"
    assert done.stdout.splitlines()[-1] == f"[] True {loaded}", done.stderr


def test_help_lists_every_command(run: Run) -> None:
    shown = run("--help")
    assert shown.code == 0
    assert set(COMMANDS) == NAMES
    assert all(f"\n  {name} " in shown.out for name in NAMES)


def test_no_command_at_all_shows_the_help(run: Run) -> None:
    assert run() == run("--help")


def test_the_version_is_that_of_the_package(run: Run) -> None:
    assert run("--version").out == metadata.version("remask") + "\n"


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_option_has_a_help_line(name: str) -> None:
    assert COMMANDS[name].help
    for parameter in COMMANDS[name].params:
        assert parameter.help, f"{name} {parameter.name}"


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_command_prints_json_on_demand(name: str) -> None:
    assert "--json" in [flag for parameter in COMMANDS[name].params for flag in parameter.opts]


def flag(command: str, name: str) -> object:
    """Return the default of a flag."""
    return next(p.default for p in COMMANDS[command].params if p.name == name)


@pytest.mark.parametrize("name", ["solve", "verify", "score", "collect"])
def test_the_defaults_of_round_trips_are_those_of_the_settings(name: str) -> None:
    settings = ConsistencySettings()
    for field in ("mask_design", "trips", "rebuild_steps", "rebuild_temperature"):
        assert flag(name, field) == getattr(settings, field)
    assert float(str(flag(name, "mask_ratio"))) == settings.mask_ratio


def test_the_other_defaults_are_those_of_the_functions_called() -> None:
    assert flag("solve", "budget") == default(reject, "budget")
    assert splits(None) == (default(CollectSettings, "split"), default(load, "split"))
    for name in ("problems", "samples", "scored", "metrics", "seed"):
        assert flag("collect", name) == default(CollectSettings, name)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_line_in_the_list_is_the_first_of_the_command(name: str) -> None:
    assert COMMANDS[name].help.splitlines()[0] == ENTRIES[name][1]


@pytest.mark.parametrize("name", ["solve", "collect", "align", "adapt", "score"])
def test_the_help_of_a_command_needs_no_torch(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(words=["remask", name, "--help"])],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert "--json" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("['pydantic'] "), "typer parses with it"
