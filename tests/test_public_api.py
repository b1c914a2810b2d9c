"""`import remask` offers exactly the names it promises, and costs nothing."""

import subprocess
import sys
from importlib import metadata

import pytest

import remask


def test_every_promised_name_can_be_imported() -> None:
    for name in remask.__all__:
        assert getattr(remask, name).__name__ == name


def test_every_name_has_a_home_and_is_promised() -> None:
    assert sorted(remask._HOMES) == sorted(remask.__all__)
    assert list(remask.__all__) == sorted(remask.__all__)


def test_dir_lists_the_names_and_the_version() -> None:
    assert set(dir(remask)) == {*remask.__all__, "__version__"}


def test_the_version_is_that_of_the_distribution() -> None:
    assert remask.__version__ == metadata.version("remask")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'remask' has no attribute 'nothing'"):
        _ = remask.nothing


def test_a_star_import_brings_the_names_alone() -> None:
    names: dict[str, object] = {}
    exec("from remask import *", names)
    assert set(names) - {"__builtins__"} == set(remask.__all__)


def test_importing_the_package_loads_no_torch() -> None:
    code = "import sys, remask; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout == "False False\n", done.stderr
