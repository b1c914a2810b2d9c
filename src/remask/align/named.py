"""Rewards by name: what `--reward outcome,soft_format=0.5,my_module:my_function` stands for.

Names are resolved before a model is loaded, and by a dry run as well; what they stand for is built
once the model is there, because rewards by the score need it.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from remask import extension
from remask.align import formats
from remask.align.combined import Combined, Reward
from remask.align.frozen import at_start, scoring_denoiser
from remask.align.lexicographic import (
    LexicographicReward,
    OracleReward,
    PlaceboReward,
    TrustedReward,
)
from remask.align.method_settings import Annealed
from remask.align.owners import FORMATS, REWARDS, SCORED
from remask.align.reward import (
    ConsistencyReward,
    FunctionOfScore,
    OutcomeReward,
    ScorerOfPrompts,
    UngatedReward,
    wants_score,
)
from remask.align.settings import AlignSettings, read_weight
from remask.consistency.metrics import metric_names
from remask.consistency.roundtrips import Consistency
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.errors import SettingsError
from remask.probes.marks import mark_critical
from remask.probes.scorer import ProbeScorer
from remask.probes.settings import Probe
from remask.tasks.base import Problem, Task
from remask.tasks.public.benchmark import Benchmark
from remask.values import ROUNDTRIPS, Scorer
from remask.verifier.columns import readings_of
from remask.verifier.verifier import Verifier


class Named(NamedTuple):
    """One reward of the settings."""

    name: str
    weight: float | None  # None: 1
    function: Reward | None  # None: it is built with the task and the model

    @property
    def scored(self) -> bool:
        """Whether completions have to be scored for it."""
        return self.name in SCORED if self.function is None else wants_score(self.function)


def resolve(settings: AlignSettings) -> dict[str, Named]:
    """Return the rewards that the settings name, by what the log calls them, or raise."""
    rewards: dict[str, Named] = {}
    for entry in settings.reward:
        name, equals, weight = entry.partition("=")
        short = name.rpartition(":")[2]
        if short in rewards:
            raise SettingsError(f"reward {short!r} is named twice; name it once, with a weight.")
        number = read_weight("reward", entry, weight) if equals else None
        rewards[short] = Named(name, number, _function(name))
    return rewards


def check_rewards(settings: AlignSettings, task: Task) -> dict[str, Named]:
    """Return the rewards that the settings name, or raise where a task does not have them."""
    named = resolve(settings)
    if "oracle" in named:
        _check_labels(settings, task)
    if settings.scorer == ROUNDTRIPS and any(one.scored for one in named.values()):
        _metric_weights(settings, task)
    return named


def build_reward(
    settings: AlignSettings, task: Task, denoiser: Denoiser, reference: Denoiser | None = None
) -> Combined:
    """Return the rewards that the settings name, as one; see `scoring_denoiser` for who scores."""
    named = check_rewards(settings, task)
    scorer = None
    if any(one.scored for one in named.values()):
        scorer = _scorer(settings, task, scoring_denoiser(denoiser, settings, reference))
    rewards = {short: _built(one, settings, task, scorer) for short, one in named.items()}
    weights = {short: one.weight for short, one in named.items() if one.weight is not None}
    return Combined(rewards=rewards, weights=weights)


def _function(name: str) -> Reward | None:
    """Return the function that a name stands for; None for one that needs task or model."""
    if ":" not in name:
        if name not in REWARDS:
            raise extension.unknown("reward", name, REWARDS)
        return getattr(formats, name) if name in FORMATS else None
    function: Reward = extension.import_object("reward", name)
    if not callable(function):
        raise SettingsError(f"reward {name!r} is {type(function).__name__}, not a function.")
    return function


def _built(
    named: Named, settings: AlignSettings, task: Task, scorer: Scorer | ScorerOfPrompts | None
) -> Reward:
    """Return one reward; a scorer is there where one is needed."""
    if named.function is not None and scorer is not None and named.scored:
        short = named.name.rpartition(":")[2]
        return FunctionOfScore(function=named.function, scorer=scorer, name=short)
    if named.function is not None:
        return named.function
    if named.name == "outcome":
        return OutcomeReward(grade=task.grade, right_reward=settings.right_reward)
    if named.name == "oracle":
        return OracleReward(
            grade=task.grade, process_ok=_check_labels(settings, task),
            rank_reward=settings.rank_reward, trust=settings.trust,
        )  # fmt: skip
    assert scorer is not None
    return _by_score(named.name, settings, task, scorer)


def _by_score(
    name: str, settings: AlignSettings, task: Task, scorer: Scorer | ScorerOfPrompts
) -> Reward:
    weight, annealed = settings.rank_reward, vars(settings.part(Annealed))
    if name == "lexicographic":
        return LexicographicReward(scorer=scorer, grade=task.grade, rank_reward=weight)
    if name == "trusted":
        return TrustedReward(scorer=scorer, grade=task.grade, trust=settings.trust)
    if name == "placebo":
        return PlaceboReward(
            scorer=scorer, grade=task.grade, rank_reward=weight, trust=settings.trust,
            seed=settings.seed,
        )  # fmt: skip
    if name == "ungated":
        return UngatedReward(scorer=scorer, **annealed)
    return ConsistencyReward(scorer=scorer, grade=task.grade, **annealed)


def _check_labels(settings: AlignSettings, task: Task) -> Callable[[Problem, str], bool]:
    """Return what knows whether all steps are right, or raise where a task has no labels."""
    if isinstance(task, Benchmark) or not hasattr(task, "process_ok"):
        raise SettingsError(
            f"reward 'oracle' needs labels of steps, and task {settings.task!r} has none; use "
            "lexicographic, or a generated task."
        )
    known: Callable[[Problem, str], bool] = task.process_ok
    return known


def _scorer(settings: AlignSettings, task: Task, denoiser: Denoiser) -> Scorer | ScorerOfPrompts:
    """Return what scores completions; probes have to know what was asked."""
    if settings.scorer == ROUNDTRIPS:
        consistency = Consistency(
            denoiser=denoiser, extract=task.extract, settings=settings.part(ConsistencySettings),
            metric_set=settings.metrics, task_metrics=task.metrics, seed=settings.seed,
            weights=_metric_weights(settings, task),
        )  # fmt: skip
        return at_start(consistency, denoiser, settings)
    kind = getattr(task, "critical", "number")  # a task of one's own need not say

    def make(questions: Mapping[str, str]) -> Scorer:
        critical = mark_critical(denoiser.tokenizer, questions, extract=task.extract, kind=kind)
        if settings.scorer == "probe":
            return ProbeScorer(
                denoiser=denoiser, critical=critical, probe=Probe.named(settings.probe),
                reading=settings.reading or readings_of(settings.probe)[0], seed=settings.seed,
                name="probe" if settings.probe == "critical" else settings.probe,
            )  # fmt: skip
        return Verifier(
            denoiser=denoiser, extract=task.extract, critical=critical, seed=settings.seed
        )

    return at_start(make, denoiser, settings)


def _metric_weights(settings: AlignSettings, task: Task) -> dict[str, float] | None:
    """Return the weights of all metrics, those that are not named 0; None: all the same."""
    given = settings.weight_of_metric
    if given is None:
        return None
    names = metric_names(settings.metrics, task.metrics)
    for name in given:
        if name not in names:
            raise SettingsError(
                f"metric_weights name {name!r}, which is no metric of this score; there are "
                f"{', '.join(names)}."
            )
    return {name: given.get(name, 0.0) for name in names}
