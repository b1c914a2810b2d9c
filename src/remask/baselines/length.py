"""Length baselines: short answers are right more often.

Compare methods with these baselines to see what they know beyond the length.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from remask.baselines.per_answer import PerAnswer
from remask.settings import checked
from remask.values import Sample, Score


@checked
@dataclass(frozen=True, kw_only=True)
class Length(PerAnswer):
    """Negative number of response tokens, including the end token."""

    name: str = "length"

    def _score(self, sample: Sample) -> Score:
        return Score(value=-float(sample.num_response), scorer=self.name)


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class CriticalCount(PerAnswer):
    """Negative number of critical tokens; 0 if there are none."""

    critical: Callable[[Sample], Sequence[bool]]  # of each response token
    name: str = "critical_count"

    def _score(self, sample: Sample) -> Score:
        return Score(value=-float(sum(self.critical(sample))), scorer=self.name)
