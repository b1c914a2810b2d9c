"""A reward in two steps: first be right, then be the most to be trusted of the right ones.

    r(x) = 0 where x is wrong, 1 + rank_reward * rank(x) where it is right

with rank(x) the place of x's score among the right answers to the same problem, from 0 for the
lowest to 1 for the highest. Equal scores share the mean of their places, and an only right answer
has 1/2, so the ranks of the right ones have the mean 1/2 whatever their number: the score never
says how much better right is than wrong. Nor does its scale, which drifts as a model learns.

`trust` pays by the score itself instead, 1 to a right answer whose score is at least that and
nothing to the others (`TrustedReward`). Ranks cannot say that none of the right answers is worth
learning: where all steps are wrong the best of them is still paid in full.

The answers to a problem are those of one call that share a problem's id. Where trainers split a
group over several calls, each ranks its own part.

Two controls, for studies, differ in what is ranked alone: `PlaceboReward` deals the scores of the
right answers out among them by lot, `OracleReward` ranks right steps above wrong ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from remask.align.method_settings import TrainerState
from remask.align.reward import (
    Grade,
    LogMetric,
    NamedReward,
    Problems,
    SampleFromText,
    ScorerOfPrompts,
    ScoreSource,
    Turn,
    Values,
    graded,
    log_scores,
    problems_of,
    text_of,
)
from remask.tasks.base import Problem
from remask.values import Sample, Scorer


@dataclass(frozen=True, kw_only=True)
class RightAnswers:
    """The right answers to one problem, and what a trainer says of them."""

    problem: Problem
    texts: tuple[str, ...]
    scores: tuple[float, ...] = ()  # minus infinity: none could be had
    update: int = 0  # optimizer updates made


@dataclass(frozen=True, kw_only=True, eq=False)
class RankedReward(NamedReward):
    """0 for a wrong answer, 1 and something by its rank for a right one."""

    grade: Grade
    rank_reward: float = 0.5
    trust: float | None = None  # pay 1 for at least so much merit, instead of ranks
    name: str = "ranked"

    def merits(self, group: RightAnswers) -> Sequence[float]:
        """Return what the right answers to one problem are ranked by."""
        raise NotImplementedError

    def worth(self, merits: Sequence[float]) -> list[float]:
        """Return the rewards of the right answers to one problem."""
        if self.trust is None:
            return [1 + self.rank_reward * rank for rank in ranks(merits)]
        return [float(merit >= self.trust) for merit in merits]

    def scores(self, source: ScoreSource, right: Sequence[bool]) -> Values:
        """Return the scores of the right answers, None for the others, where they are ranked by."""
        return [None] * len(right)

    def __call__(
        self,
        prompts: Sequence[Turn],
        completions: Sequence[Turn],
        completion_ids: Sequence[Sequence[int]] | None = None,
        *,
        problem: Problems | None = None,
        sample: Sequence[Sample] | None = None,
        trainer_state: TrainerState | None = None,
        log_metric: LogMetric | None = None,
        **columns: Any,
    ) -> Values:
        """Return one reward per completion."""
        right = graded(self.name, self.grade, problem, completions)
        scores = self.scores(ScoreSource(self.name, prompts, completions, sample), right)
        log_scores(log_metric, scores)
        groups: dict[str, list[int]] = {}
        problems = problems_of(problem)
        for i in (i for i, is_right in enumerate(right) if is_right):
            groups.setdefault(problems[i].id, []).append(i)
        values: Values = [0.0] * len(right)
        update = 0 if trainer_state is None else trainer_state.global_step
        for places in groups.values():
            group = RightAnswers(
                problem=problems[places[0]], update=update,
                texts=tuple(text_of(completions[i]) for i in places),
                scores=tuple(_rankable(scores[i]) for i in places),
            )  # fmt: skip
            for i, value in zip(places, self.worth(self.merits(group)), strict=True):
                values[i] = value
        return values


@dataclass(frozen=True, kw_only=True, eq=False)
class LexicographicReward(RankedReward):
    """The right answers ranked by their scores; one without a score is below all others."""

    scorer: Scorer | ScorerOfPrompts
    sample_from_text: SampleFromText | None = None
    name: str = "lexicographic"

    def merits(self, group: RightAnswers) -> Sequence[float]:
        """Return the scores."""
        return group.scores

    def scores(self, source: ScoreSource, right: Sequence[bool]) -> Values:
        """Return the scores of the right answers; wrong ones are not scored."""
        scores = source.scores(self.scorer, self.sample_from_text, right)
        return [None if score is None else score.value for score in scores]


@dataclass(frozen=True, kw_only=True, eq=False)
class TrustedReward(LexicographicReward):
    """1 for a right answer whose score is at least `trust`, 0 for all others."""

    trust: float | None = 0.5
    name: str = "trusted"


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaceboReward(LexicographicReward):
    """The same rewards, dealt out by lot: what is left of their effect is not the score's."""

    seed: int = 0
    name: str = "placebo"

    def merits(self, group: RightAnswers) -> Sequence[float]:
        """Return the scores in another order, drawn for the problem and the update."""
        import torch  # not before a run: rewards are named on the way to `remask align --help`

        from remask import rng

        key = torch.tensor(rng.key(self.seed, group.problem.id, "placebo", group.update))
        order = rng.uniform(key, torch.arange(len(group.scores))).argsort().tolist()
        return [group.scores[i] for i in order]


@dataclass(frozen=True, kw_only=True, eq=False)
class OracleReward(RankedReward):
    """Right steps above wrong ones: what a score that knew all of them could do."""

    process_ok: Callable[[Problem, str], bool]
    name: str = "oracle"

    def merits(self, group: RightAnswers) -> Sequence[float]:
        """Return 1 for right steps, 0 for wrong ones."""
        return [float(self.process_ok(group.problem, text)) for text in group.texts]


def ranks(values: Sequence[float]) -> list[float]:
    """Return the place of each value among all, 0 to 1; equal ones share the mean of theirs."""
    if len(values) == 1:
        return [0.5]
    return [
        (sum(v < value for v in values) + (values.count(value) - 1) / 2) / (len(values) - 1)
        for value in values
    ]


def _rankable(score: float | None) -> float:
    return -float("inf") if score is None else score
