"""Texts that an answer is cut at: whole, and in parts of any size, what is sent is the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.serve.stops import StopTexts

LETTERS = st.text(alphabet="ab", max_size=12)
STOPS = st.lists(st.text(alphabet="ab", min_size=1, max_size=4), max_size=3)


@pytest.mark.parametrize(
    ("text", "stops", "cut"),
    [
        ("The answer is 7. Question: what", ("Question:",), "The answer is 7. "),
        ("one\n\ntwo", ("\n\n", "\n"), "one"),
        ("one, two", ("two", ","), "one"),
        ("stop", ("stop",), ""),
        ("abc", ("abc", "b"), "a"),  # b is there before abc is
        ("abc", ("bc", "c"), "a"),
        ("nothing of it", ("Question:",), None),
        ("nothing of it", (), None),
    ],
)
def test_an_answer_ends_before_the_first_stop(
    text: str, stops: tuple[str, ...], cut: str | None
) -> None:
    assert StopTexts(stops).cut(text) == cut


@pytest.mark.parametrize(
    ("text", "settled"), [("7. Ques", "7. "), ("7. Quest ", "7. Quest "), ("", ""), ("7. Q", "7. ")]
)
def test_what_may_begin_a_stop_is_held_back(text: str, settled: str) -> None:
    assert StopTexts(("Question:",)).settled(text) == settled


@given(parts=st.lists(LETTERS, max_size=5), stops=STOPS)
def test_parts_that_are_settled_are_the_whole_that_is_cut(
    parts: list[str], stops: list[str]
) -> None:
    """What was sent is never taken back, and no more is sent than of the whole text."""
    ends, text = StopTexts(tuple(stops)), "".join(parts)
    whole = ends.cut(text)
    whole = text if whole is None else whole
    so_far, sent = "", ""
    for part in parts:
        so_far += part
        cut = ends.cut(so_far)
        now = ends.settled(so_far) if cut is None else cut
        assert now.startswith(sent)
        assert whole.startswith(now)
        sent = now
    assert not any(stop in whole for stop in stops)
