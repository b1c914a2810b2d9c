"""Which labels deserve a look, and that ordinary ones do not."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.analysis.audit import (
    BOTH_GRADES,
    GOLD_AT_THE_END,
    LAST_RESORT,
    REASONS,
    TWO_ANSWERS,
    UNDECIDED,
    UNREAD,
    audit,
)
from remask.records.record import Record

Make = Callable[..., Record]


@pytest.mark.parametrize(
    ("text", "answer", "gold", "right", "reasons"),
    [
        ("2+3=5. #### 5", "5", "5", True, ()),
        ("2+3=6. #### 6", "6", "5", False, ()),
        ("A) Lea: no. B) Mia: yes. Answer: B", "B", "B", True, ()),
        ("two plus three", None, "5", False, (UNREAD,)),
        ("2+3=5", "5", "5", True, (LAST_RESORT,)),
        ("The answer is 4. #### 5", "5", "5", True, (TWO_ANSWERS,)),
        ("The answer is 5. #### 5", "5", "5", True, ()),
        ("2+3=5. #### 8", "8", "5", False, (GOLD_AT_THE_END,)),
        ("5 is far from the end" + " and so on" * 9 + ". #### 8", "8", "5", False, ()),
        ("so \\boxed{ \\sqrt 2 }", "x", "\\sqrt{2}", False, ()),
        ("so \\boxed{ \\sqrt{2} }", "x", "\\sqrt{2}", False, (GOLD_AT_THE_END,)),
        ("A) Lea: no. B) Mia: yes. Answer: B", "B", "A", False, ()),
    ],
)
def test_a_label_is_in_doubt_for_what_the_text_says(
    make_record: Make,
    text: str,
    answer: str | None,
    gold: str,
    right: bool,
    reasons: tuple[str, ...],
) -> None:
    row = replace(make_record(answer=answer, right=right), text=text, gold=gold)
    assert audit([row]) == [reasons]


def test_one_answer_with_two_grades_puts_both_in_doubt(make_record: Make) -> None:
    """Only within a problem: the same answer may be right elsewhere. Unread answers are no pair."""
    rows = [
        make_record("a", 0, answer="7", right=True),
        make_record("a", 1, answer="7", right=False),
        make_record("a", 2, answer="8", right=False),
        make_record("b", 0, answer="7", right=False),
    ]
    assert [BOTH_GRADES in found for found in audit(rows)] == [True, True, False, False]


def test_a_grader_that_gave_up_puts_its_label_in_doubt(make_record: Make) -> None:
    row = make_record(answer="3", right=False)
    assert audit([replace(row, reason="not decided in 5 s")]) == [(UNDECIDED,)]
    assert audit([replace(row, reason="'3' is not '1'")]) == [()]


@given(text=st.text(), answer=st.none() | st.text(), gold=st.text(), right=st.booleans())
def test_no_text_breaks_the_audit(
    make_record: Make, text: str, answer: str | None, gold: str, right: bool
) -> None:
    [found] = audit([replace(make_record(answer=answer, right=right), text=text, gold=gold)])
    assert set(found) <= set(REASONS)
    assert (UNREAD in found) == (answer is None)
