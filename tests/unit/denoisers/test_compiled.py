"""`compiled`: which models are compiled, and what is refused before one is read."""

from pathlib import Path

import pytest
import torch

from remask.denoisers.load import load
from remask.denoisers.native import NativeDenoiser
from remask.errors import SettingsError


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[torch.nn.Module]:
    """The modules that were compiled; compiling itself takes long."""
    seen: list[torch.nn.Module] = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda block, **_: seen.append(block))
    return seen


def test_every_block_is_compiled_where_it_is_asked_for(compiled: list[torch.nn.Module]) -> None:
    load("tiny", device="cpu")
    assert compiled == []
    model = load("tiny", device="cpu", compiled=True)
    assert isinstance(model, NativeDenoiser)
    assert compiled == list(model.model.blocks)


@pytest.mark.parametrize("weights", ["int8", "nf4"])
def test_formats_that_are_not_compiled_are_refused(weights: str) -> None:
    with pytest.raises(SettingsError, match=f"requires weights full or fp8, got {weights}"):
        load("tiny", device="cpu", weights=weights, compiled=True)


def test_compiling_without_a_compiler_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiled: list[torch.nn.Module]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(SettingsError, match="requires a C compiler"):
        load("tiny", device="cpu", compiled=True)
    own = tmp_path / "compiler"
    own.touch(mode=0o755)
    monkeypatch.setenv("CC", str(own))
    load("tiny", device="cpu", compiled=True)
    assert compiled


def test_a_model_from_outside_is_not_compiled() -> None:
    with pytest.raises(SettingsError, match="requires a model of this package, got 'mine:make'"):
        load("mine:make", compiled=True)
