"""What a completion is worth, in TRL's calling convention.

    fn(prompts, completions, completion_ids, **columns, trainer_state) -> [float or None, ...]

Everything is passed by name, one value per completion; None means that the reward does not apply.
So a reward written for TRL works here, and the rewards here work in TRL; neither imports the other.
A completion is a text, or a list of messages whose last one is the reply.

The columns that are looked at here: `problem`, a `Problem` or its fields as a mapping, for the
grader; `sample`, the `Sample` that was drawn, for the scorer, which may be one or what makes one of
the prompts: `partial(remask.api.verifier, model)`. Without a `sample` column a reward
needs `sample_from_text`, which makes a `Sample` of a prompt and an answer:
`partial(remask.sample_from_text, model)`.

Rewards for the form of an answer are in `remask.align.formats`.
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
Turn = str | Messages  # a prompt or a completion: a text, or a conversation
Values = list[float | None]
Problems = Sequence[Problem | Mapping[str, Any]]
Grade = Callable[[Problem, str], bool]  # such as `Task.grade`
SampleFromText = Callable[[str, str], Sample]  # prompt, answer
LogMetric = Callable[[str, float], None]
# Makes the scorer of answers to these prompts, as text, by the item of their samples.
ScorerOfPrompts = Callable[[Mapping[str, str]], Scorer]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A `TrainerState` for trainers that have no other."""

    global_step: int
    max_steps: int


class NamedReward:
    """A reward with a name, as TRL wants it."""

    name: str

    @property
    def __name__(self) -> str:
        """The name that TRL logs."""
        return self.name


@dataclass(frozen=True, kw_only=True, eq=False)
class OutcomeReward(NamedReward):
    """2 for a right final answer, 0 for a wrong one: what the score is compared with."""

    grade: Grade
    right_reward: float = 2.0
    name: str = "outcome"

    def __call__(
        self, prompts: Sequence[Turn], completions: Sequence[Turn], **columns: Any
    ) -> Values:
        """Return one reward per completion."""
        right = graded(self.name, self.grade, columns.get("problem"), completions)
        return [self.right_reward * r for r in right]


@dataclass(frozen=True)
class ScoreSource:
    """What a reward was called with that scores can be had of."""

    name: str  # of the reward
    prompts: Sequence[Turn]
    completions: Sequence[Turn]
    samples: Sequence[Sample] | None

    def scores(
        self,
        scorer: Scorer | ScorerOfPrompts,
        sample_from_text: SampleFromText | None,
        wanted: Sequence[bool],
    ) -> list[Score | None]:
        """Return the scores of the wanted completions, None for the others, in one batch."""
        places = [i for i, is_wanted in enumerate(wanted) if is_wanted]
        scores: list[Score | None] = [None] * len(wanted)
        chosen = self._chosen(places, sample_from_text)
        if chosen:
            made = _made(scorer, chosen, [self.prompts[i] for i in places])
            for i, score in zip(places, scores_of(made, chosen), strict=True):
                scores[i] = score
        return scores

    def _chosen(
        self, places: Sequence[int], sample_from_text: SampleFromText | None
    ) -> list[Sample]:
        """Return some completions as samples: those that were drawn, or made of texts."""
        if self.samples is not None:
            return [self.samples[i] for i in places]
        if sample_from_text is None:
            raise InputError(
                f"reward {self.name!r} needs the column 'sample', or sample_from_text to make "
                "samples of texts; set sample_from_text to partial(remask.sample_from_text, model)."
            )
        return [
            sample_from_text(_single(self.prompts[i]), text_of(self.completions[i])) for i in places
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredReward(Annealed, NamedReward):
    """1.5 + alpha * score where a completion has earned it; 0 elsewhere, which is not scored."""

    scorer: Scorer | ScorerOfPrompts
    sample_from_text: SampleFromText | None = None
    name: str = "score"

    def earned(self, completions: Sequence[Turn], problems: Problems | None) -> list[bool]:
        """Return which completions are worth anything."""
        raise NotImplementedError

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
        alpha = self.alpha(trainer_state)
        source = ScoreSource(self.name, prompts, completions, sample)
        scores = source.scores(self.scorer, self.sample_from_text, earned)
        values = [None if score is None else score.value for score in scores]
        if log_metric is not None:
            log_metric("bmc/alpha", alpha)
        log_scores(log_metric, values)
        # An answer without a score is rewarded as wrong.
        return [
            e * (self.base_reward + alpha * v) if v is not None else 0.0
            for e, v in zip(earned, values, strict=True)
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class ConsistencyReward(ScoredReward):
    """1[right] * (1.5 + alpha * score): the paper's gated reward.

    A wrong answer is worth 0 however stable it is, and is not scored, which saves its round trips.
    A right answer without a score is rewarded as a wrong one.
    """

    grade: Grade
    name: str = "consistency"

    def earned(self, completions: Sequence[Turn], problems: Problems | None) -> list[bool]:
        """Return which completions are right."""
        return graded(self.name, self.grade, problems, completions)


@dataclass(frozen=True, kw_only=True, eq=False)
class UngatedReward(ScoredReward):
    """1.5 + alpha * score, with no label: for problems whose answers nobody knows.

    The risk: nothing here asks whether an answer is right. A model that learns to write what it
    rebuilds easily, short, repeated or always the same, is paid in full, and so is a stable error:
    expect the score to rise while accuracy falls, and watch accuracy and length on labelled
    problems. An empty answer is worth 0, which closes only the shortest of these ways.
    """

    name: str = "ungated"

    def earned(self, completions: Sequence[Turn], problems: Problems | None) -> list[bool]:
        """Return which completions hold a text."""
        return [bool(text_of(completion).strip()) for completion in completions]


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionOfScore(NamedReward):
    """A function that asks for `score` by name: it is passed one `Score` per completion."""

    function: Callable[..., Any]
    scorer: Scorer | ScorerOfPrompts
    sample_from_text: SampleFromText | None = None
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
        """Return what the function returns; right or wrong, every completion is scored."""
        source = ScoreSource(self.name, prompts, completions, sample)
        scores = source.scores(self.scorer, self.sample_from_text, [True] * len(completions))
        log_scores(log_metric, [None if score is None else score.value for score in scores])
        return self.function(
            prompts=prompts, completions=completions, score=scores, sample=sample,
            log_metric=log_metric, **columns,
        )  # fmt: skip


def wants_score(function: Callable[..., Any]) -> bool:
    """Return whether a reward has a parameter named `score`."""
    return bool(taken(function, {"score": None}))


def text_of(turn: Turn) -> str:
    """Return the text of a prompt or completion: itself, or the content of its last message."""
    if isinstance(turn, str):
        return turn
    content = turn[-1].get("content") if turn else None
    if not isinstance(content, str):
        raise InputError(
            f"a conversation ends with content {content!r}; its last message must hold a text."
        )
    return content


def graded(
    name: str,
    grade: Grade,
    problems: Problems | None,
    completions: Sequence[Turn],
) -> list[bool]:
    """Return which completions are right."""
    if problems is None:
        raise InputError(
            f"reward {name!r} needs the column 'problem' to grade answers; add it to the data set."
        )
    return [
        grade(p, text_of(completion))
        for p, completion in zip(problems_of(problems), completions, strict=True)
    ]


def problems_of(problems: Problems | None) -> list[Problem]:
    """Return the column of problems, those that are mappings too."""
    return [p if isinstance(p, Problem) else Problem(**p) for p in problems or ()]


def _made(
    scorer: Scorer | ScorerOfPrompts, samples: Sequence[Sample], prompts: Sequence[Turn]
) -> Scorer:
    """Return a scorer of these samples, which is made where it has to know their prompts."""
    if hasattr(scorer, "score"):
        return cast(Scorer, scorer)
    texts = {s.item: text_of(prompt) for s, prompt in zip(samples, prompts, strict=True)}
    return scorer(texts)


def _single(prompt: Turn) -> str:
    """Return the text of a prompt, or raise where turns before it would be lost."""
    if not isinstance(prompt, str) and len(prompt) > 1:
        raise InputError(
            f"a prompt of {len(prompt)} messages cannot be brought as one text; pass the column "
            "'sample'."
        )
    return text_of(prompt)


def log_scores(log_metric: LogMetric | None, scores: Sequence[float | None]) -> None:
    """Tell the trainer what the score was on average."""
    known = [score for score in scores if score is not None]
    if log_metric is not None and known:
        log_metric("bmc/score", sum(known) / len(known))
