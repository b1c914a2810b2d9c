"""Rewards by name: what `--reward outcome,soft_format=0.5,my_module:my_function` stands for.

Names are resolved before a model is loaded, and by a dry run as well; what they stand for is built
once the model is there, because rewards by the score need it.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from remask import extension
from remask.align import formats
from remask.align.combined import Combined, Reward
from remask.align.method_settings import Annealed
from remask.align.reward import ConsistencyReward, OutcomeReward, ScorerOfPrompts, UngatedReward
from remask.align.settings import AlignSettings
from remask.consistency.roundtrips import Consistency
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.errors import SettingsError
from remask.probes.marks import mark_critical
from remask.probes.scorer import ProbeScorer
from remask.tasks.base import Task
from remask.values import ROUNDTRIPS, Scorer
from remask.verifier.verifier import Verifier

FORMATS: Mapping[str, Reward] = {
    "soft_format": formats.soft_format,
    "strict_format": formats.strict_format,
    "tag_count": formats.tag_count,
    "whole_number_answer": formats.whole_number_answer,
    "boxed_format": formats.boxed_format,
}
SCORED = ("consistency", "ungated")  # rewards that need the score
REWARDS = ("consistency", "outcome", "ungated", *FORMATS)


class Named(NamedTuple):
    """One reward of the settings."""

    name: str
    weight: float | None  # None: 1
    function: Reward | None  # None: it is built with the task and the model


def resolve(settings: AlignSettings) -> dict[str, Named]:
    """Return the rewards that the settings name, by what the log calls them, or raise."""
    rewards: dict[str, Named] = {}
    for entry in settings.reward:
        name, equals, weight = entry.partition("=")
        short = name.rpartition(":")[2]
        if short in rewards:
            raise SettingsError(f"reward {short!r} is named twice; name it once, with a weight.")
        number = _weight(entry, weight) if equals else None
        rewards[short] = Named(name, number, _function(name))
    return rewards


def build_reward(settings: AlignSettings, task: Task, denoiser: Denoiser) -> Combined:
    """Return the rewards that the settings name, as one."""
    named = resolve(settings)
    rewards = {
        short: one.function or _built(one.name, settings, task, denoiser)
        for short, one in named.items()
    }
    weights = {short: one.weight for short, one in named.items() if one.weight is not None}
    return Combined(rewards=rewards, weights=weights)


def _weight(entry: str, weight: str) -> float:
    try:
        value = float(weight)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise SettingsError(f"reward {entry!r} has no number for a weight; write name=0.5.")
    return value


def _function(name: str) -> Reward | None:
    """Return the function that a name stands for; None for one that needs task or model."""
    if ":" not in name:
        if name not in REWARDS:
            raise extension.unknown("reward", name, REWARDS)
        return FORMATS.get(name)
    function: Reward = extension.import_object("reward", name)
    if not callable(function):
        raise SettingsError(f"reward {name!r} is {type(function).__name__}, not a function.")
    return function


def _built(name: str, settings: AlignSettings, task: Task, denoiser: Denoiser) -> Reward:
    if name == "outcome":
        return OutcomeReward(grade=task.grade, right_reward=settings.right_reward)
    scorer = _scorer(settings, task, denoiser)
    annealed = vars(settings.part(Annealed))
    if name == "ungated":
        return UngatedReward(scorer=scorer, **annealed)
    return ConsistencyReward(scorer=scorer, grade=task.grade, **annealed)


def _scorer(settings: AlignSettings, task: Task, denoiser: Denoiser) -> Scorer | ScorerOfPrompts:
    """Return what scores completions; probes have to know what was asked."""
    if settings.scorer == ROUNDTRIPS:
        return Consistency(
            denoiser=denoiser, extract=task.extract, settings=settings.part(ConsistencySettings),
            metric_set=settings.metrics, task_metrics=task.metrics, seed=settings.seed,
        )  # fmt: skip
    kind = getattr(task, "critical", "number")  # a task of one's own need not say

    def make(questions: Mapping[str, str]) -> Scorer:
        critical = mark_critical(denoiser.tokenizer, questions, extract=task.extract, kind=kind)
        if settings.scorer == "probe":
            return ProbeScorer(denoiser=denoiser, critical=critical)
        return Verifier(
            denoiser=denoiser, extract=task.extract, critical=critical, seed=settings.seed
        )

    return make
