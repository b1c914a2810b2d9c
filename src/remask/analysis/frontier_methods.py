"""The methods on the frontier: what each says of the first sample of a pool, and what that costs.

What is read in the records: the score of the round trips, confidence, how many samples agree, and
the features, where names tell what they are.

    critical.critical_mean      of a probe: mean log p over critical tokens
    critical.forwards           what the probe cost, where that is not in its name
    generation.response_mean    of the sample as it was written: costs nothing
    length, critical_count      numbers of tokens, of either sign
    tre                         without a point: a rival's score, the higher the more trusted

`LABEL_FREE` is the verifier without labels. It is chosen on validation answers, and written here
before any test problem is drawn.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

import numpy as np

from remask.analysis.methods import ROUNDTRIPS, Method, agreement_of, recorded
from remask.analysis.pool import RECORDED, Pool, baseline_forwards, pool_size
from remask.decide.columns import Floats
from remask.errors import SettingsError
from remask.probes.settings import Probe
from remask.records.record import Record

LABEL_FREE = (
    "critical.critical_mean",
    "halves8.critical_mean",
    "stratified80x8.response_mean",
    "forced8.response_mean",
)
PROBE = ("critical.critical_mean",)
SIZES = (2, 3, 5, 10)  # of self-consistency
RENAMED = {"dise": "visible.response_mean"}  # a rival that is one of the probes
PRICES = {"dise": 1, "perplexity": 16, "dcocoa": 16}  # of rivals, where records do not say


@dataclass(frozen=True, kw_only=True, eq=False)
class MethodScores:
    """What a method says of the first sample of each of n pools, by each of its K fits."""

    name: str
    scores: Floats  # (K, n) -inf where absent; K is 1 where nothing is fitted
    extra: Floats  # (K, n) forwards beyond those that wrote the sample

    @property
    def absent(self) -> int:
        """How many pools have no score."""
        return int(np.isinf(self.scores).any(0).sum())


def score_pools(method: Method, pooled: Sequence[Pool]) -> MethodScores:
    """Return what a method says of these pools."""
    values = [method.score(pool) for pool in pooled]
    return MethodScores(
        name=method.name,
        scores=np.array([[-math.inf if value is None else value for value in values]]),
        extra=np.array([[method.forwards(pool) - pool[0].forwards for pool in pooled]]),
    )


def frontier_methods(pooled: Sequence[Pool]) -> list[Method]:
    """Return every method without a fit that these records allow."""
    listed = [ROUNDTRIPS, mean_chance("probe", PROBE), mean_chance("verifier", LABEL_FREE)]
    listed += [agreement_of(size) for size in SIZES if size <= pool_size(pooled)]
    listed += [recorded(name) for name in RECORDED if name != "confidence_canvas"]
    listed += [Method(name=n, score=count, forwards=_written) for n, count in COUNTS.items()]
    listed += [_rival(name) for name in _rivals(pooled)]
    return [m for m in listed if any(m.score(pool) is not None for pool in pooled)]


def mean_chance(name: str, features: Sequence[str]) -> Method:
    """Return the plain mean of exp of features that are log p; absent where one of them is."""
    return Method(
        name=name,
        score=lambda pool: _mean_chance(pool[0], features),
        forwards=lambda pool: pool[0].forwards + price(pool[0], features),
    )


def chance(row: Record, feature: str) -> float | None:
    """Return exp of a feature that is a log p: a value in 0..1."""
    value = row.features.get(feature)
    return None if value is None else math.exp(min(value, 0.0))


def price(row: Record, features: Sequence[str]) -> float:
    """Return what features cost beyond the answer, each probe once; without round trips."""
    return sum(_forwards(row, name) for name in dict.fromkeys(f.split(".")[0] for f in features))


def length_of(row: Record) -> int:
    """Return the number of response tokens; the drift of round trips has an entry for each."""
    value = row.features.get("length")
    return len(row.drift) if value is None else abs(round(value))


def in_first_place(pool: Pool, number: int) -> Pool:
    """Return the pool with another sample as the first, which is the one that methods judge."""
    return [pool[number], *pool[:number], *pool[number + 1 :]]


def _written(pool: Pool) -> float:
    return float(pool[0].forwards)


def _mean_chance(row: Record, features: Sequence[str]) -> float | None:
    values = [chance(row, name) for name in features]
    present = [value for value in values if value is not None]
    return fmean(present) if len(present) == len(features) else None


def _forwards(row: Record, source: str) -> float:
    """Return what a probe, or a rival, cost: as recorded, or as its name says."""
    spent = row.features.get(f"{source}.forwards")
    if spent is not None:
        return spent
    return baseline_forwards(row, source) if source in row.baselines else _passes(source)


@cache
def _passes(source: str) -> float:
    """Return what the name of a probe says; 0 for what was read while the answer was written."""
    if source in PRICES:
        return float(PRICES[source])
    try:
        return float(Probe.named(source).passes)
    except SettingsError:
        return 0.0


def _length(pool: Pool) -> float | None:
    return -float(length_of(pool[0])) or None  # an answer has its end token at least


def _critical_count(pool: Pool) -> float | None:
    value = pool[0].features.get("critical_count")
    return None if value is None else -abs(value)


def _rivals(pooled: Sequence[Pool]) -> list[str]:
    """Return the rivals in the features: names without a point, and what a probe computes."""
    names = {name for pool in pooled for name in pool[0].features}
    plain = {name for name in names if "." not in name} - set(COUNTS)
    return sorted(plain | {name for name, feature in RENAMED.items() if feature in names})


def _rival(name: str) -> Method:
    def score(pool: Pool) -> float | None:
        features = pool[0].features
        return features.get(name, features.get(RENAMED.get(name, name)))

    return Method(
        name=name, score=score, forwards=lambda pool: pool[0].forwards + price(pool[0], [name])
    )


COUNTS = {"length": _length, "critical_count": _critical_count}  # fewer is more trusted
