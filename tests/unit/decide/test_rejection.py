"""Algorithm 1 to the letter, best-of-N and the vote, with draws and scores written by hand."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from remask.answers import extract_number
from remask.decide.rejection import Attempt, Round, best_of, majority_vote, reject, rejection
from remask.decide.rejection import decide as decide_by
from remask.errors import SettingsError
from remask.values import Decision, Sample, Score


@dataclass
class Pool:
    """Texts by item and sample number; notes what was asked. Generating sample n costs 100 + n."""

    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    asked: list[tuple[int, list[str]]] = field(default_factory=list)

    def draw(self, items: Sequence[str], number: int) -> list[Sample]:
        self.asked.append((number, list(items)))
        return [
            Sample(
                item=item,
                number=number,
                prompt=(3,),
                canvas=(4, 0),
                num_response=2,
                text=self.texts[item][number] if self.texts else "a text",
                forwards=100 + number,
            )
            for item in items
        ]


def number_of(sample: Sample) -> str | None:
    return extract_number(sample.text)


@dataclass
class Table:
    """Scores by item and sample number; each costs 7."""

    values: Mapping[str, Sequence[float | None]]
    name: str = "table"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        return [Score(value=self.values[s.item][s.number], forwards=7) for s in samples]


def decide(
    values: Sequence[float | None], *, threshold: float = 0.75, budget: int | None = None
) -> Decision:
    """Return the decision on a single item."""
    budget = len(values) if budget is None else budget
    scorer = Table({"x": values})
    return reject(Pool().draw, scorer, ["x"], threshold=threshold, budget=budget)[0]


@pytest.mark.parametrize(
    ("value", "accepted"), [(0.76, True), (0.75, False), (None, False), (-2.0, False)]
)
def test_only_a_score_above_the_threshold_exceeds_it(value: float | None, accepted: bool) -> None:
    assert Score(value=value).exceeds(0.75) is accepted


@pytest.mark.parametrize(
    ("value", "stderr", "threshold", "verdict"),
    [
        (0.9, 0.05, 0.82, "trust"),
        (0.7, 0.05, 0.82, "doubt"),
        (0.812, 0.056, 0.82, "undecided"),  # .008 below, of .056
        (0.85, 0.056, 0.82, "undecided"),
        (0.5, 0.25, 0.75, "undecided"),  # one standard error, to the last bit
        (0.965, 0.01, 1.0, "doubt"),
        (0.82, None, 0.82, "doubt"),  # one trip: how far it errs is not known
        (0.83, None, 0.82, "trust"),
        (0.82, 0.0, 0.82, "doubt"),  # all trips alike
        (-2.0, 0.5, -2.25, "undecided"),
        (None, None, 0.82, "unknown"),
        (0.9, 0.05, None, "unknown"),
    ],
)
def test_within_one_standard_error_of_the_threshold_nothing_is_decided(
    value: float | None, stderr: float | None, threshold: float | None, verdict: str
) -> None:
    assert Score(value=value, stderr=stderr).verdict(threshold) == verdict


def test_algorithm_1_asks_for_rounds_and_returns_what_it_decides() -> None:
    """a is accepted at .8, b after the budget of two falls back to its first, .7."""
    steps = rejection(["a", "b"], threshold=0.75, budget=2)
    scores = {("a", 0): 0.8, ("b", 0): 0.7, ("b", 1): None}

    def attempts(needed: Round) -> list[Attempt]:
        return [
            (_sample(item, needed.number), Score(value=scores[item, needed.number]))
            for item in needed.items
        ]

    first = next(steps)
    assert first == (("a", "b"), 0)
    second = steps.send(attempts(first))
    assert second == (("b",), 1)
    with pytest.raises(StopIteration) as end:
        steps.send(attempts(second))
    assert [(d.item, d.action, d.sample.number) for d in end.value.value] == [
        ("a", "accept", 0), ("b", "fallback", 0),
    ]  # fmt: skip


def test_a_driver_that_runs_out_of_attempts_is_not_taken_for_the_end() -> None:
    recorded: Iterator[list[Attempt]] = iter([])
    with pytest.raises(StopIteration):
        decide_by(lambda needed: next(recorded), ["a"])


def test_the_first_sample_above_the_threshold_is_accepted() -> None:
    """.2, .8 > .75: the second, though .9 would have followed."""
    got = decide([0.2, 0.8, 0.9])
    assert (got.action, got.sample.number, got.score.value) == ("accept", 1, 0.8)
    assert [s.value for _, s in got.attempts] == [0.2, 0.8]
    assert got.reason == "sample 2 scored 0.800, above 0.75"


def test_a_score_equal_to_the_threshold_is_not_above_it() -> None:
    """S > tau, strictly: .75 is passed over, .76 taken."""
    assert decide([0.75, 0.76]).sample.number == 1
    assert decide([0.75, 0.75]).action == "fallback"


def test_when_the_budget_is_spent_the_best_so_far_is_returned() -> None:
    got = decide([0.1, 0.6, 0.3])
    assert (got.action, got.sample.number) == ("fallback", 1)
    assert got.reason == "no sample of 3 scored above 0.75: the best is returned"


def test_the_first_of_equals_is_kept() -> None:
    """S > S_best, strictly: a later equal does not replace the best so far."""
    assert decide([0.1, 0.6, 0.6, 0.2]).sample.number == 1


def test_a_budget_of_one_is_standard_sampling() -> None:
    got = decide([0.3, 0.9], budget=1)
    assert (got.action, got.sample.number, len(got.attempts)) == ("fallback", 0, 1)


def test_an_item_that_has_its_answer_leaves_the_batch() -> None:
    """a is settled at once, c in the second round, b never."""
    pool = Pool()
    scorer = Table({"a": [0.9], "b": [0.1, 0.2, 0.3], "c": [0.5, 0.8]})
    got = reject(pool.draw, scorer, ["a", "b", "c"], threshold=0.75, budget=3)
    assert pool.asked == [(0, ["a", "b", "c"]), (1, ["b", "c"]), (2, ["b"])]
    assert [d.item for d in got] == ["a", "b", "c"]
    assert [d.action for d in got] == ["accept", "fallback", "accept"]
    assert [d.sample.number for d in got] == [0, 2, 1]


def test_drawing_stops_when_every_item_has_its_answer() -> None:
    pool = Pool()
    reject(pool.draw, Table({"a": [0.9], "b": [0.8]}), ["a", "b"], budget=10)
    assert pool.asked == [(0, ["a", "b"])]


def test_many_items_decide_as_each_alone() -> None:
    values = {"a": [0.9], "b": [0.1, 0.2, 0.3], "c": [0.5, 0.8]}
    together = reject(Pool().draw, Table(values), list(values), budget=3)
    alone = [reject(Pool().draw, Table(values), [item], budget=3)[0] for item in values]
    assert together == alone


def test_the_cost_is_generation_and_verification_of_every_attempt() -> None:
    """Samples 0 and 1: 100 + 101, and 7 for each score."""
    assert decide([0.2, 0.8, 0.9]).forwards == 215


def test_an_answer_without_a_score_is_never_accepted_and_is_the_last_resort() -> None:
    assert decide([None, 0.0, None]).sample.number == 1
    assert decide([None, 0.8]).sample.number == 1
    got = decide([None, None])
    assert (got.action, got.sample.number, got.score.value) == ("fallback", 0, None)


def test_no_score_is_worth_less_than_any_score() -> None:
    """Log-probabilities are scores too: -5 beats None, and None is not above -2."""
    assert decide([None, -5.0]).sample.number == 1
    assert decide([None, -1.5], threshold=-2).sample.number == 1
    assert decide([None, None], threshold=-2).action == "fallback"
    (best,) = best_of(Pool().draw, Table({"x": [None, -5.0]}), ["x"], 2)
    assert best.sample.number == 1


def test_best_of_takes_the_highest_score_and_the_first_of_equals() -> None:
    """No early exit: all three are drawn and paid for, 303 + 21."""
    pool = Pool()
    scorer = Table({"a": [0.9, 0.2, 0.95], "b": [0.4, 0.4, None]})
    one, two = best_of(pool.draw, scorer, ["a", "b"], 3)
    assert [number for number, _ in pool.asked] == [0, 1, 2]
    assert (one.sample.number, two.sample.number) == (2, 0)
    assert one.forwards == two.forwards == 324
    assert one.reason == "best of 3 by table"


@pytest.mark.parametrize(
    ("texts", "number", "share"),
    [
        (["8", "9", "9.0"], 1, 2 / 3),  # equivalent answers vote together; their first is returned
        (["8", "9", "9", "8"], 0, 0.5),  # a tie goes to the answer seen first
        (["none", "9", "8"], 1, 1 / 3),  # None never wins
        (["none", "?", "none"], 0, 0.0),
        (["?", "?", "7"], 2, 1 / 3),
    ],
)
def test_the_majority_wins(texts: list[str], number: int, share: float) -> None:
    (got,) = majority_vote(Pool({"x": texts}).draw, number_of, ["x"], len(texts))
    assert got.sample.number == number
    assert got.score.value == pytest.approx(share)


def test_a_vote_costs_its_samples_and_nothing_else() -> None:
    (got,) = majority_vote(Pool({"x": ["1", "2", "3"]}).draw, number_of, ["x"], 3)
    assert got.forwards == 303
    assert got.reason == "majority of 3"


def test_a_budget_below_one_is_refused() -> None:
    with pytest.raises(SettingsError, match="budget must be at least 1, got 0"):
        decide([0.1], budget=0)
    with pytest.raises(SettingsError, match="n must be at least 1, got 0"):
        best_of(Pool().draw, Table({}), [], 0)
    with pytest.raises(SettingsError, match="n must be at least 1, got -1"):
        majority_vote(Pool().draw, number_of, [], -1)


def test_no_items_give_no_decisions() -> None:
    assert reject(Pool().draw, Table({}), []) == []
    assert majority_vote(Pool().draw, number_of, [], 2) == []


def test_every_attempt_is_shown_as_it_comes() -> None:
    shown: list[tuple[int, float | None]] = []
    (decision,) = reject(
        lambda items, number: [_sample(items[0], number)],
        _Fixed([0.2, 0.9]),
        ["a"],
        threshold=0.5,
        watch=lambda sample, score: shown.append((sample.number, score.value)),
    )
    assert shown == [(0, 0.2), (1, 0.9)]
    assert decision.action == "accept"


def _sample(item: str, number: int) -> Sample:
    return Sample(
        item=item, number=number, prompt=(1,), canvas=(2,), num_response=1, text=str(number)
    )


class _Fixed:
    name = "fixed"

    def __init__(self, values: list[float]) -> None:
        self.values = iter(values)

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        return [Score(value=next(self.values)) for _ in samples]
