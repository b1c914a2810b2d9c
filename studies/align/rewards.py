"""Control rewards of the study, for `remask align --reward studies.align.rewards:placebo`.

Both pay 1 or 0, like `trusted`. `placebo` pays as many right answers to a problem as have a score
of at least `TRUST`, but draws them at random. `oracle` pays right answers whose steps are right.
"""

from collections.abc import Sequence
from typing import Any

import torch

from remask import rng
from remask.tasks import steps_ok, task
from remask.tasks.base import Problem
from remask.values import Score
from studies.align.arms import TRUST


def placebo(
    prompts: Sequence[str],
    completions: Sequence[str],
    score: Sequence[Score],
    problem: Sequence[Problem],
    trainer_state: Any,
    **columns: Any,
) -> list[float]:
    """Return the rewards of `trusted`, shuffled among the right answers to each problem."""
    rewards = [0.0] * len(completions)
    groups: dict[str, list[int]] = {}
    for i, (one, text) in enumerate(zip(problem, completions, strict=True)):
        if task(one.task).grade(one, text):
            groups.setdefault(one.id, []).append(i)
    for identity, places in groups.items():
        seed = int(identity.split("/")[-2])  # task/level/split/seed/index
        key = torch.tensor(rng.key(seed, identity, "placebo", trainer_state.global_step))
        order = rng.uniform(key, torch.arange(len(places))).argsort().tolist()
        for i, other in zip(places, order, strict=True):
            value = score[places[other]].value
            rewards[i] = float(value is not None and value >= TRUST)
    return rewards


def oracle(
    prompts: Sequence[str], completions: Sequence[str], problem: Sequence[Problem], **columns: Any
) -> list[float]:
    """Return 1 for right answers with right steps, 0 for the others."""
    rewards = []
    for one, text in zip(problem, completions, strict=True):
        family = task(one.task)
        rewards.append(float(bool(steps_ok(family, one, text, family.grade(one, text)))))
    return rewards
