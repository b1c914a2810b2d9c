"""Self-consistency: the share of samples of a prompt with the same answer.

`vote` is the paper's score, the share of the majority answer. `agreement` is the share of the
scored answer, which may be in the minority. `key` decides which answers are equal
(`remask.tasks.base.answer_key`).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from remask.baselines.per_answer import PerAnswer
from remask.errors import ExtensionError
from remask.extension import call
from remask.settings import checked, fit
from remask.values import Sample, Score


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class SelfConsistency(PerAnswer):
    """Share of a pool with the majority answer, or with the scored answer.

    Unreadable answers never win, but count in the denominator.
    """

    pools: Mapping[str, Sequence[Sample]]  # item -> its samples, including the scored one
    key: Callable[[Sample], str | None]  # equal keys mean equal answers; None: unreadable
    kind: Literal["vote", "agreement"] = "vote"

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name in tables and records."""
        return self.kind

    def _score(self, sample: Sample) -> Score:
        pool = self.pools.get(sample.item, ())
        if not pool:
            return self._absent(f"there is no pool for item {sample.item!r}")
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
