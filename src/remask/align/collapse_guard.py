"""Guards against updates that are not finite, and against a policy that collapses.

Policy gradients on diffusion models can collapse: completions become one repeated token, rewards
fall to 0, log-probabilities become NaN. An update whose loss or gradient is not finite is skipped
and counted; `max_skipped` in a row end the run. Moving averages end the run when they are out of
bounds: the reward against its best average, the length against its first, the lower bound of
completions with positive advantage against its first ten updates, validation accuracy against its
best. Entropy is not a guard: it rose in runs that improved as well.
"""

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from statistics import fmean
from typing import Any

from remask.align.settings import AlignSettings
from remask.denoisers.attention_kernels import attention_kernels
from remask.errors import RemaskError

NUM_LIKELIHOODS = 10  # updates over which a likelihood is averaged


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
    first_likelihoods: list[float] = field(default_factory=list)  # of the first updates
    last_likelihoods: list[float] = field(default_factory=list)
    best_accuracy: float = -math.inf

    def step_is_sound(self, loss: float, norm: float, update: int) -> bool:
        """Return whether loss and gradient norm are finite; raise after `max_skipped` in a row."""
        if math.isfinite(loss) and math.isfinite(norm):
            self.in_a_row = 0
            return True
        self.skipped += 1
        self.in_a_row += 1
        if self.in_a_row >= self.settings.max_skipped:
            raise Collapse(
                f"Loss or gradient norm was not finite in {self.in_a_row} consecutive updates "
                f"(update {update}: loss {loss}, gradient norm {norm}; attention kernels: "
                f"{attention_kernels()}). Lower learning_rate ({self.settings.learning_rate}) and "
                "resume from the last checkpoint."
            )
        return False

    def watch(
        self, *, reward: float, length: float, likelihoods: Sequence[float] = (), update: int
    ) -> None:
        """Take note of a rollout; raise where the averages say that the policy has collapsed.

        Args:
            reward: the mean of its completions.
            length: of its completions, the mean.
            likelihoods: of each update on it, the lower bound of completions above their mean.
            update: number of the last of them.
        """
        size = self.settings.collapse_window
        if size == 0:
            return
        for name, value in {"reward": reward, "length": length}.items():
            if math.isfinite(value):
                self.recent[name] = [*self.recent.get(name, []), value][-size:]
        full = {name: fmean(v) for name, v in self.recent.items() if len(v) == size}
        for name, average in full.items():
            self.first.setdefault(name, average)
        sentence = self._reward(full) or self._length(full)
        self.best_reward = max(self.best_reward, full.get("reward", -math.inf))
        if sentence:
            self._stop(update, f"over the last {size} rollouts {sentence}")
        sentence = self._likelihood(likelihoods)
        if sentence:
            self._stop(update, sentence)

    def watch_accuracy(self, accuracy: float, num_problems: int, update: int) -> None:
        """Take note of a validation; raise where it is far below the best, more than by chance."""
        if self.settings.collapse_window == 0:
            return
        best = self.best_accuracy = max(self.best_accuracy, accuracy)
        pooled = (best + accuracy) / 2
        by_chance = 2 * math.sqrt(2 * pooled * (1 - pooled) / num_problems)  # two standard errors
        most = self.settings.collapse_accuracy_fall
        if best - accuracy > most + by_chance:
            self._stop(
                update,
                f"accuracy on {num_problems} validation problems is {accuracy:.3g}, and was "
                f"{best:.3g} (collapse_accuracy_fall {most:g}, and {by_chance:.2g} by chance)",
            )

    def _stop(self, update: int, sentence: str) -> None:
        raise Collapse(
            f"collapse at update {update}: {sentence}; resume from the last checkpoint with a "
            "lower learning_rate, or set collapse_window 0 to go on."
        )

    def _likelihood(self, likelihoods: Sequence[float]) -> str:
        for value in filter(math.isfinite, likelihoods):
            if len(self.first_likelihoods) < NUM_LIKELIHOODS:
                self.first_likelihoods.append(value)
            self.last_likelihoods = [*self.last_likelihoods, value][-NUM_LIKELIHOODS:]
        if len(self.first_likelihoods) < NUM_LIKELIHOODS:
            return ""
        first, last = fmean(self.first_likelihoods), fmean(self.last_likelihoods)
        most = self.settings.collapse_likelihood_fall
        if first - last <= most:
            return ""
        return (
            f"completions that were to become likelier are at {last:.3g} nats a token over the "
            f"last {NUM_LIKELIHOODS} updates, and began at {first:.3g} "
            f"(collapse_likelihood_fall {most:g})"
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

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        names = (f.name for f in fields(self) if f.name != "settings")
        return {name: deepcopy(getattr(self, name)) for name in names}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what a checkpoint kept."""
        for name, value in state.items():
            setattr(self, name, value)
