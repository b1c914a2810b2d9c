"""The benchmark runs, writes what it promises, and its yardsticks measure the same work."""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from remask.consistency.cycle import round_trips

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "verify.py"


@pytest.fixture(scope="module")
def verify() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_verify", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


# The machine with the GPU has few packages: None makes the import of the others fail.
CHILD = f"""
import runpy, sys
absent = ("rapidfuzz", "sentence_transformers", "typer", "sklearn", "scipy", "pyarrow", "rich")
sys.modules.update(dict.fromkeys(absent))
runpy.run_path({str(SCRIPT)!r}, run_name="__main__")
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("bench") / "new" / "toy.json"
    words = ["--shape", "toy", "--eager", "--repetitions", "1", "--answers", "1", "2", "--out"]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *words, str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # threads of a busy machine wait for each other
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "seconds_per_answer" in done.stdout
    assert [path.name for path in out.parent.iterdir()] == ["toy.json"], "no temporary file is left"
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_the_report_says_what_was_measured_where(report: dict[str, Any]) -> None:
    assert report["command"] == (
        "python benchmarks/verify.py --shape toy --eager --repetitions 1 --answers 1 2"
    )
    assert {"torch", "python", "remask"} <= report["versions"].keys()
    assert report["name"] == "verify-toy-cpu"
    assert report["hardware"]
    assert report["commit"]
    assert report["settings"]["trips"] == 4
    assert report["settings"]["rebuild_steps"] == 16
    assert report["matmul_tflops"] > 0


def test_every_row_compares_with_the_public_loop(report: dict[str, Any]) -> None:
    rows = report["results"]
    assert [(r["loop"], r["answers"], r["compiled"]) for r in rows] == [
        ("public", 1, False), ("ours", 1, False), ("ours", 2, False),
    ]  # fmt: skip
    public = rows[0]["seconds_per_answer"]
    for row in rows:
        assert row["ratio"] == pytest.approx(public / row["seconds_per_answer"])
        assert row["peak_share"] == pytest.approx(row["tflops"] / report["matmul_tflops"])
        assert row["peak_memory_gb"] > 0


def test_rates_follow_from_the_seconds(report: dict[str, Any]) -> None:
    """An answer takes 4 trips x 16 steps = 64 forwards of 12 + 16 = 28 positions: 1792."""
    for row in report["results"]:
        assert row["forwards_per_second"] * row["seconds_per_answer"] == pytest.approx(64)
        assert row["tokens_per_second"] * row["seconds_per_answer"] == pytest.approx(1792)


def test_arithmetic_is_counted_as_the_formula_says(verify: ModuleType) -> None:
    """Toy: 2 layers x (4 x 32^2 + 3 x 32 x 64) = 20480 weights; 2 x 4 x 28 x 32 = 7168 attention.

    10 positions: 10 x (2 x 20480 + 7168) = 481280; 3 head rows: 3 x 2 x 32 x 256 = 49152.
    """
    network = verify.build(verify.SHAPES["toy"], torch.device("cpu")).model
    assert verify.flops_of(network, 28, 10, 3) == 481280 + 49152


def test_only_the_chosen_experts_are_counted(verify: ModuleType) -> None:
    """One layer of width 8, one head of 8: q, k, v, out 4 x 64, router 4 x 8.

    2 of 4 experts of 3 x 8 x 5 = 120 weights: 240. In all 528; 10 positions: 10560. Attention over
    6 positions: 4 x 6 x 8 = 192 each, 1920.
    """
    config = {
        "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
        "num_key_value_heads": 1, "num_experts": 4, "num_experts_per_tok": 2,
        "expert_intermediate_size": 5, "qk_layernorm": True, "rope_theta": 50000,
        "vocab_size": 16, "max_position_embeddings": 8,
    }  # fmt: skip
    network = verify.llada_moe.FAMILY.build(config)
    assert verify.flops_of(network, 6, 10, 0) == 10560 + 1920


def test_rows_for_the_head_are_those_still_masked_before_each_step(verify: ModuleType) -> None:
    """5 masked tokens in 4 steps: 5, 15 // 4 = 3, 10 // 4 = 2, 5 // 4 = 1: 11 rows. 0 add none."""

    class Trips:
        masked = torch.tensor([[True] * 5 + [False], [False] * 6])

    assert verify.rows_asked([Trips], 4) == 11


def test_the_public_loop_rebuilds_what_the_library_rebuilds(verify: ModuleType) -> None:
    """16 masked tokens in 4 steps are 4 per step in either schedule, so every token must agree."""
    shape = verify.SHAPES["toy"]
    denoiser = verify.build(shape, torch.device("cpu"))
    for parameter in denoiser.model.parameters():
        parameter.mul_(4)  # sharper, so that the rebuilds differ from place to place
    settings = replace(verify.SETTINGS, mask_ratio=1.0, rebuild_steps=4)
    found = round_trips(denoiser, verify.random_answers(shape, 3), settings)
    distinct = {token for t in found for token in t.rebuilt.flatten().tolist()}
    assert len(distinct) > 8, "rebuilds that are all alike would prove nothing"
    for trips in found:
        rows = verify.masked_rows(trips, shape.mask_id, torch.device("cpu"))
        assert (rows[:, 12:] == shape.mask_id).all()
        assert (rows[:, :12] == torch.tensor(trips.sample.prompt)).all()
        assert torch.equal(verify.public_loop(denoiser, rows, 4)[:, 12:], trips.rebuilt)
