"""What one probe reads as a score: how likely tokens of an answer are while they are masked.

The value is exp of a mean or a minimum of log p, in 0..1. By default it is one forward pass,
`critical`, and the mean: all tokens that decide the answer are masked at once, and where there are
none the whole response. A training was paid best here by `stratified50x4` and its `response_min`
(docs/alignment.md): a mean is raised by many easy tokens, a minimum is not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from remask.denoisers.base import Denoiser
from remask.probes.readings import Critical, Reading, read
from remask.probes.settings import Probe, Which
from remask.settings import Seed, checked
from remask.values import Sample, Score, skips_empty

VERSION = 1  # of `critical`; another one means that the same answer would score otherwise
_CRITICAL = Probe(pattern="critical")


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class ProbeScorer:
    """A probe as a `Scorer`."""

    denoiser: Denoiser
    critical: Critical  # says of each response token whether it decides the answer
    probe: Probe = _CRITICAL
    reading: Which = "critical_mean"
    seed: Seed = 0  # of the masks of probes that draw them
    name: str = "probe"

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample."""
        readings = read(
            self.denoiser, samples, [self.probe], critical=self.critical, seed=self.seed
        )
        return [self._score(by_name[self.probe.name]) for by_name in readings]

    def _score(self, reading: Reading) -> Score:
        logp = reading.value(self.reading)
        value = None if logp is None else math.exp(logp)
        return Score(
            value=value,
            by_metric={} if value is None else {self.probe.name: value},
            weights={} if value is None else {self.probe.name: 1.0},
            logp=reading.logp,
            forwards=reading.forwards,
            reason=f"{self.probe.name} has nothing to read here" if value is None else "",
            scorer=self.name,
            version=VERSION,
        )
