"""Stops a training whose updates are not finite or whose policy collapses.

An update with a loss or gradient that is not finite is skipped; `max_skipped` consecutive ones end
the run. The run also ends if a moving average leaves its limits: the reward compared with its best
average, the length with its first average, the lower bound of completions with positive advantage
with its first ten updates, or validation accuracy with its best. Entropy is not checked: it also
rose in runs that improved.
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

NUM_LIKELIHOODS = 10  # updates in an average of likelihoods


class Collapse(RemaskError):
    """The training was stopped because it diverged or the policy collapsed."""


@dataclass
class CollapseGuard:
    """State of the checks, which is part of every checkpoint."""

    settings: AlignSettings
    skipped: int = 0  # updates, in total
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
        """Add a rollout to the averages; raise if they show a collapse.

        Args:
            reward: mean reward of its completions.
            length: mean length of its completions.
            likelihoods: for each update, the lower bound of completions with positive advantage.
            update: number of the last update.
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
        """Raise if validation accuracy is significantly below the best one so far."""
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
            f"completions with positive advantage have {last:.3g} nats per token over the last "
            f"{NUM_LIKELIHOODS} updates, at first {first:.3g} "
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
            f"the mean length is {average:.3g} tokens, at first {self.first['length']:.3g} "
            f"(collapse_length_ratio {most:g})"
        )

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        names = (f.name for f in fields(self) if f.name != "settings")
        return {name: deepcopy(getattr(self, name)) for name in names}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over the state of a checkpoint."""
        for name, value in state.items():
            setattr(self, name, value)
