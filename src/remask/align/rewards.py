"""Rewards of completions, in TRL's calling convention.

    fn(prompts, completions, completion_ids, **columns, trainer_state) -> [float or None, ...]

All arguments are keywords with one value per completion; None means that the reward does not
apply. Rewards written for TRL work here and these rewards work in TRL. A completion is a string or
a list of messages that ends with the reply.

Columns that the rewards read: `problem`, a `Problem` or a mapping of its fields, for the grader;
`sample`, the `Sample` that was drawn, for the scorer. Without a column `sample`, pass
`sample_from_text`, for example `partial(remask.sample_from_text, model)`. A scorer that needs the
prompts is passed as a function that makes it: `partial(remask.api.verifier, model)`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from remask.align.method_settings import Annealed, TrainerState
from remask.errors import InputError
from remask.extension import taken
from remask.tasks.base import Problem
from remask.values import Sample, Score, Scorer, scores_of

Messages = Sequence[Mapping[str, Any]]
Turn = str | Messages  # a prompt or a completion
Values = list[float | None]
Problems = Sequence[Problem | Mapping[str, Any]]
Grade = Callable[[Problem, str], bool]  # such as `Task.grade`
SampleFromText = Callable[[str, str], Sample]  # prompt, answer
LogMetric = Callable[[str, float], None]
ScorerOfPrompts = Callable[[Mapping[str, str]], Scorer]  # prompt texts by item -> scorer


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A `TrainerState` for trainers without their own."""

    global_step: int
    max_steps: int


class NamedReward:
    """A reward with the `__name__` that TRL logs."""

    name: str

    @property
    def __name__(self) -> str:
        return self.name


@dataclass(frozen=True, kw_only=True, eq=False)
class OutcomeReward(NamedReward):
    """2 for a right final answer, 0 for a wrong one."""

    grade: Grade
    right_reward: float = 2.0
    name: str = "outcome"

    def __call__(
        self, prompts: Sequence[Turn], completions: Sequence[Turn], **columns: Any
    ) -> Values:
        """Return one reward per completion."""
        right = graded(self.name, self.grade, columns.get("problem"), completions)
        return [self.right_reward * r for r in right]


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoringReward(NamedReward):
    """A reward that scores completions."""

    scorer: Scorer | ScorerOfPrompts
    sample_from_text: SampleFromText | None = None
    name: str = "score"

    def scores(
        self,
        prompts: Sequence[Turn],
        completions: Sequence[Turn],
        samples: Sequence[Sample] | None,
        wanted: Sequence[bool],
        log_metric: LogMetric | None,
    ) -> list[Score | None]:
        """Return the scores of the wanted completions, None for the others; log their mean."""
        places = [i for i, is_wanted in enumerate(wanted) if is_wanted]
        scores: list[Score | None] = [None] * len(wanted)
        chosen = [self._sample(i, prompts, completions, samples) for i in places]
        if chosen:
            scorer = self._scorer({s.item: prompts[i] for s, i in zip(chosen, places, strict=True)})
            for i, score in zip(places, scores_of(scorer, chosen), strict=True):
                scores[i] = score
        known = [score.value for score in scores if score is not None and score.value is not None]
        if log_metric is not None and known:
            log_metric("bmc/score", sum(known) / len(known))
        return scores

    def _scorer(self, prompts: Mapping[str, Turn]) -> Scorer:
        if hasattr(self.scorer, "score"):
            return cast(Scorer, self.scorer)
        return self.scorer({item: text_of(prompt) for item, prompt in prompts.items()})

    def _sample(
        self,
        i: int,
        prompts: Sequence[Turn],
        completions: Sequence[Turn],
        samples: Sequence[Sample] | None,
    ) -> Sample:
        if samples is not None:
            return samples[i]
        prompt = prompts[i]
        if self.sample_from_text is None:
            raise InputError(
                f"Reward {self.name!r} requires the column 'sample', or sample_from_text (for "
                "example partial(remask.sample_from_text, model))."
            )
        if not isinstance(prompt, str) and len(prompt) > 1:
            raise InputError(
                f"A prompt of {len(prompt)} messages requires the column 'sample': only prompts of "
                "one message can be converted to samples."
            )
        return self.sample_from_text(text_of(prompt), text_of(completions[i]))


class PaidByScore(ScoringReward):
    """A reward that only some completions can earn; only those are scored."""

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
        earned = self.earned(completions, problem)
        alpha = self.weight(trainer_state, log_metric)
        scores = self.scores(prompts, completions, sample, earned, log_metric)
        values = [None if score is None else score.value for score in scores]
        return self.paid(earned, values, alpha, problem)

    def earned(self, completions: Sequence[Turn], problems: Problems | None) -> list[bool]:
        """Return which completions can have a reward above 0."""
        raise NotImplementedError

    def weight(self, state: TrainerState | None, log_metric: LogMetric | None) -> float:
        """Return the weight of the score at this update."""
        return 1.0

    def paid(
        self, earned: Sequence[bool], values: Values, alpha: float, problems: Problems | None
    ) -> Values:
        """Return the rewards, given the scores of the completions that were scored."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, eq=False)
class AnnealedReward(Annealed, PaidByScore):
    """1.5 + alpha * score for completions that earn it, 0 for the others and without a score."""

    def weight(self, state: TrainerState | None, log_metric: LogMetric | None) -> float:
        """Return alpha and log it."""
        alpha = self.alpha(state)
        if log_metric is not None:
            log_metric("bmc/alpha", alpha)
        return alpha

    def paid(
        self, earned: Sequence[bool], values: Values, alpha: float, problems: Problems | None
    ) -> Values:
        """Return the rewards."""
        return [0.0 if v is None else self.base_reward + alpha * v for v in values]


@dataclass(frozen=True, kw_only=True, eq=False)
class ConsistencyReward(AnnealedReward):
    """1[right] * (1.5 + alpha * score): the paper's gated reward.

    Wrong answers are not scored. A right answer without a score is rewarded like a wrong one.
    """

    grade: Grade
    name: str = "consistency"

    def earned(self, completions: Sequence[Turn], problems: Problems | None) -> list[bool]:
        """Return which completions are right."""
        return graded(self.name, self.grade, problems, completions)


@dataclass(frozen=True, kw_only=True, eq=False)
class UngatedReward(AnnealedReward):
    """1.5 + alpha * score, without labels.

    It can be gamed: short, repeated or constant completions are easy to reconstruct and receive
    the full reward. Monitor accuracy and length on labelled problems. Empty answers get 0.
    """

    name: str = "ungated"

    def earned(self, completions: Sequence[Turn], problems: Problems | None) -> list[bool]:
        """Return which completions are not empty."""
        return [bool(text_of(completion).strip()) for completion in completions]


@dataclass(frozen=True, kw_only=True, eq=False)
class LexicographicReward(PaidByScore):
    """0 for a wrong answer, 1 + rank_reward * rank for a right one.

    The rank of a score among the right answers to the same problem (equal `id`) runs from 0 for
    the lowest to 1 for the highest. Ties share the mean of their ranks, a single right answer has
    rank 1/2, and an answer without a score has the lowest rank. So right answers receive
    1 + rank_reward / 2 on average, whatever the scale of the scores. Only the answers of one call
    are ranked together.
    """

    grade: Grade
    rank_reward: float = 0.5
    name: str = "lexicographic"

    def earned(self, completions: Sequence[Turn], problems: Problems | None) -> list[bool]:
        """Return which completions are right."""
        return graded(self.name, self.grade, problems, completions)

    def paid(
        self, earned: Sequence[bool], values: Values, alpha: float, problems: Problems | None
    ) -> Values:
        """Return the rewards."""
        groups: dict[str, list[int]] = {}
        for i, problem in enumerate(problems_of(problems)):
            if earned[i]:
                groups.setdefault(problem.id, []).append(i)
        rewards: Values = [0.0] * len(earned)
        for places in groups.values():
            known = [-float("inf") if (v := values[i]) is None else v for i in places]
            for i, rank in zip(places, ranks(known), strict=True):
                rewards[i] = 1 + self.rank_reward * rank
        return rewards


@dataclass(frozen=True, kw_only=True, eq=False)
class TrustedReward(PaidByScore):
    """1 for a right answer with a score of at least `trust`, 0 for all others."""

    grade: Grade
    trust: float = 0.5
    name: str = "trusted"

    def earned(self, completions: Sequence[Turn], problems: Problems | None) -> list[bool]:
        """Return which completions are right."""
        return graded(self.name, self.grade, problems, completions)

    def paid(
        self, earned: Sequence[bool], values: Values, alpha: float, problems: Problems | None
    ) -> Values:
        """Return the rewards."""
        return [float(value is not None and value >= self.trust) for value in values]


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionOfScore(ScoringReward):
    """A user's function with a parameter `score`: it receives one `Score` per completion."""

    function: Callable[..., Any]
    name: str = "function"

    def __call__(
        self,
        prompts: Sequence[Turn],
        completions: Sequence[Turn],
        *,
        sample: Sequence[Sample] | None = None,
        log_metric: LogMetric | None = None,
        **columns: Any,
    ) -> Any:
        """Return the result of the function; all completions are scored, wrong ones too."""
        wanted = [True] * len(completions)
        scores = self.scores(prompts, completions, sample, wanted, log_metric)
        return self.function(
            prompts=prompts,
            completions=completions,
            score=scores,
            sample=sample,
            log_metric=log_metric,
            **columns,
        )


def wants_score(function: Callable[..., Any]) -> bool:
    """Return whether a reward has a parameter named `score`."""
    return bool(taken(function, {"score": None}))


def text_of(turn: Turn) -> str:
    """Return the text of a prompt or completion; of a conversation, that of its last message."""
    if isinstance(turn, str):
        return turn
    content = turn[-1].get("content") if turn else None
    if not isinstance(content, str):
        raise InputError(f"The content of the last message must be a string, got {content!r}.")
    return content


def graded(
    name: str, grade: Grade, problems: Problems | None, completions: Sequence[Turn]
) -> list[bool]:
    """Return which completions are right."""
    if problems is None:
        raise InputError(f"Reward {name!r} requires the column 'problem' to grade answers.")
    pairs = zip(problems_of(problems), completions, strict=True)
    return [grade(problem, text_of(completion)) for problem, completion in pairs]


def problems_of(problems: Problems | None) -> list[Problem]:
    """Return a column of problems, with mappings converted to `Problem`."""
    return [p if isinstance(p, Problem) else Problem(**p) for p in problems or ()]


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 0 to 1; equal values share the mean of their ranks."""
    if len(values) == 1:
        return [0.5]
    return [
        (sum(v < value for v in values) + (values.count(value) - 1) / 2) / (len(values) - 1)
        for value in values
    ]
