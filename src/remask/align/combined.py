"""A weighted sum of rewards.

User code is called only here. An exception, a wrong number of values or a value that is not finite
ends the training with an error that names the reward.
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
    """A weighted sum of named rewards, which is itself a reward."""

    rewards: Mapping[str, Reward]
    weights: Mapping[str, float] = field(default_factory=dict)  # 1 for names without a weight
    name: str = "reward"

    def __post_init__(self) -> None:
        if not self.rewards:
            raise SettingsError("rewards must have at least one reward, got none.")
        for name, weight in self.weights.items():
            if name not in self.rewards:
                known = ", ".join(self.rewards)
                raise SettingsError(f"weights must name rewards ({known}), got {name!r}.")
            if not math.isfinite(weight):
                raise SettingsError(f"The weight of {name!r} must be finite, got {weight}.")

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
        """Return the unweighted values of each reward by its name."""
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
    """Return the weighted sum of rewards; a sequence is named by `__name__`."""
    if not isinstance(rewards, Mapping):
        rewards = _named(rewards)
    if weights is None:
        return Combined(rewards=rewards)
    if len(weights) != len(rewards):
        raise SettingsError(
            f"weights must have one value per reward ({len(rewards)}), got {len(weights)}."
        )
    return Combined(rewards=rewards, weights=dict(zip(rewards, weights, strict=True)))


def _named(rewards: Sequence[Reward]) -> dict[str, Reward]:
    names = [str(getattr(reward, "__name__", type(reward).__name__)) for reward in rewards]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"Two rewards have the name {name!r}; pass a mapping instead.")
    return dict(zip(names, rewards, strict=True))


def _called(name: str, reward: Reward, named: Mapping[str, Any]) -> Any:
    """Return the result of a reward, awaited if it is asynchronous."""
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
