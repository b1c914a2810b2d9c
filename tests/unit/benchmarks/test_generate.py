"""The benchmark of generation runs, writes what it promises, and counts what it times."""

from typing import Any

import generate
import pytest
import torch
from lib.shapes import SHAPES, build


@pytest.fixture(scope="module")
def report(run_script: Any) -> dict[str, Any]:
    words = ["--shape", "toymoe", "--eager", "--repetitions", "1", "--batches", "1", "2"]
    found: dict[str, Any] = run_script("generate.py", words)
    return found


def bench(name: str) -> generate.Bench:
    denoiser = build(SHAPES[name], torch.device("cpu"))
    return generate.Bench(shape=SHAPES[name], denoiser=denoiser, repetitions=1)


def test_the_report_says_which_part_of_the_answer_was_timed(report: dict[str, Any]) -> None:
    """The last 8 of 16 tokens, after a prompt of 12: rows of 28, a step for each."""
    assert report["command"].startswith("python benchmarks/generate.py --shape toymoe")
    assert report["shape"]["writing"]["settings"]["length"] == 8
    assert report["shape"]["writing"]["source"] == "a toy: length 16, block 8, threshold 0.9"
    assert [(r["loop"], r["rows"], r["canvas"], r["timed_steps"]) for r in report["results"]] == [
        ("public", 1, 28, 8), ("ours", 1, 28, 8), ("ours", 2, 28, 8),
    ]  # fmt: skip


def test_rates_follow_from_the_seconds(report: dict[str, Any]) -> None:
    """A step reveals a token of each row; the whole answer takes 16 steps."""
    public = report["results"][0]["tokens_per_second"]
    for row in report["results"]:
        rows, (seconds,) = row["rows"], row["seconds"]
        assert row["steps_per_second"] == pytest.approx(8 / seconds)
        assert row["tokens_per_second"] == pytest.approx(rows * 8 / seconds)
        assert row["forwards_per_second"] == pytest.approx(rows * 8 / seconds)
        assert row["seconds_per_answer"] == pytest.approx(16 / 8 * seconds / rows)
        assert row["ratio"] == pytest.approx(row["tokens_per_second"] / public)
        assert row["peak_share"] == pytest.approx(row["tflops"] / report["matmul_tflops"])


@pytest.mark.parametrize(
    ("name", "steps", "asked"),
    [
        ("toy", [4, 4], 2 * (4 + 3 + 2 + 1)),
        # Shares 1 - s / t of 8 steps reveal 1, 2, 2, 2, 2, 2, 2 and the last 3 of 16 tokens.
        ("toydream", [8], 16 + 15 + 13 + 11 + 9 + 7 + 5 + 3),
        ("toymoe", [8], 8 * 9 // 2),
        # 12 given and 16 written end in a block of 8 that is written whole, 20 tokens in all.
        ("toyblocks", [4, 8, 8], 10 + 36 + 36),
    ],
)
def test_steps_and_rows_for_the_head_are_those_of_the_schedule(
    name: str, steps: list[int], asked: int
) -> None:
    assert bench(name).steps == steps
    assert bench(name).rows_asked() == asked


@pytest.mark.parametrize(
    ("name", "kept"), [("toy", 0), ("toydream", 0), ("toymoe", 0), ("toyblocks", 3)]
)
def test_an_answer_takes_as_many_forwards_as_were_counted(name: str, kept: int) -> None:
    """The cache of a block-causal model takes more: the prompt, then two of its three blocks."""
    this = bench(name)
    prompts = generate.random_tokens(this.shape, 2, this.shape.writing.num_given)
    answers = generate.answers_of(this, prompts, this.settings)
    assert [answer.forwards for answer in answers] == [sum(this.steps) + kept] * 2
    assert {len(answer.prompt + answer.canvas) for answer in answers} == {this.length}


def test_the_whole_canvas_is_charged_but_of_a_block_causal_model_only_what_is_new() -> None:
    """Toy: 8 steps of 28 positions. Blocks of 4, 8 and 8 after 12 given: the 8 before once.

    Then 8 positions 5 times, 8 positions 9 times, 8 positions 8 times: 8 + 40 + 72 + 64 = 184. The
    public loop sends 16 positions 4 times, 24 8 times, 32 8 times: 512.
    """
    assert bench("toy").work(3, public=False).positions == 3 * 8 * 28
    assert bench("toyblocks").work(1, public=False).positions == 184
    assert bench("toyblocks").work(1, public=True).positions == 512
