"""The benchmark of weights in few bits: what it computes, and that it runs beside a GPU."""

import json
from pathlib import Path
from typing import Any

import pytest
import quant
import torch
from lib import figures

from remask.consistency.settings import ConsistencySettings


def test_what_is_lost_by_hand() -> None:
    """Right 3 and 1, wrong 2 and 0: 3 pairs of 4 in order. Ranked (2, 1, 3, 0): 2 of 4."""
    right = [True, True, False, False]
    value, low, high = quant.loss([2, 1, 3, 0], [3, 1, 2, 0], right)
    assert value == 0.75 - 0.5
    assert low <= value <= high
    assert quant.loss([3, 1, 2, 0], [3, 1, 2, 0], right) == [0, 0, 0]


def test_errors_by_hand() -> None:
    """Logits (3, 4) give token 0 a log-probability of -log(1 + e) = -1.3133.

    Twice as large they are as far away as they are long: -log(1 + e^2) = -2.1269.
    """
    truth = torch.tensor([0])
    exact = [(torch.tensor([[3.0, 4.0]]), truth)]
    same = quant.errors(exact, exact)
    assert same == {"logit_error": 0, "logp_error": 0, "agreement": 1}
    ours = [(torch.tensor([[6.0, 8.0]]), truth)]
    other = quant.errors(ours, exact)
    assert other["logit_error"] == 1
    assert other["logp_error"] == pytest.approx(2.126928 - 1.313262, abs=1e-5)
    assert other["agreement"] == 1
    turned = quant.errors([(torch.tensor([[4.0, 3.0]]), truth)], exact)
    assert turned["agreement"] == 0


def test_figures_have_the_names_that_were_promised(tmp_path: Path) -> None:
    row = {"weights": "nf4", "answers": 5, "megabytes": 5.8, "verifier/auroc_loss": [0.1, 0, 0.2]}
    named = quant.tiny_figures([row | {"weights": "full"}, row])
    assert set(named) == {"quant/nf4/auroc_loss", "quant/nf4/megabytes"}
    assert (named["quant/nf4/auroc_loss"]["low"], named["quant/nf4/auroc_loss"]["n"]) == (0, 5)
    alone = {"weights": "nf4", "answers": 5, "megabytes": 5.8, "roundtrips/auroc_loss": [0.1, 0, 1]}
    (name,) = quant.tiny_figures([alone | {"weights": "full"}, alone])
    assert (name, quant.tiny_key([alone])) == (
        "quant/nf4/roundtrips/auroc_loss", "quant-tiny-roundtrips"
    )  # fmt: skip
    rows = [
        {"weights": w, "answers": n, "compiled": c, "seconds_per_answer": s, "peak_memory_gb": m}
        for w, n, c, s, m in [
            ("full", 1, False, 1.0, 17.0),
            ("nf4", 1, False, 1.2, 8.0),
            ("nf4", 8, False, 0.9, 10.0),
            ("nf4", 8, True, 0.8, 10.0),
        ]
    ]
    report = {
        "name": "quant-llada8b-cuda", "results": rows, "hardware": "a GPU", "command": "python x",
    }  # fmt: skip
    path, out = tmp_path / "report.json", tmp_path / "figures.json"
    path.write_text(json.dumps(report))
    quant.main(["figures", str(path), "--figures", str(out), "--commit", "abc"])
    written = figures.read(out)
    assert {name: row["value"] for name, row in written.items()} == {
        "h200/llada8b/nf4/verify_seconds": 0.8,
        "h200/llada8b/nf4/memory_gb": 8.0,
    }
    assert written["h200/llada8b/nf4/verify_seconds"]["unit"].endswith("8 at once, compiled")


def test_round_trips_of_every_precision_score_the_same_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawn once, in few steps: two answers, one of them called right."""
    assert ConsistencySettings() == quant.TRIPS, "the default scorer, as it is used"
    monkeypatch.setattr(quant, "TRIPS", ConsistencySettings(trips=1, rebuild_steps=1))
    monkeypatch.setattr(quant, "SPEEDUP", 16)
    monkeypatch.setattr(quant, "grades", lambda problems, samples: [True, False])
    out = tmp_path / "toy.json"
    words = ["tiny", "--problems", "2", "--predicted", "1", "--scorers", "roundtrips", "--given"]
    quant.main([*words, "--out", str(out)])
    full, *packed = json.loads(out.read_text())["results"]
    assert [row["weights"] for row in packed] == ["int8", "nf4"]
    assert full["roundtrips/mean_change"] == 0
    assert all(row["same_answers"] == 1 and row["answers"] == 2 for row in packed)
    assert all(0 < row["roundtrips/mean_change"] < 0.5 for row in packed)


def test_a_format_that_does_not_run_here_leaves_the_others(run_script: Any) -> None:
    words = ["shape", "--shape", "toymoe", "--answers", "1", "--eager", "--formats"]
    report = run_script("quant.py", [*words, "full", "fp8", "int8"])
    assert [row["weights"] for row in report["results"]] == ["full", "int8"]
    full, packed = report["results"]
    assert packed["weights_gb"] < full["weights_gb"]
    assert packed["tflops"] * packed["seconds_per_answer"] == pytest.approx(
        full["tflops"] * full["seconds_per_answer"]
    )
    assert "fp8 failed: SettingsError: weights 'fp8' requires a CUDA device" in report["said"]
