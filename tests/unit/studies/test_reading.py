"""The readers on the grammar of answers: the truth exactly, and the unreadable not at all."""

import json
from pathlib import Path

import pytest

from studies.checks import reading

COUNTS = {"gsm8k": 400, "arc": 400, "mbpp": 300, "humaneval": 200, "countdown": 400, "math500": 150}


@pytest.mark.parametrize("task", COUNTS)
def test_no_other_value_is_read_and_hardly_any_is_missed(task: str) -> None:
    """Another seed than the measured one, so that the two cannot be fitted to one another."""
    readings = reading.measure(task, COUNTS[task], seed=7)
    wrong = [(r.item.form, r.item.text, r.extracted, r.item.truth) for r in readings if r.wrong]
    assert wrong == []
    assert sum(r.right for r in readings) >= reading.WANTED * len(readings)


def test_what_is_read_of_the_unreadable_counts_as_wrong() -> None:
    unread = reading.Item(form="", text="", truth=None)
    assert reading.Reading(item=unread, extracted=None, true=False).right
    assert reading.Reading(item=unread, extracted="7", true=False).wrong
    readable = reading.Item(form="", text="", truth="7")
    missed = reading.Reading(item=readable, extracted=None, true=False)
    assert (missed.right, missed.wrong) == (False, False)


def test_the_shares_are_merged_into_the_figures(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    words = [
        "--only",
        "arc",
        "--count",
        "50",
        "--figures",
        str(path),
        "--commit",
        "c",
        "--hardware",
        "h",
    ]
    assert reading.main(words) == 0
    figures = json.loads(path.read_text())["figures"]
    assert set(figures) == {"reading/arc/right", "reading/arc/wrong"}
    assert figures["reading/arc/right"]["value"] == 1
    assert figures["reading/arc/wrong"]["n"] == 50
