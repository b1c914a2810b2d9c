"""Columns of a verifier: named numbers of one answer, in order of price. No torch.

    length, critical_count         number of response tokens and of critical tokens
    generation.<reading>           log p of the tokens during generation
    trace.flips, trace.settled     changes of the tentative answer, from a trace
    <probe>.<reading>              log p of the tokens when masked again
    <probe>.forwards               forward passes of the probe
    roundtrips.<metric>            metrics of the paper's round trips, means over the trips
    <probe>, generation            value in 0..1: exp of the first reading

A reading is the mean or minimum of log p over the response or its critical tokens. Probes that mask
only critical tokens have no reading of the response. Records hold all columns but the last as
features.

The label-free verifier averages the values `LABEL_FREE`. They were chosen on seven validation sets,
leaving out each task family in turn (docs/LOG.md), before any test problem was drawn. Absent values
are left out of the mean. External answers have no generation, and their mean is a different score,
`AT_HAND`: the minimum over the generation is usually the lowest value, so the mean without it is
higher.
"""

import math
from collections.abc import Iterable, Mapping
from statistics import fmean

from remask.probes.settings import Probe, Which
from remask.values import ROUNDTRIPS

Features = dict[str, float | None]

VERSION = 1  # of the score; raised if the score of an answer changes

GENERATION = "generation"
LABEL_FREE = (GENERATION, "critical", "stratified90x8", "halves8")  # in order of price
LABEL_FREE_PROBES = LABEL_FREE[1:]
PROBE, VERIFIER, AT_HAND = "probe", "verifier", "verifier_at_hand"
# Scorers whose score is the mean of these values.
MEANS = {PROBE: ("critical",), VERIFIER: LABEL_FREE, AT_HAND: LABEL_FREE_PROBES}
EVERY: tuple[Which, ...] = ("response_mean", "response_min", "critical_mean", "critical_min")
# The value uses the first reading. One wrong token makes an answer wrong, so the minimum is used if
# most other tokens are visible.
_READINGS: Mapping[str, tuple[Which, ...]] = {
    GENERATION: ("response_min", "response_mean", "critical_mean", "critical_min"),
    "critical": ("critical_mean", "critical_min"),
    "halves": ("critical_min", "critical_mean"),
}
_FREE = ("length", "critical_count")
_WRITTEN = (GENERATION, "trace")  # prefixes of features that only exist for generated answers
_NO_PROBES = (*_WRITTEN, ROUNDTRIPS)  # prefixes of features that are not probes


def readings_of(probe: str) -> tuple[Which, ...]:
    """Return the readings of a probe or the generation; its value uses the first one."""
    pattern = probe if probe == GENERATION else Probe.named(probe).pattern
    return _READINGS.get(pattern, EVERY)


def value_of(probe: str, features: Mapping[str, float | None]) -> float | None:
    """Return the value of a probe or the generation, in 0..1; None if absent."""
    logp = features.get(f"{probe}.{readings_of(probe)[0]}")
    return None if logp is None else math.exp(logp)


def lookup(name: str, features: Mapping[str, float | None]) -> float | None:
    """Return the feature or the value of the probe with this name; None if absent."""
    return features.get(name) if name in _FREE or "." in name else value_of(name, features)


def label_free(scorer: str, features: Mapping[str, float | None]) -> float | None:
    """Return the label-free score of a scorer of `MEANS`; None if a probe was not run."""
    values = {name: value_of(name, features) for name in MEANS[scorer]}
    present = {name: value for name, value in values.items() if value is not None}
    tried = (GENERATION, *present, *(n for n in values if f"{n}.forwards" in features))
    return fmean(present.values()) if set(values) <= set(tried) else None


def features_at_hand(features: Mapping[str, float | None]) -> Features:
    """Return the features that an external answer would have."""
    return {name: v for name, v in features.items() if name.partition(".")[0] not in _WRITTEN}


def score_name(scorer: str, *, at_hand: bool, is_fitted: bool = False) -> str:
    """Return the scorer name of a score; the label-free mean of external answers has its own."""
    return AT_HAND if scorer == VERIFIER and at_hand and not is_fitted else scorer


def probes_in(names: Iterable[str]) -> list[str]:
    """Return the distinct probes that these columns need."""
    owners = dict.fromkeys(name.partition(".")[0] for name in names if name not in _FREE)
    return [name for name in owners if name not in _NO_PROBES]


def needs_round_trips(names: Iterable[str]) -> bool:
    """Return whether a column belongs to the round trips."""
    return any(name.startswith(f"{ROUNDTRIPS}.") for name in names)
