"""One optimisation step, measured by phase on toy shapes."""

import json
from pathlib import Path

import pytest
import step


@pytest.mark.parametrize(
    ("shape", "method"), [("toy", "spg"), ("toyblocks", "spg"), ("toy", "stable")]
)
def test_a_step_is_measured_by_phase(shape: str, method: str, tmp_path: Path) -> None:
    words = [str(tmp_path), "--shape", shape, "--method", method]
    measured = step.read_arguments(["measure", *words, "--device", "cpu"])
    measured.run(measured)
    more = "" if method == "spg" else f"-{method}"
    found = json.loads((tmp_path / f"step-{shape}{more}.json").read_text())
    assert found["settings"]["scorer"] == {"spg": "roundtrips", "stable": "verifier"}[method]
    assert found["step_seconds"].keys() == {"rollout", "score", "update"}
    assert found["step_memory_gb"] > 0
    assert 0 < found["grad_norm"] < float("inf")
    figures = tmp_path / "figures.json"
    stored = step.read_arguments(["figures", *words, "--commit", "abc", "--figures", str(figures)])
    stored.run(stored)
    named = json.loads(figures.read_text())["figures"]
    under = f"h200/{shape}{more.replace('-', '/')}"
    assert named[f"{under}/step_seconds/update"]["value"] == found["step_seconds"]["update"]
    assert f"step of {method} with LoRA" in named[f"{under}/step_memory_gb"]["unit"]
