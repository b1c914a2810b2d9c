"""The benchmark of verification runs, writes what it promises, and measures the same work."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import verify
from lib.shapes import SHAPES


@pytest.fixture(scope="module")
def report(run_script: Any) -> dict[str, Any]:
    words = ["--shape", "toy", "--eager", "--repetitions", "1", "--answers", "1", "2"]
    found: dict[str, Any] = run_script("verify.py", words)
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


def test_what_it_is_at_is_said_before_it_is_done(report: dict[str, Any]) -> None:
    said = [line.partition(" s: ")[2] for line in report["said"].splitlines()]
    assert "the public loop, eager" in said
    assert "ours, 2 answers at once, eager" in said


def test_a_run_that_is_stopped_keeps_the_rows_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The public loop is measured, then the first row of ours breaks."""

    def broken(*arguments: Any, **more: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(verify, "measure_ours", broken)
    out = tmp_path / "toy.json"
    with pytest.raises(RuntimeError, match="out of memory"):
        verify.main(["--shape", "toy", "--eager", "--repetitions", "1", "--out", str(out)])
    assert [row["loop"] for row in json.loads(out.read_text())["results"]] == ["public"]


def test_rows_for_the_head_are_those_still_masked_before_each_step() -> None:
    """5 masked tokens in 4 steps: 5, 15 // 4 = 3, 10 // 4 = 2, 5 // 4 = 1: 11 rows. 0 add none.

    In blocks of 3, with 3 and 2 masked: 3, 9 // 4 = 2, 6 // 4 = 1, 0 and 2, 1, 1, 0: 10 rows.
    """

    class Trips:
        masked = torch.tensor([[True] * 5 + [False], [False] * 6])

    assert verify.rows_asked([Trips], 4, [slice(0, 6)]) == 11
    assert verify.rows_asked([Trips], 4, [slice(0, 3), slice(3, 6)]) == 10


def test_a_block_causal_model_is_verified_block_by_block_and_the_public_loop_scaled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """12 + 16 tokens in blocks of 8: three blocks, 4 trips x 16 steps each, 192 forwards.

    The last one is filled up to its end, at 32. The public loop sees 16, 24 and 32 positions of 4
    rows, 2 steps each, and is charged with all 16: 4 x 16 x 72 = 4608 positions. Ours needs the 8
    before, 17 times the 8 and 8 of the first blocks and 16 times the 8 of the last:
    4 x (8 + 17 x 16 + 16 x 8) = 1632.
    """
    shape = SHAPES["toyblocks"]
    denoiser = verify.build(shape, torch.device("cpu"))
    bench = verify.Bench(shape=shape, denoiser=denoiser, repetitions=1)
    asked: list[int] = []
    rebuild = verify.rebuild

    def counted(denoiser: Any, rows: Any, start: int, steps: int) -> Any:
        asked.append(steps)
        return rebuild(denoiser, rows, start, steps)

    monkeypatch.setattr(verify, "rebuild", counted)
    public, *ours = verify.shape_rows(bench, [1, 2], True)
    assert asked == [1, 2, 2]
    assert [row["answers"] for row in ours] == [1, 2]
    for row, positions in ((public, 4608), *((row, 1632) for row in ours)):
        assert row["forwards_per_second"] * row["seconds_per_answer"] == pytest.approx(192)
        assert row["tokens_per_second"] * row["seconds_per_answer"] == pytest.approx(positions)


def test_probes_are_measured_beside_the_round_trips(run_script: Any) -> None:
    """One pass over 28 positions, and 1 + 8 + 8 = 17 of them."""
    words = ["--shape", "toy", "--eager", "--probe", "--repetitions", "1", "--answers", "1"]
    report = run_script("verify.py", words)
    rows = {row["loop"]: row for row in report["results"]}
    assert list(rows) == ["public", "ours", "probe", "verifier"]
    assert report["probes"]["probe"] == ["critical"]
    for name, passes in (("probe", 1), ("verifier", 17)):
        seconds = rows[name]["seconds_per_answer"]
        assert rows[name]["forwards_per_second"] * seconds == pytest.approx(passes)
        assert rows[name]["tokens_per_second"] * seconds == pytest.approx(28 * passes)
        step = rows["ours"]["seconds_per_answer"] / 64
        assert rows[name]["pass_over_step"] == pytest.approx(seconds / passes / step)


def test_a_clean_copy_counts_once_in_the_work_of_probes() -> None:
    """12 + 16 tokens fill blocks of 8 up to 32, and the first mask is in the second.

    Three passes share a batch: 32 clean positions and 3 x 24.
    """
    denoiser = verify.build(SHAPES["toyblocks"], torch.device("cpu"))
    samples = verify.random_answers(SHAPES["toyblocks"], 1)
    work = verify.probe_work(denoiser, samples, ["critical", "halves2"])
    assert (work.forwards, work.positions) == (2 + 4, 32 + 3 * 24)


def test_the_figures_of_the_cpu_are_those_of_the_trained_levels() -> None:
    row = {"answers": 48, "seconds_per_answer": 1.3, "peak_resident_gb": 0.7, "probe_s": 0.03}
    figures = verify.cpu_figures(row)
    assert {name: one["value"] for name, one in figures.items()} == {
        "cpu/verify_seconds": 1.3, "cpu/verify_rss_gb": 0.7, "cpu/probe_seconds": 0.03,
    }  # fmt: skip
    del row["probe_s"]
    assert "cpu/probe_seconds" not in verify.cpu_figures(row)
