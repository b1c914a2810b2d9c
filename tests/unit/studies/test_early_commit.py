"""The measure of early commit: the same pools written for half the passes, worked out by hand."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from remask.records.record import Record
from studies.checks import early_commit

Draw = Callable[..., list[Record]]


def write(path: Path, rows: Sequence[Record]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row.to_json()) + "\n" for row in rows))


@pytest.fixture
def folders(tmp_path: Path, draw_features: Draw) -> tuple[Path, Path, list[Record]]:
    """Validation and test pools of three, and the same test pools at half the passes."""
    usual, early = tmp_path / "usual", tmp_path / "early"
    labelled = draw_features(30, 3, split="validation", num_read=3)
    write(usual / "validation-wordmath-hard.jsonl", labelled)
    rows = draw_features(20, 3, num_read=3)
    write(usual / "wordmath-hard.jsonl", rows)
    cheaper = [replace(row, forwards=row.forwards // 2) for row in rows]
    write(early / "wordmath-hard.jsonl", cheaper[: 3 * 12])
    return usual, early, rows


def test_cheaper_samples_of_the_same_answers_differ_in_cost_alone(
    folders: tuple[Path, Path, list[Record]], tmp_path: Path
) -> None:
    usual, early, rows = folders
    path = tmp_path / "figures.json"
    words = ["measure", str(usual), str(early), "--figures", str(path), "--commit", "abc"]
    assert early_commit.main([*words, "--hardware", "none"]) == 0
    figures = json.loads(path.read_text())["figures"]
    value = {name: row["value"] for name, row in figures.items()}
    first = [row.right for row in rows[: 3 * 12] if row.number == 0]
    written = sum(row.forwards for row in rows[: 3 * 12]) / (3 * 12)
    assert value["early/usual/accuracy"] == pytest.approx(sum(first) / 12)
    assert value["early/usual/sample_forwards"] == pytest.approx(written)
    assert value["early/difference/sample_forwards"] == pytest.approx(-written / 2)
    assert value["early/difference/mgrs_accuracy"] == 0
    assert value["early/difference/vote_accuracy"] == 0
    assert value["early/difference/mgrs_forwards"] < 0
    assert value["early/early/agreement_auroc"] == value["early/usual/agreement_auroc"]


def test_the_majority_is_the_most_frequent_answer(draw_features: Draw) -> None:
    pool = draw_features(1, 3)
    answers = [(True, "7"), (False, "8"), (False, "8")]
    voted = [
        replace(row, right=right, answer=answer, key=answer)
        for row, (right, answer) in zip(pool, answers, strict=True)
    ]
    assert not early_commit.is_majority_right(voted)
    assert early_commit.is_majority_right([voted[0], voted[0], voted[1]])


def test_other_problems_are_refused(
    folders: tuple[Path, Path, list[Record]], tmp_path: Path
) -> None:
    usual, _, rows = folders
    write(tmp_path / "other" / "wordmath-hard.jsonl", rows[3:12])
    with pytest.raises(early_commit.RemaskError, match="other problems"):
        early_commit.main(["measure", str(usual), str(tmp_path / "other")])
