"""The study of alignment on a model that knows nothing, and its figures on answers made by hand."""

import json
from pathlib import Path
from typing import Any

import align as script
import pytest
import torch

from remask.testing import write_checkpoint

COMMIT = ("--commit", "0123abc")


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    model = write_checkpoint(
        tmp_path / "model", layers=1, width=16, heads=2, inner=16, length=16, max_length=512,
        dtype=torch.float32,
    )  # fmt: skip
    return [
        str(model), str(tmp_path / "out"), "--task", "countdown", "--level", "easy",
        "--updates", "2", "--prompts-per-update", "1", "--num-generations", "2",
        "--inner-updates", "1", "--problems", "2", "--eval-problems", "2", "--device", "cpu",
        "--tokens-per-step", "8",
    ]  # fmt: skip


def test_a_study_trains_asks_gathers_and_goes_on(words: list[str], tmp_path: Path) -> None:
    """Two problems on three canvases, of the start and of one training."""
    out, figures = tmp_path / "out", tmp_path / "figures.json"
    for method in ("start", "outcome"):
        assert script.main(["one", *words, "--method", method]) == 0
    before = (out / "outcome-0" / "answers.jsonl").stat().st_mtime_ns
    methods = ["--methods", "start", "outcome", "--seeds", "0"]
    assert script.main(["study", *words, *methods]) == 0
    assert (out / "outcome-0" / "answers.jsonl").stat().st_mtime_ns == before
    rows = [json.loads(line) for line in (out / "answers.jsonl").read_text().splitlines()]
    assert len(rows) == 2 * 3 * 2
    assert rows[0]["forwards"] == 64 // 8
    lengths = {row["canvas"]: row["length"] for row in rows}
    assert (lengths["short"], lengths["medium"], lengths["long"]) == (64, 96, 128)
    assert script.main(["figures", str(out), *COMMIT, "--figures", str(figures)]) == 0
    document = json.loads(figures.read_text())
    named, commands = document["figures"], document["commands"]
    assert named["align/start/accuracy/short"]["value"] == 0.0
    assert named["align/outcome/score/long"]["commit"] == "0123abc"
    assert "--tokens-per-step 8" in commands[named["align/outcome/score/long"]["command"]]
    assert named["align/outcome/cost/training"]["value"] > 0
    assert named["align/outcome_minus_start/accuracy"]["value"] == 0.0


def answer(
    method: str, seed: int, item: int, right: bool, ok: bool, score: float
) -> dict[str, Any]:
    return {"method": method, "seed": seed, "canvas": "short", "item": f"i{item}", "right": right,
            "process_ok": ok, "score": score}  # fmt: skip


def test_figures_are_worked_out_by_hand() -> None:
    """Geometric: right 3 of 4 and 2 of 4; outcome: 2 of 4 and 1 of 4; a gap of a quarter.

    Steps: of the right ones of geometric 2/3 and 2/2 are sound, of outcome 1/2 and 0/1. The score
    of geometric ranks its first seed without a fault and its second by 1/2 x 1/2.
    """
    told = {
        ("geometric", 0): ([1, 1, 1, 0], [1, 1, 0, 0], [0.9, 0.8, 0.7, 0.1]),
        ("geometric", 1): ([1, 1, 0, 0], [1, 1, 0, 0], [0.9, 0.2, 0.5, 0.95]),
        ("outcome", 0): ([1, 1, 0, 0], [1, 0, 0, 0], [0.5, 0.5, 0.5, 0.5]),
        ("outcome", 1): ([1, 0, 0, 0], [0, 0, 0, 0], [0.5, 0.5, 0.5, 0.5]),
    }
    rows = [
        answer(method, seed, i, bool(right), bool(ok), score)
        for (method, seed), columns in told.items()
        for i, (right, ok, score) in enumerate(zip(*columns, strict=True))
    ]
    found = {name: value.value for name, (value, _) in script.figures_of(rows).items()}
    assert found["align/geometric/accuracy/short"] == pytest.approx(0.625)
    assert found["align/geometric/process_ok/short"] == pytest.approx((2 / 3 + 1) / 2)
    assert found["align/geometric/auroc/short"] == pytest.approx((1 + 0.25) / 2)
    assert found["align/outcome/auroc/short"] == pytest.approx(0.5)
    assert found["align/geometric_minus_outcome/accuracy"] == pytest.approx(0.25)
    assert found["align/geometric_minus_outcome/process_ok"] == pytest.approx(
        ((2 / 3 - 1 / 2) + (1 - 0)) / 2
    )
    assert "align/sft/accuracy/short" not in found


@pytest.mark.parametrize("shape", ["toy", "toyblocks"])
def test_a_step_is_measured_by_phase(shape: str, tmp_path: Path) -> None:
    assert script.main(["step8b", str(tmp_path), "--shape", shape, "--device", "cpu"]) == 0
    found = json.loads((tmp_path / f"step-{shape}.json").read_text())
    assert found["step_seconds"].keys() == {"rollout", "score", "update"}
    assert found["step_memory_gb"] > 0
    assert 0 < found["grad_norm"] < float("inf")
    figures = tmp_path / "figures.json"
    told = ["step-figures", str(tmp_path), "--shape", shape, *COMMIT, "--figures", str(figures)]
    assert script.main(told) == 0
    named = json.loads(figures.read_text())["figures"]
    assert named[f"h200/{shape}/step_seconds/update"]["value"] == found["step_seconds"]["update"]
