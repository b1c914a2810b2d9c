"""Base class of baselines that need no forward pass."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from remask.values import Sample, Score, skips_empty


class PerAnswer(ABC):
    """Scores each answer on its own."""

    name: str

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample."""
        return [self._score(sample) for sample in samples]

    @abstractmethod
    def _score(self, sample: Sample) -> Score: ...

    def _absent(self, reason: str) -> Score:
        return Score(value=None, reason=reason, scorer=self.name)
