"""The benchmark of attention gradients: its cases, its verdict, and a small run on the CPU."""

import finite_gradients
import pytest
import torch

from studies.shared.figures import promised

SMALL = {(4, 2, 8): "grouped", (2, 2, 8): "not grouped"}


def test_every_case_of_the_cpu_passes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two head shapes, five masks, two lengths."""
    monkeypatch.setattr(finite_gradients, "HEADS", SMALL)
    assert finite_gradients.main(["--device", "cpu", "--no-compile", "--lengths", "5", "40"]) == 0
    assert "adapt/finite_gradients  1.0000  n 20" in capsys.readouterr().out
    assert promised(["adapt/finite_gradients"])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1.1])
def test_a_wrong_gradient_is_named(value: float) -> None:
    exact = [torch.ones(3) for _ in range(4)]
    assert finite_gradients.verdict(exact, exact) == ""
    wrong = [*exact[:2], torch.tensor([1.0, value, 1.0]), exact[3]]
    assert "gradient of k" in finite_gradients.verdict(wrong, exact)
