"""Thresholds that answers are judged by, each with where it is from.

What the caller gives comes first, then the best F1 on answers of another split, then what the
model's preset has for the task, by which the server judges and which manifests tell, then the
paper's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from remask.analysis.methods import THRESHOLD
from remask.decide.threshold import accepts_all, best_f1
from remask.records.manifest import Manifest
from remask.records.record import Record
from remask.values import ROUNDTRIPS

Origin = Literal["given", "validation", "model", "paper"]


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A threshold of the round trips."""

    value: float
    origin: Origin
    of_model: float | None = None  # the preset's own, where it is known

    def __str__(self) -> str:
        """Return the threshold and where it is from."""
        server = "" if self.of_model is None else f"; the server judges by {self.of_model:g}"
        words = {
            "given": f"as given{server}",
            "validation": f"the best F1 on answers of another split{server}",
            "model": "the model's own, by which the server judges",
            "paper": "the paper's, as the manifest tells none of the model",
        }
        return f"{self.value:g}, {words[self.origin]}"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is known of thresholds beside the manifests, by task."""

    given: Mapping[str, float] = field(default_factory=dict)
    chosen: Mapping[str, float] = field(default_factory=dict)  # on answers of another split

    def of(self, task: str, manifest: Manifest | None) -> Limit:
        """Return the threshold of answers to a task, collected as the manifest tells."""
        own = None if manifest is None else manifest.thresholds.get(ROUNDTRIPS)
        if task in self.given:
            return Limit(value=self.given[task], origin="given", of_model=own)
        if task in self.chosen:
            return Limit(value=self.chosen[task], origin="validation", of_model=own)
        if own is not None:
            return Limit(value=own, origin="model", of_model=own)
        return Limit(value=THRESHOLD, origin="paper")


def chosen_on(answers: Mapping[str, Sequence[Record]]) -> dict[str, float]:
    """Return the threshold with the best F1 on the first answers, by task.

    A task has none without answers, and where the best rejects nothing: rejection sampling by a
    threshold that accepts every answer would be no rejection sampling.
    """
    best: dict[str, float] = {}
    for task, rows in answers.items():
        first = [row for row in rows if row.number == 0]
        scores = [row.scores.get(ROUNDTRIPS) for row in first]
        if first:
            limit = best_f1(scores, [row.right for row in first])
            best |= {} if accepts_all(scores, limit) else {task: limit}
    return best
