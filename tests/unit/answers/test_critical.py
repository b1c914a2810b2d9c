"""Critical text of each kind, by hand; and that no text upsets a finder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.answers.critical import CRITICAL, critical_positions
from remask.errors import SettingsError

KINDS = sorted(CRITICAL)


def test_tokens_of_numbers_are_critical() -> None:
    pieces = ["She", " pays", " $", "1", ",", "2", "34", ".", " Then", " 5", "", "."]
    expected = ["1", ",", "2", "34", " 5"]
    marked = critical_positions(pieces, None)
    assert [p for p, critical in zip(pieces, marked, strict=True) if critical] == expected


def test_tokens_of_the_last_lone_occurrence_of_the_answer_are_critical() -> None:
    pieces = ["B", "ob", " says", " B", ",", " so", " B", " it", " is", " CAB", "."]
    assert critical_positions(pieces, "B") == [i == 6 for i in range(11)]
    assert critical_positions(["BB", "B"], "B") == [False, False]
    assert critical_positions(["B"], "B") == [True]


def test_nothing_is_critical_in_plain_text() -> None:
    assert critical_positions(["It", " is", " 5"], "5", kind="text") == [False] * 3


def test_an_unknown_kind_is_refused_with_those_there_are() -> None:
    with pytest.raises(SettingsError, match=r"kind 'poem' is unknown; use one of number, choice"):
        critical_positions(["a"], None, kind="poem")


@given(st.lists(st.text(max_size=5)), st.none() | st.text(max_size=3), st.sampled_from(KINDS))
def test_there_is_one_critical_flag_per_piece(
    pieces: list[str], answer: str | None, kind: str
) -> None:
    assert len(critical_positions(pieces, answer, kind=kind)) == len(pieces)
