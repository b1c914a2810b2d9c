"""Builds the reward of a run from names such as `outcome,soft_format=0.5,my_module:my_function`.

Names are resolved before a model is loaded. Rewards by a score are built with the model. With
`scored_by: start` the initial model scores: the policy without its adapters, or a copy of it if
all weights are trained.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from torch import nn

from remask import extension
from remask.align import formats
from remask.align.combined import Combined, Reward
from remask.align.lora import without_adapters
from remask.align.method_settings import Annealed
from remask.align.owners import FORMATS, REWARDS, SCORED
from remask.align.rewards import (
    ConsistencyReward,
    FunctionOfScore,
    LexicographicReward,
    OutcomeReward,
    ScorerOfPrompts,
    TrustedReward,
    UngatedReward,
    wants_score,
)
from remask.align.settings import AlignSettings, read_weight
from remask.consistency.metrics import metric_names
from remask.consistency.roundtrips import Consistency
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.errors import SettingsError
from remask.probes.marks import mark_critical
from remask.probes.scorer import ProbeScorer
from remask.probes.settings import Probe
from remask.tasks.base import Task
from remask.values import ROUNDTRIPS, Sample, Score, Scorer
from remask.verifier.columns import readings_of
from remask.verifier.verifier import Verifier


class Named(NamedTuple):
    """One reward of the settings."""

    name: str
    weight: float
    function: Reward | None  # None: built with the task and the model

    @property
    def is_scored(self) -> bool:
        """Whether the reward needs scores."""
        return self.name in SCORED if self.function is None else wants_score(self.function)


def check_rewards(settings: AlignSettings, task: Task) -> dict[str, Named]:
    """Return the rewards of the settings by their names in the log, or raise."""
    rewards: dict[str, Named] = {}
    for entry in settings.reward:
        name, equals, weight = entry.partition("=")
        short = name.rpartition(":")[2]
        if short in rewards:
            raise SettingsError(f"reward {short!r} is named twice; name it once, with a weight.")
        number = read_weight("reward", entry, weight) if equals else 1.0
        rewards[short] = Named(name, number, _function(name))
    if settings.scorer == ROUNDTRIPS and any(one.is_scored for one in rewards.values()):
        _metric_weights(settings, task)
    return rewards


def _function(name: str) -> Reward | None:
    if ":" not in name:
        if name not in REWARDS:
            raise extension.unknown("reward", name, REWARDS)
        return getattr(formats, name) if name in FORMATS else None
    function: Reward = extension.import_object("reward", name)
    if not callable(function):
        raise SettingsError(f"reward {name!r} must be a function, got {type(function).__name__}.")
    return function


def build_reward(
    settings: AlignSettings, task: Task, denoiser: Denoiser, reference: Denoiser | None = None
) -> Combined:
    """Return the weighted sum of the rewards that the settings name.

    Args:
        settings: of the run.
        task: grades answers.
        denoiser: the model that generates completions.
        reference: the initial model if there is a copy already; it scores with `scored_by: start`.
    """
    named = check_rewards(settings, task)
    scorer = None
    if any(one.is_scored for one in named.values()):
        scorer = _scorer(settings, task, denoiser, reference)
    return Combined(
        rewards={short: _built(one, settings, task, scorer) for short, one in named.items()},
        weights={short: one.weight for short, one in named.items()},
    )


def _built(
    named: Named, s: AlignSettings, task: Task, scorer: Scorer | ScorerOfPrompts | None
) -> Reward:
    if named.function is not None:
        if scorer is None or not named.is_scored:
            return named.function
        short = named.name.rpartition(":")[2]
        return FunctionOfScore(function=named.function, scorer=scorer, name=short)
    if named.name == "outcome":
        return OutcomeReward(grade=task.grade, right_reward=s.right_reward)
    assert scorer is not None
    if named.name == "lexicographic":
        return LexicographicReward(scorer=scorer, grade=task.grade, rank_reward=s.rank_reward)
    if named.name == "trusted":
        assert s.trust is not None  # see `AlignSettings`
        return TrustedReward(scorer=scorer, grade=task.grade, trust=s.trust)
    if named.name == "ungated":
        return UngatedReward(scorer=scorer, **vars(s.part(Annealed)))
    return ConsistencyReward(scorer=scorer, grade=task.grade, **vars(s.part(Annealed)))


def _scorer(
    s: AlignSettings, task: Task, policy: Denoiser, reference: Denoiser | None
) -> Scorer | ScorerOfPrompts:
    """Return the scorer of completions; probes and the verifier need the prompts."""
    denoiser, network = policy, None  # the network whose adapters must be off
    if s.scored_by == "start":
        native = cast(NativeDenoiser, policy)
        if s.tuning == "lora":
            network = native.model
        elif reference is not None:
            denoiser = reference
        else:
            denoiser = replace(native, model=copy.deepcopy(native.model).requires_grad_(False))
    if s.scorer == ROUNDTRIPS:
        consistency = Consistency(
            denoiser=denoiser,
            extract=task.extract,
            settings=s.part(ConsistencySettings),
            metric_set=s.metrics,
            task_metrics=task.metrics,
            seed=s.seed,
            weights=_metric_weights(s, task),
        )
        return _initial(consistency, network)
    kind = getattr(task, "critical", "number")  # a user's task need not have it

    def make(questions: Mapping[str, str]) -> Scorer:
        critical = mark_critical(denoiser.tokenizer, questions, extract=task.extract, kind=kind)
        if s.scorer == "verifier":
            made: Scorer = Verifier(
                denoiser=denoiser, extract=task.extract, critical=critical, seed=s.seed
            )
        else:
            made = ProbeScorer(
                denoiser=denoiser,
                critical=critical,
                probe=Probe.named(s.probe),
                reading=s.reading or readings_of(s.probe)[0],
                seed=s.seed,
                name="probe" if s.probe == "critical" else s.probe,
            )
        return _initial(made, network)

    return make


def _initial(scorer: Scorer, network: nn.Module | None) -> Scorer:
    return scorer if network is None else UnadaptedScorer(scorer=scorer, network=network)


@dataclass(frozen=True, kw_only=True, eq=False)
class UnadaptedScorer:
    """A scorer that runs a network without its adapters."""

    scorer: Scorer
    network: nn.Module

    @property
    def name(self) -> str:
        """Name in tables and records."""
        return self.scorer.name

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample."""
        with without_adapters(self.network):
            return self.scorer.score(samples)


def _metric_weights(settings: AlignSettings, task: Task) -> dict[str, float] | None:
    """Return the weights of all metrics, 0 for those not named; None: equal weights."""
    weights = settings.weight_of_metric
    if weights is None:
        return None
    names = metric_names(settings.metrics, task.metrics)
    for name in weights:
        if name not in names:
            raise SettingsError(
                f"metric_weights must name metrics of the score ({', '.join(names)}), got {name!r}."
            )
    return {name: weights.get(name, 0.0) for name in names}
