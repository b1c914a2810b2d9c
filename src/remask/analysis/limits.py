"""Thresholds that answers are judged by, each with where it is from.

What the caller gives comes first, then the best F1 on answers of another split, then the preset's
for the task, which manifests record, then the paper's. Figures use each of them. Verdicts need one
that applies: see `verifier.threshold`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from remask.analysis.methods import THRESHOLD
from remask.decide.threshold import accepts_all, best_f1
from remask.records.manifest import Manifest
from remask.records.record import Record
from remask.values import ROUNDTRIPS, Score, Verdict
from remask.verifier.threshold import (
    NO_THRESHOLD,
    differences,
    find_threshold,
    is_paper,
    manifest_context,
)

Origin = Literal["given", "validation", "model", "paper"]
_NO_MANIFEST = f"{NO_THRESHOLD} (there is no manifest)"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A threshold of the round trips."""

    value: float
    origin: Origin
    of_model: float | None = None  # the preset's own, if it is recorded
    reason: str = ""  # why scores get no verdict by it

    def __str__(self) -> str:
        """Return the threshold and where it is from."""
        server = "" if self.of_model is None else f"; the preset has {self.of_model:g}"
        words = {
            "given": f"as given{server}",
            "validation": f"the best F1 on answers of another split{server}",
            "model": "from the model's preset",
            "paper": "the paper's, not validated for this model",
        }
        return f"{self.value:g}, {words[self.origin]}"

    def verdict(self, score: Score) -> Verdict:
        """Return the verdict on an answer by this threshold."""
        return score.verdict(None if self.reason else self.value)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is known of thresholds beside the manifests, by task."""

    given: Mapping[str, float] = field(default_factory=dict)
    chosen: Mapping[str, float] = field(default_factory=dict)  # on answers of another split
    manifests: Mapping[str, Manifest | None] = field(default_factory=dict)  # of those answers

    def of(self, task: str, manifest: Manifest | None) -> Limit:
        """Return the threshold of answers to a task, collected as the manifest says."""
        own = None if manifest is None else manifest.thresholds.get(ROUNDTRIPS)
        if task in self.given:
            return Limit(value=self.given[task], origin="given", of_model=own)
        if task in self.chosen:
            other = self._other(task, manifest)
            return Limit(value=self.chosen[task], origin="validation", of_model=own, reason=other)
        reason = _NO_MANIFEST
        if manifest is not None:
            context = manifest_context(manifest, task)
            reason = find_threshold(context, manifest.thresholds).reason
        if own is not None and not is_paper(ROUNDTRIPS, own):
            return Limit(value=own, origin="model", of_model=own, reason=reason)
        return Limit(value=THRESHOLD, origin="paper", reason=reason)

    def _other(self, task: str, manifest: Manifest | None) -> str:
        """Return why a threshold chosen on another split is not for these answers."""
        before = self.manifests.get(task)
        if before is None or manifest is None:
            return _NO_MANIFEST
        other = differences(manifest_context(before, task), manifest_context(manifest, task))
        return f"{NO_THRESHOLD} (the other split has {other})" if other else ""


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
