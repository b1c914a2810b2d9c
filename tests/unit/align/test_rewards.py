"""Rewards in TRL's convention: by hand, called as TRL calls them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

import remask.align
from remask.align.rewards import (
    ConsistencyReward,
    OutcomeReward,
    Progress,
    UngatedReward,
    text_of,
)
from remask.api import sample_from_text
from remask.denoisers.native import NativeDenoiser
from remask.errors import InputError, SettingsError
from remask.tasks.base import Problem
from remask.values import Sample, Score

HALFWAY = Progress(global_step=50, max_steps=100)


def problem(gold: str) -> Problem:
    return Problem(
        id=f"t/{gold}", task="t", level="l", prompt=f"which? {gold}", gold=gold, solution=gold
    )


def grade(given: Problem, text: str) -> bool:
    return text.strip() == given.gold


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """A scorer: a tenth per letter; no value for the letter z. It remembers what it was shown."""

    name: str = "lengths"
    shown: list[Sample] = field(default_factory=list)

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        self.shown.extend(samples)
        return [Score(value=None if s.text == "z" else len(s.text) / 10) for s in samples]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What a trainer passes, all by name."""

    golds: Sequence[str]
    texts: Sequence[str]
    state: Any = HALFWAY
    conversational: bool = False

    def arguments(self) -> dict[str, Any]:
        prompts: Any = [f"which? {gold}" for gold in self.golds]
        completions: Any = list(self.texts)
        if self.conversational:
            prompts = [[{"role": "user", "content": p}] for p in prompts]
            completions = [[{"role": "assistant", "content": c}] for c in completions]
        return {
            "prompts": prompts,
            "completions": completions,
            "completion_ids": [[1, 2]] * len(self.texts),
            "problem": [problem(gold) for gold in self.golds],
            "trainer_state": self.state,
            "log_extra": lambda column, values: None,
            "log_metric": lambda name, value: None,
            "another_column": [0] * len(self.texts),
        }


@pytest.fixture
def samples(answer: Callable[..., Sample]) -> Callable[[Sequence[str]], list[Sample]]:
    return lambda texts: [answer(text + ".") for text in texts]


def test_an_outcome_is_worth_two_or_nothing() -> None:
    batch = Batch(golds=["a", "b"], texts=["a", "a"])
    assert OutcomeReward(grade=grade)(**batch.arguments()) == [2.0, 0.0]
    assert OutcomeReward(grade=grade, right_reward=1)(**batch.arguments()) == [1.0, 0.0]


def test_conversations_are_worth_what_their_texts_are() -> None:
    batch = Batch(golds=["a", "b"], texts=["a", "a"], conversational=True)
    assert OutcomeReward(grade=grade)(**batch.arguments()) == [2.0, 0.0]


def test_a_problem_may_be_a_mapping_as_data_sets_have_it() -> None:
    arguments = Batch(golds=["a"], texts=["a"]).arguments()
    arguments["problem"] = [asdict(problem("a"))]
    assert OutcomeReward(grade=grade)(**arguments) == [2.0]


@pytest.mark.parametrize(("step", "alpha"), [(0, 0.5), (50, 0.75), (100, 1.0), (120, 1.0)])
def test_a_right_answer_is_worth_more_the_more_consistent_it_is(
    samples: Callable[[Sequence[str]], list[Sample]], step: int, alpha: float
) -> None:
    """Scores 0.1 and 0.4 for a and abcd; a wrong answer gets 0 and is not scored."""
    texts = ["a", "abcd", "wrong"]
    batch = Batch(
        golds=["a", "abcd", "a"], texts=texts, state=Progress(global_step=step, max_steps=100)
    )
    scorer = Lengths()
    reward = ConsistencyReward(scorer=scorer, grade=grade)
    found = reward(**batch.arguments(), sample=samples(texts))
    assert found == pytest.approx([1.5 + alpha * 0.1, 1.5 + alpha * 0.4, 0.0])
    assert [s.text for s in scorer.shown] == ["a", "abcd"]


def test_right_rewards_span_one_and_a_half_to_two_and_a_half() -> None:
    """Score 0 at the start: 1.5; score 1 at the end: 1.5 + 1.0."""
    reward = ConsistencyReward(scorer=Lengths(), grade=grade)
    assert reward.base_reward + reward.alpha(Progress(global_step=0, max_steps=9)) * 0 == 1.5
    assert reward.base_reward + reward.alpha(Progress(global_step=9, max_steps=9)) * 1 == 2.5


def test_a_right_answer_without_a_score_is_rewarded_as_wrong(
    samples: Callable[[Sequence[str]], list[Sample]],
) -> None:
    batch = Batch(golds=["z"], texts=["z"])
    reward = ConsistencyReward(scorer=Lengths(), grade=grade)
    assert reward(**batch.arguments(), sample=samples(["z"])) == [0.0]


def test_nothing_is_scored_where_nothing_is_right(
    samples: Callable[[Sequence[str]], list[Sample]],
) -> None:
    class Refusing:
        name = "refusing"

        def score(self, samples: Sequence[Sample]) -> list[Score]:
            raise AssertionError("called")

    batch = Batch(golds=["a"], texts=["b"])
    reward = ConsistencyReward(scorer=Refusing(), grade=grade)
    assert reward(**batch.arguments(), sample=samples(["b"])) == [0.0]


def test_without_samples_texts_are_brought(llada: NativeDenoiser) -> None:
    scorer = Lengths()
    reward = ConsistencyReward(
        scorer=scorer, grade=grade, sample_from_text=partial(sample_from_text, llada)
    )
    for conversational in (False, True):
        batch = Batch(golds=["ab", "c"], texts=["ab", "x"], conversational=conversational)
        assert reward(**batch.arguments()) == pytest.approx([1.5 + 0.75 * 0.2, 0.0])
    assert scorer.shown[0].prompt == tuple(llada.tokenizer.render("which? ab"))
    assert scorer.shown[0].prompt == scorer.shown[1].prompt


@pytest.mark.parametrize("conversational", [False, True])
def test_a_scorer_may_be_made_of_the_prompts_of_what_it_scores(
    answer: Callable[..., Sample], conversational: bool
) -> None:
    """By the items of the samples; a wrong answer's prompt is not among them."""
    made: list[Mapping[str, str]] = []

    def make(prompts: Mapping[str, str]) -> Lengths:
        made.append(prompts)
        return Lengths()

    texts = ["ab", "c", "no"]
    batch = Batch(golds=["ab", "c", "d"], texts=texts, conversational=conversational)
    drawn = [replace(answer(text + "."), item=f"item {text}") for text in texts]
    found = ConsistencyReward(scorer=make, grade=grade)(**batch.arguments(), sample=drawn)
    assert found == pytest.approx([1.5 + 0.75 * 0.2, 1.5 + 0.75 * 0.1, 0.0])
    assert made == [{"item ab": "which? ab", "item c": "which? c"}]


def test_the_ungated_reward_asks_for_no_label(
    samples: Callable[[Sequence[str]], list[Sample]],
) -> None:
    """Halfway alpha is 0.75: 1.5 + 0.75 * 0.5 for a wrong answer of five letters; empty: 0."""
    texts = ["wrong", " "]
    arguments = Batch(golds=["a", "a"], texts=texts).arguments()
    del arguments["problem"]
    found = UngatedReward(scorer=Lengths())(**arguments, sample=samples(texts))
    assert found == pytest.approx([1.875, 0.0])


def test_alpha_and_the_mean_score_are_logged(
    samples: Callable[[Sequence[str]], list[Sample]],
) -> None:
    logged: dict[str, float] = {}
    texts = ["a", "abc", "wrong"]
    arguments = Batch(golds=["a", "abc", "b"], texts=texts).arguments()
    arguments["log_metric"] = logged.__setitem__
    ConsistencyReward(scorer=Lengths(), grade=grade)(**arguments, sample=samples(texts))
    assert logged == {"bmc/alpha": 0.75, "bmc/score": pytest.approx(0.2)}


def test_the_state_may_be_any_object_with_two_numbers() -> None:
    reward = UngatedReward(scorer=Lengths())
    assert reward.alpha(SimpleNamespace(global_step=1, max_steps=4, epoch=0.1)) == 0.625  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [None, Progress(global_step=0, max_steps=-1)])
def test_alpha_needs_to_know_how_far_the_training_is(state: Progress | None) -> None:
    with pytest.raises(InputError, match="requires a trainer_state with max_steps"):
        UngatedReward(scorer=Lengths()).alpha(state)
    assert UngatedReward(scorer=Lengths(), alpha_min=0.7, alpha_max=0.7).alpha(state) == 0.7


def test_an_alpha_that_falls_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"alpha_min must be .* \(0\.5\), got 1\.0"):
        UngatedReward(scorer=Lengths(), alpha_min=1.0, alpha_max=0.5)


def test_a_missing_column_is_named() -> None:
    arguments = Batch(golds=["a"], texts=["a"]).arguments()
    with pytest.raises(InputError, match="'consistency' requires the column 'sample', or sample"):
        ConsistencyReward(scorer=Lengths(), grade=grade)(**arguments)
    del arguments["problem"]
    with pytest.raises(InputError, match="Reward 'outcome' requires the column 'problem'"):
        OutcomeReward(grade=grade)(**arguments)


def test_earlier_turns_are_not_silently_dropped(llada: NativeDenoiser) -> None:
    arguments = Batch(golds=["a"], texts=["a"], conversational=True).arguments()
    arguments["prompts"] = [[{"role": "system", "content": "x"}, *arguments["prompts"][0]]]
    reward = ConsistencyReward(
        scorer=Lengths(), grade=grade, sample_from_text=partial(sample_from_text, llada)
    )
    with pytest.raises(InputError, match="prompt of 2 messages requires the column"):
        reward(**arguments)


@pytest.mark.parametrize("turn", [[], [{"role": "assistant"}], [{"content": [{"text": "a"}]}]])
def test_a_conversation_without_a_text_is_refused(turn: Any) -> None:
    with pytest.raises(InputError, match="content of the last message must be a string"):
        text_of(turn)


def test_rewards_have_the_names_that_trl_logs() -> None:
    assert OutcomeReward(grade=grade).__name__ == "outcome"
    assert ConsistencyReward(scorer=Lengths(), grade=grade).__name__ == "consistency"
    assert UngatedReward(scorer=Lengths(), name="self").__name__ == "self"
    assert remask.align.ConsistencyReward is ConsistencyReward
