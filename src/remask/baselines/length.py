"""Length: what a score owes to short answers being right more often.

Neither class asks the model. A sum of log-probabilities over an answer contains its length, so what
a method gains over these two is what it knows beside that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from remask.settings import checked
from remask.values import Sample, Score, skips_empty


@checked
@dataclass(frozen=True, kw_only=True)
class Length:
    """Minus the number of response tokens, the end token included: shorter is more trusted."""

    name: str = "length"

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample."""
        return [Score(value=-float(s.num_response), scorer=self.name) for s in samples]


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class CriticalCount:
    """Minus the number of critical tokens: fewer numbers are fewer places to be wrong."""

    critical: Callable[[Sample], Sequence[bool]]  # of each response token
    name: str = "critical_count"

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample; 0 where no token is critical."""
        return [Score(value=-float(sum(self.critical(s))), scorer=self.name) for s in samples]
