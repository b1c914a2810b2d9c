"""One forward pass as a score: how likely the critical tokens are while all of them are masked.

The value is exp of the mean log p, in 0..1. An answer without critical tokens is masked whole, and
its value is over its response.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from remask.denoisers.base import Denoiser
from remask.probes.readings import Critical, Reading, read
from remask.probes.settings import Probe
from remask.values import Sample, Score

VERSION = 1  # of the score; another one means that the same answer would score otherwise
_CRITICAL = Probe(pattern="critical")


@dataclass(frozen=True, kw_only=True, eq=False)
class ProbeScorer:
    """The probe `critical` as a `Scorer`."""

    denoiser: Denoiser
    critical: Critical  # says of each response token whether it decides the answer
    name: str = "probe"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample."""
        readings = read(self.denoiser, samples, [_CRITICAL], critical=self.critical)
        return [self._score(by_name[_CRITICAL.name]) for by_name in readings]

    def _score(self, reading: Reading) -> Score:
        logp = reading.value("critical_mean")
        assert logp is not None, "an answer has a token, and it was masked"
        value = math.exp(logp)
        return Score(
            value=value,
            by_metric={_CRITICAL.name: value},
            weights={_CRITICAL.name: 1.0},
            logp=reading.logp,
            forwards=reading.forwards,
            scorer=self.name,
            version=VERSION,
        )
