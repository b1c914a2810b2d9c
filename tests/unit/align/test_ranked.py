"""Right first, then by rank: worked out on paper, called as TRL calls rewards."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.align.rewards import (
    FunctionOfScore,
    LexicographicReward,
    Progress,
    TrustedReward,
    ranks,
    wants_score,
)
from remask.errors import InputError
from remask.tasks.base import Problem
from remask.values import Sample, Score

TEXTS = ("a", "abc", "x", "ab", "az", "no", "b", "bbbb", "bbbb", "z")
GOLDS = "aaaaa" + "bbbbb"


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """A scorer: a tenth per letter; no value for a text with a z in it."""

    name: str = "lengths"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        assert not any("x" in s.text or "no" in s.text for s in samples), "wrong ones"
        return [Score(value=None if "z" in s.text else len(s.text) / 10) for s in samples]


def problem(gold: str) -> Problem:
    return Problem(id=f"t/{gold}", task="t", level="l", prompt=gold, gold=gold, solution=gold)


def starts_alike(given: Problem, text: str) -> bool:
    return text[0] == given.gold


@pytest.fixture
def arguments(answer: Callable[..., Sample]) -> dict[str, Any]:
    """Two problems of five answers each, as a trainer passes them."""
    return {
        "prompts": list(GOLDS), "completions": list(TEXTS), "completion_ids": [[1]] * 10,
        "problem": [problem(gold) for gold in GOLDS],
        "sample": [answer(text + ".") for text in TEXTS],
        "trainer_state": Progress(global_step=3, max_steps=9),
    }  # fmt: skip


def test_equal_values_share_the_mean_of_their_places() -> None:
    """Of 1, 3, 3, 7: places 0, 1 and 2 shared, 3; over 3. An only one is in the middle."""
    assert ranks([3.0, 1.0, 7.0, 3.0]) == [0.5, 0.0, 1.0, 0.5]
    assert ranks([5.0]) == [0.5]
    assert ranks([2.0, 2.0]) == [0.5, 0.5]


@given(st.lists(st.integers(0, 4).map(float), min_size=1))
def test_ranks_have_the_same_mean_whatever_is_ranked(values: list[float]) -> None:
    assert sum(ranks(values)) / len(values) == pytest.approx(0.5)


def test_right_answers_are_ranked_by_their_scores(arguments: dict[str, Any]) -> None:
    """First problem: a .1, abc .3, x wrong, ab .2, az none: places 1, 3, -, 2, 0 of 3.

    Second: no and z wrong, b .1, and bbbb twice .4: places 0, 1.5, 1.5 of 2. Weight 0.3.
    """
    wanted = [1.1, 1.3, 0.0, 1.2, 1.0, 0.0, 1.0, 1.225, 1.225, 0.0]
    reward = LexicographicReward(scorer=Lengths(), grade=starts_alike, rank_reward=0.3)
    logged: dict[str, float] = {}
    assert reward(**arguments, log_metric=logged.__setitem__) == pytest.approx(wanted)
    assert logged == {"bmc/score": pytest.approx((0.1 + 0.3 + 0.2 + 0.1 + 0.4 + 0.4) / 6)}
    mixed = [7, 3, 0, 9, 5, 1, 8, 2, 6, 4]
    columns = {k: [v[i] for i in mixed] for k, v in arguments.items() if isinstance(v, list)}
    assert reward(**columns) == pytest.approx([wanted[i] for i in mixed])
    columns["problem"] = [asdict(p) for p in columns["problem"]]
    assert reward(**columns) == pytest.approx([wanted[i] for i in mixed])
    with pytest.raises(InputError, match="'lexicographic' requires the column 'problem'"):
        reward(["a"], ["a"])


def test_only_trusted_answers_are_paid(arguments: dict[str, Any]) -> None:
    """Scores of the right ones: a .1, abc .3, ab .2, az none; b .1, bbbb twice .4. Trust 0.2."""
    reward = TrustedReward(scorer=Lengths(), grade=starts_alike, trust=0.2)
    wanted = [0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0]
    assert reward(**arguments) == wanted
    assert TrustedReward(scorer=Lengths(), grade=starts_alike)(**arguments) == [0.0] * 10


def doubled(prompts: Any, completions: Any, score: list[Score], **columns: Any) -> list[Any]:
    return [None if one.value is None else 2 * one.value for one in score]


def test_a_function_that_asks_for_the_score_gets_it(arguments: dict[str, Any]) -> None:
    """Right or wrong; the columns reach it too."""
    assert wants_score(doubled)
    assert not wants_score(lambda prompts, completions, **columns: [])
    kept = {k: [v[i] for i in (0, 1, 4)] for k, v in arguments.items() if isinstance(v, list)}
    reward = FunctionOfScore(function=doubled, scorer=Lengths(), name="doubled")
    assert reward(**kept) == [0.2, 0.6, None]
    assert reward.__name__ == "doubled"
    with pytest.raises(InputError, match="Reward 'doubled' requires the column 'sample'"):
        reward(["a"], ["a"])
