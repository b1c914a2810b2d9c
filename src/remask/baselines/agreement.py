"""Self-consistency: do other samples of the same prompt say the same?

`vote` is the paper's score, the share of the majority answer; `agreement` is the share that agrees
with the scored answer. The first can be high while the scored answer is in the minority. What
makes two answers one is the caller's to say: a task's own key (`remask.tasks.base.answer_key`).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from remask.errors import ExtensionError
from remask.extension import call
from remask.settings import checked, fit
from remask.values import Sample, Score, skips_empty


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class SelfConsistency:
    """Share of a pool that carries the majority's, or the scored, answer."""

    pools: Mapping[str, Sequence[Sample]]  # item -> its samples, the scored one among them
    key: Callable[[Sample], str | None]  # what two answers are compared by; None: unreadable
    kind: Literal["vote", "agreement"] = "vote"

    @property
    def name(self) -> str:
        """Name in tables and records."""
        return self.kind

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample; answers that cannot be read never win, but count in N."""
        return [self._score(sample) for sample in samples]

    def _score(self, sample: Sample) -> Score:
        pool = self.pools.get(sample.item, ())
        if not pool:
            reason = f"there is no pool for item {sample.item!r}"
            return Score(value=None, reason=reason, scorer=self.name)
        answers = [self._key(other) for other in pool if other.has_content]
        cost = sum(other.forwards for other in pool if other.number != sample.number)
        counts = Counter(answer for answer in answers if answer is not None)
        if self.kind == "vote":
            agreeing = max(counts.values(), default=0)
        else:
            own = self._key(sample)
            agreeing = 0 if own is None else counts[own]
        return Score(value=agreeing / len(pool), forwards=cost, scorer=self.name)

    def _key(self, sample: Sample) -> Any:
        found = call("key", self.key, sample)
        return fit("the returned value of key", str | None, found, error=ExtensionError)
