"""Who finds the packages of the extra `quant`, and when."""

import importlib
import importlib.util
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from remask.denoisers import quantisers
from remask.denoisers.quantisers import aside, imported, own_process

NAME = "remask_pretends_to_pack"


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that warns when it is imported, in the place of the real ones."""
    source = f"import logging\nlogging.getLogger('{NAME}').warning('no kernels')\n"
    (tmp_path / f"{NAME}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(quantisers, "PACKAGES", (NAME,))
    yield
    sys.modules.pop(NAME, None)


def test_in_a_process_of_our_own_it_is_found_when_it_is_wanted() -> None:
    with own_process():
        with aside():
            assert importlib.util.find_spec(NAME) is None
            with pytest.raises(ImportError):
                importlib.import_module(NAME)
        assert importlib.util.find_spec(NAME)
        assert imported(NAME) is sys.modules[NAME]
        with aside():
            assert importlib.import_module(NAME) is sys.modules[NAME]


def test_in_a_process_of_others_it_is_always_found(caplog: pytest.LogCaptureFixture) -> None:
    with own_process():
        pass
    with aside():
        importlib.import_module(NAME)
    assert NAME in sys.modules
    assert not caplog.records


def test_it_comes_back_where_an_import_fails() -> None:
    with pytest.raises(ImportError, match="no_such"), own_process(), aside():
        importlib.import_module("no_such")
    assert importlib.util.find_spec(NAME)


def test_warnings_are_heard_again_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    imported(NAME)
    assert not caplog.records
    logging.getLogger(NAME).warning("still there")
    assert [record.message for record in caplog.records] == ["still there"]
