"""`compile` among the settings of a harness reaches the model."""

import pytest
import torch

from remask.harnesses.answers import Answerer
from remask.harnesses.settings import HarnessSettings


def test_a_model_is_compiled_where_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[torch.nn.Module] = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda block, **_: compiled.append(block))
    settings = HarnessSettings(model="tiny", device="cpu", compile=True)
    Answerer.of("tiny", None, settings)
    assert compiled
