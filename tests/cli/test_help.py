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
from remask.cli import flags as opt
from remask.collect.settings import CollectSettings
from remask.consistency.settings import ConsistencySettings
from remask.decide.rejection import reject
from remask.denoisers.load import load
from remask.pretrain.settings import TrainSettings

Run = Callable[..., Any]
GROUP: Any = typer.main.get_command(cli.app)
COMMANDS = GROUP.commands
NAMES = {
    "solve", "verify", "score", "collect", "fit", "certify", "calibrate", "report", "train",
    "demo", "models", "doctor", "study", "align", "serve",
}  # fmt: skip


def default(function: Callable[..., object], name: str) -> object:
    return inspect.signature(function).parameters[name].default


def test_help_imports_little_and_neither_torch_nor_pydantic() -> None:
    """Its time is that of its imports: about 200 modules; torch alone has 2,000."""
    code = (
        "import sys\nfrom remask.cli import main\nsys.argv = ['remask', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'rich', 'pydantic', 'numpy'} & set(sys.modules)\n"
        "print(sorted(heavy), len(sys.modules) < 350)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout.splitlines()[-1] == "[] True", done.stderr


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


@pytest.mark.parametrize("name", ["solve", "verify", "score", "collect"])
def test_the_defaults_of_round_trips_are_those_of_the_settings(name: str) -> None:
    settings = ConsistencySettings()
    command = getattr(cli, name)
    for field in ("mask_design", "trips", "rebuild_steps", "rebuild_temperature"):
        assert default(command, field) == getattr(settings, field)
    assert float(str(default(command, "mask_ratio"))) == settings.mask_ratio


def test_the_other_defaults_are_those_of_the_functions_called() -> None:
    assert default(cli.solve, "budget") == default(reject, "budget")
    assert opt.splits(None) == (default(CollectSettings, "split"), default(load, "split"))
    for name in ("problems", "samples", "scored", "metrics", "seed"):
        assert default(cli.collect, name) == default(CollectSettings, name)
    for name in ("steps", "batch", "lr", "layers", "width", "heads", "inner", "eval_every"):
        assert default(cli.train, name) == default(TrainSettings, name)
