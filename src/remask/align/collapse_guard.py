"""Guards against updates whose loss or gradient is not finite, and against a policy that collapses.

Policy gradients on diffusion models collapse in the wild: completions become one repeated mark,
rewards fall to 0, log-probabilities to NaN. A step whose loss or gradient is not finite is left out
and counted; many in a row end the run. Averages over a window of rollouts are compared with what
they were: the reward with the best so far, length and entropy with the first. One that is out of
bounds ends the run with a sentence; the last checkpoint is then the last good one.
"""

import math
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from remask.align.settings import AlignSettings
from remask.errors import RemaskError


class Collapse(RemaskError):
    """The training has gone wrong and was stopped."""


@dataclass
class CollapseGuard:
    """What the guards remember; it is saved with every checkpoint."""

    settings: AlignSettings
    skipped: int = 0  # updates left out, of all
    in_a_row: int = 0
    recent: dict[str, list[float]] = field(default_factory=dict)  # the window, by name
    first: dict[str, float] = field(default_factory=dict)  # averages of the first window
    best_reward: float = -math.inf  # of the averages

    def step_is_sound(self, loss: float, norm: float, update: int) -> bool:
        """Return whether the step may be made; many unsound ones in a row raise."""
        if math.isfinite(loss) and math.isfinite(norm):
            self.in_a_row = 0
            return True
        self.skipped += 1
        self.in_a_row += 1
        if self.in_a_row >= self.settings.max_skipped:
            raise Collapse(
                f"{self.in_a_row} updates in a row, up to {update}, had a loss or gradient that is "
                f"no number (loss {loss}, gradient norm {norm}); lower learning_rate "
                f"{self.settings.learning_rate}, then resume from the last checkpoint."
            )
        return False

    def watch(self, *, reward: float, length: float, entropy: float | None, update: int) -> None:
        """Take note of a rollout; raise where the averages say that the policy has collapsed."""
        size = self.settings.collapse_window
        if size == 0:
            return
        watched = {"reward": reward, "length": length, "entropy": entropy}
        for name, value in watched.items():
            if value is not None and math.isfinite(value):
                self.recent[name] = [*self.recent.get(name, []), value][-size:]
        full = {name: fmean(v) for name, v in self.recent.items() if len(v) == size}
        for name, average in full.items():
            self.first.setdefault(name, average)
        sentence = self._reward(full) or self._length(full) or self._entropy(full)
        self.best_reward = max(self.best_reward, full.get("reward", -math.inf))
        if sentence:
            raise Collapse(
                f"collapse at update {update}: over the last {size} rollouts {sentence}; resume "
                "from the last checkpoint with a lower learning_rate, or set collapse_window 0 to "
                "go on."
            )

    def _reward(self, full: dict[str, float]) -> str:
        average, least = full.get("reward"), self.settings.collapse_reward_ratio
        if average is None or self.best_reward <= 0 or average >= least * self.best_reward:
            return ""
        return (
            f"the mean reward is {average:.3g}, below {least:g} of the best so far, "
            f"{self.best_reward:.3g}"
        )

    def _length(self, full: dict[str, float]) -> str:
        average, most = full.get("length"), self.settings.collapse_length_ratio
        if average is None or self.first["length"] / most <= average <= self.first["length"] * most:
            return ""
        return (
            f"the mean length is {average:.3g} tokens, and it began at {self.first['length']:.3g} "
            f"(collapse_length_ratio {most:g})"
        )

    def _entropy(self, full: dict[str, float]) -> str:
        average, s = full.get("entropy"), self.settings
        if average is None:
            return ""
        start = self.first["entropy"]
        if start * s.collapse_entropy_ratio <= average <= start + s.collapse_entropy_rise:
            return ""
        name = "rise" if average > start else "ratio"
        return (
            f"the mean entropy is {average:.3g} nats a token, and it began at {start:.3g} "
            f"(collapse_entropy_{name} {getattr(s, f'collapse_entropy_{name}'):g})"
        )

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {
            "skipped": self.skipped, "in_a_row": self.in_a_row, "best_reward": self.best_reward,
            "recent": {name: list(values) for name, values in self.recent.items()},
            "first": dict(self.first),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what a checkpoint kept."""
        for name, value in state.items():
            setattr(self, name, value)
