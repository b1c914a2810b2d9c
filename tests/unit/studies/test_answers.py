"""Pools whose first sample is the answer that was scored: votes compare it by the pool's keys."""

from typing import Any

from remask.analysis.pool import agreement
from remask.records.record import NO_KEY, Record
from studies.language.answers import _with_first


def record(number: int, answer: str, **other: Any) -> Record:
    return Record(
        id="mawps/all/test/0/0", task="mawps", level="all", number=number, prompt="?", gold="0.12",
        text=f"#### {answer}", answer=answer, right=True, process_ok=None, forwards=1, scores={},
        **other,
    )  # fmt: skip


def test_a_scored_answer_is_compared_by_value_like_the_others() -> None:
    """1/8 and .12 are one answer where decimals count to two places: both have the key 3/25."""
    greedy = record(0, "1/8")
    assert greedy.key is NO_KEY, "a single answer is recorded without"
    pool = [record(0, "1/8", key="3/25"), record(1, ".12", key="3/25"), record(2, "7", key="7")]
    [first, *others] = _with_first(pool, {greedy.id: greedy})
    assert (first.text, first.key) == (greedy.text, "3/25")
    assert others == pool[1:]
    assert agreement([first, *others]) == 2 / 3


def test_an_answer_that_no_sample_gave_keeps_its_own() -> None:
    greedy = record(0, "5")
    [first, _] = _with_first(
        [record(0, "7", key="7"), record(1, "7", key="7")], {greedy.id: greedy}
    )
    assert first == greedy
