"""Rewards summed: weights, absent values, and user code that misbehaves."""

import math
from typing import Any

import pytest

from remask.align.combined import Combined, combine
from remask.errors import ExtensionError, InputError, SettingsError

CALL: dict[str, Any] = {
    "prompts": ["p", "p"], "completions": ["a", "bb"], "completion_ids": [[1], [2, 2]],
    "trainer_state": None, "level": [1, 2],
}  # fmt: skip


def length(completions: list[str], **kwargs: Any) -> list[float]:
    return [float(len(c)) for c in completions]


def levels(prompts: Any, completions: Any, level: list[int], **kwargs: Any) -> list[float | None]:
    return [None if n == 1 else 10.0 * n for n in level]


async def later(completions: list[str], **kwargs: Any) -> list[float]:
    return [0.5] * len(completions)


def test_the_sum_is_weighted_and_leaves_out_what_does_not_apply() -> None:
    """2 * 1 and nothing; 2 * 2 + 0.1 * 20 = 6."""
    both = combine([length, levels], weights=[2.0, 0.1])
    assert both(**CALL) == pytest.approx([2.0, 6.0])
    parts = both.parts(**CALL)
    assert parts == {"length": [1.0, 2.0], "levels": [None, 20.0]}
    assert both.total(parts) == pytest.approx([2.0, 6.0])


def test_weights_are_one_where_none_are_given() -> None:
    assert combine({"a": length, "b": length})(**CALL) == [2.0, 4.0]


def test_a_completion_to_which_nothing_applies_has_no_reward() -> None:
    assert combine([levels])(**CALL) == [None, 20.0]


def test_asynchronous_rewards_are_awaited() -> None:
    assert combine([later, length])(**CALL) == [1.5, 2.5]


def test_a_sum_is_itself_a_reward() -> None:
    inner = combine([length, later])
    assert combine([inner, length])(**CALL) == [2.5, 4.5]


def raising(**kwargs: Any) -> list[float]:
    raise KeyError("gold")


@pytest.mark.parametrize(
    ("reward", "sentence"),
    [
        (raising, "reward 'mine' failed with KeyError: 'gold'"),
        (lambda **k: [1.0], "reward 'mine' returned 1 values for 2 completions"),
        (lambda **k: [1.0, math.nan], "reward 'mine' returned nan for completion 1"),
        (lambda **k: [math.inf, 1.0], "reward 'mine' returned inf for completion 0"),
        (lambda **k: 1.0, "reward 'mine' returned 1.0; return a list of numbers and None"),
        (lambda **k: ["good", "bad"], "reward 'mine' returned .*; return a list of numbers"),
    ],
)
def test_a_reward_that_misbehaves_is_named(reward: Any, sentence: str) -> None:
    with pytest.raises((ExtensionError, InputError), match=sentence):
        combine({"ours": length, "mine": reward})(**CALL)


def test_the_cause_of_a_failure_is_kept() -> None:
    with pytest.raises(ExtensionError) as caught:
        combine([raising])(**CALL)
    assert isinstance(caught.value.__cause__, KeyError)


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"one value per reward \(2\), got 1"):
        combine([length, levels], weights=[1.0])
    with pytest.raises(SettingsError, match="Two rewards have the name 'length'"):
        combine([length, length])
    with pytest.raises(SettingsError, match="rewards must have at least one"):
        combine([])
    with pytest.raises(SettingsError, match=r"weights must name rewards .*, got 'other'"):
        Combined(rewards={"length": length}, weights={"other": 1.0})
    with pytest.raises(SettingsError, match="weight of 'length' must be finite, got nan"):
        combine([length], weights=[math.nan])
