"""Scorers of one probe.

The score of `ProbeScorer` is exp of a mean or minimum of log p, in 0..1. The default is one forward
pass: all tokens that decide the answer are masked at once (the whole response if there are none).
The best reward for training was `response_min` of `stratified50x4` (docs/alignment.md): many easy
tokens raise a mean but not a minimum.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from remask.denoisers.base import Denoiser
from remask.probes.readings import Critical, Reading, read
from remask.probes.settings import Probe, Which
from remask.settings import Seed, checked
from remask.values import Sample, Score, skips_empty

VERSION = 1  # of the score of `critical`; raised if the score of an answer changes
_CRITICAL, _VISIBLE = Probe(pattern="critical"), Probe(pattern="visible")


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class ProbeScorer:
    """A probe as a `Scorer`."""

    denoiser: Denoiser
    critical: Critical  # marks the response tokens that decide the answer
    probe: Probe = _CRITICAL
    reading: Which = "critical_mean"
    seed: Seed = 0  # of random masks
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
            reason=f"{self.probe.name} has nothing to read" if value is None else "",
            scorer=self.name,
            version=VERSION,
        )


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class DiSE:
    """Mean log-probability of the response if all of it is visible (arXiv:2603.02760).

    We know only the abstract. Assumed: the mean includes the end token (a sum would measure the
    length), and a block-causal model reads every block after the blocks before it.
    """

    denoiser: Denoiser
    name: str = "dise"

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample."""
        readings = read(self.denoiser, samples, [_VISIBLE], critical=_no_token)
        return [
            Score(value=one.value("response_mean"), forwards=one.forwards, scorer=self.name)
            for one in (by_name[_VISIBLE.name] for by_name in readings)
        ]


def _no_token(sample: Sample) -> list[bool]:
    return [False] * sample.num_response
