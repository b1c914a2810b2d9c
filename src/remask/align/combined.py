"""Several rewards as one: a weighted sum, part by part checked and kept for the log.

User code is called here and nowhere else. One that raises, returns too few values or a value that
is no finite number ends the training with a sentence that names it: a NaN that got through would
spoil the weights silently.
"""

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from remask.align.rewards import Turn, Values
from remask.errors import InputError, SettingsError
from remask.extension import running

Reward = Callable[..., Any]  # TRL's convention; see `remask.align.rewards`


@dataclass(frozen=True, kw_only=True, eq=False)
class Combined:
    """Named rewards with weights; it can be called like each of them."""

    rewards: Mapping[str, Reward]
    weights: Mapping[str, float] = field(default_factory=dict)  # 1 where none is named
    name: str = "reward"

    def __post_init__(self) -> None:
        """Refuse weights that belong to no reward."""
        if not self.rewards:
            raise SettingsError("rewards is empty; name at least one.")
        for name, weight in self.weights.items():
            if name not in self.rewards:
                known = ", ".join(self.rewards)
                raise SettingsError(f"weight of {name!r} belongs to no reward; there are {known}.")
            if not math.isfinite(weight):
                raise SettingsError(f"weight {weight} of {name!r} is not a number.")

    @property
    def __name__(self) -> str:
        """The name that TRL logs."""
        return self.name

    def __call__(
        self, prompts: Sequence[Turn], completions: Sequence[Turn], **columns: Any
    ) -> Values:
        """Return the total per completion; None where no reward applies."""
        return self.total(self.parts(prompts, completions, **columns))

    def parts(
        self, prompts: Sequence[Turn], completions: Sequence[Turn], **columns: Any
    ) -> dict[str, Values]:
        """Return what every reward says, unweighted, under its name."""
        named = {"prompts": prompts, "completions": completions, **columns}
        return {
            name: _checked(name, _called(name, reward, named), len(completions))
            for name, reward in self.rewards.items()
        }

    def total(self, parts: Mapping[str, Values]) -> Values:
        """Return the weighted sum of the parts that apply, per completion."""
        rows = zip(*parts.values(), strict=True)
        return [self._sum(dict(zip(parts, row, strict=True))) for row in rows]

    def _sum(self, row: Mapping[str, float | None]) -> float | None:
        present = [self.weights.get(n, 1.0) * v for n, v in row.items() if v is not None]
        return sum(present) if present else None


def combine(
    rewards: Mapping[str, Reward] | Sequence[Reward], weights: Sequence[float] | None = None
) -> Combined:
    """Return the weighted sum of rewards; in a sequence each goes by its `__name__`."""
    if not isinstance(rewards, Mapping):
        rewards = _named(rewards)
    if weights is None:
        return Combined(rewards=rewards)
    if len(weights) != len(rewards):
        raise SettingsError(
            f"{len(weights)} weights were given for {len(rewards)} rewards; give one for each."
        )
    return Combined(rewards=rewards, weights=dict(zip(rewards, weights, strict=True)))


def _named(rewards: Sequence[Reward]) -> dict[str, Reward]:
    names = [str(getattr(reward, "__name__", type(reward).__name__)) for reward in rewards]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"two rewards are called {name!r}; give them as a mapping.")
    return dict(zip(names, rewards, strict=True))


def _called(name: str, reward: Reward, named: Mapping[str, Any]) -> Any:
    """Return what a reward returns, awaited where it is asynchronous."""
    with running("reward", name):
        returned = reward(**named)
        return asyncio.run(_awaited(returned)) if inspect.isawaitable(returned) else returned


async def _awaited(returned: Awaitable[Any]) -> Any:
    return await returned


def _checked(name: str, returned: Any, num: int) -> Values:
    """Return the values of a reward as numbers, or raise."""
    try:
        values = [None if value is None else float(value) for value in returned]
    except (TypeError, ValueError) as error:
        raise InputError(
            f"reward {name!r} returned {returned!r:.80}; return a list of numbers and None."
        ) from error
    if len(values) != num:
        raise InputError(
            f"reward {name!r} returned {len(values)} values for {num} completions; return one each."
        )
    for i, value in enumerate(values):
        if value is not None and not math.isfinite(value):
            raise InputError(
                f"reward {name!r} returned {value} for completion {i}; return a finite number, or "
                "None where it does not apply."
            )
    return values
