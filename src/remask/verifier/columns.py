"""Columns of a verifier: numbers about one answer by name, from cheap to dear. No torch.

    length, critical_count         tokens of the response, and those that decide the answer
    generation.<reading>           log p of the tokens when they were written, here
    trace.flips, trace.settled     how the answer came about, where it was traced
    <probe>.<reading>              log p of the tokens when they were masked again
    <probe>.forwards               what that cost
    roundtrips.<metric>            what survived the paper's round trips, means over the trips
    <probe>, generation            the value of one, in 0..1: exp of its first reading

A reading is a mean or a minimum of log p over the response or its critical tokens. A probe of the
critical tokens alone has no reading of the response. All but the last stand in records as features.

`LABEL_FREE` are the values that the verifier averages where it knows no labels. Validation chose
them, on seven sets of problems with each family left out in turn (docs/LOG.md), before a problem of
the test split was drawn. The mean is over what there is: one with nothing to halve has no halves.
An answer that was not written here has no generation, and its mean is another score, `AT_HAND`:
the least probable token as a rule is less probable than the rest, so without it the mean is higher.
"""

import math
from collections.abc import Iterable, Mapping
from statistics import fmean

from remask.probes.settings import Probe, Which
from remask.values import ROUNDTRIPS

Features = dict[str, float | None]

VERSION = 1  # of the verifier's score; another one means that the same answer would score otherwise

GENERATION = "generation"
LABEL_FREE = (GENERATION, "critical", "stratified90x8", "halves8")  # in order of price
LABEL_FREE_PROBES = LABEL_FREE[1:]
PROBE, VERIFIER, AT_HAND = "probe", "verifier", "verifier_at_hand"
# Scorers whose scores follow from features: the plain mean of these values.
MEANS = {PROBE: ("critical",), VERIFIER: LABEL_FREE, AT_HAND: LABEL_FREE_PROBES}
EVERY: tuple[Which, ...] = ("response_mean", "response_min", "critical_mean", "critical_min")
# What a value is made of stands first. One token that does not fit its surroundings is enough for
# an answer to be wrong, so where every token is read in good company the least one counts.
_READINGS: Mapping[str, tuple[Which, ...]] = {
    GENERATION: ("response_min", "response_mean", "critical_mean", "critical_min"),
    "critical": ("critical_mean", "critical_min"),
    "halves": ("critical_min", "critical_mean"),
}
_FREE = ("length", "critical_count")
_WRITTEN = (GENERATION, "trace")  # what stands before the dot of what only the writer knows
_NO_PROBES = (*_WRITTEN, ROUNDTRIPS)  # what stands before the dot of other features


def readings_of(probe: str) -> tuple[Which, ...]:
    """Return the readings of a probe or of the generation, what its value is made of first."""
    pattern = probe if probe == GENERATION else Probe.named(probe).pattern
    return _READINGS.get(pattern, EVERY)


def value_of(probe: str, features: Mapping[str, float | None]) -> float | None:
    """Return the value of a probe or of the generation, in 0..1; None where it is absent."""
    logp = features.get(f"{probe}.{readings_of(probe)[0]}")
    return None if logp is None else math.exp(logp)


def lookup(name: str, features: Mapping[str, float | None]) -> float | None:
    """Return a feature, or the value of the probe that is named; None where it is absent."""
    return features.get(name) if name in _FREE or "." in name else value_of(name, features)


def label_free(scorer: str, features: Mapping[str, float | None]) -> float | None:
    """Return the score of `probe` or of `verifier`; None where one of its probes is absent."""
    values = {name: value_of(name, features) for name in MEANS[scorer]}
    present = {name: value for name, value in values.items() if value is not None}
    tried = (GENERATION, *present, *(n for n in values if f"{n}.forwards" in features))
    return fmean(present.values()) if set(values) <= set(tried) else None


def features_at_hand(features: Mapping[str, float | None]) -> Features:
    """Return what would be known of the answer had it not been written here."""
    return {name: v for name, v in features.items() if name.partition(".")[0] not in _WRITTEN}


def score_name(scorer: str, *, at_hand: bool, is_fitted: bool = False) -> str:
    """Return the name that scores of a scorer bear, of answers at hand or written here.

    A probability is one wherever the answer is from; the label-free mean is another score without
    the generation.
    """
    return AT_HAND if scorer == VERIFIER and at_hand and not is_fitted else scorer


def probes_in(names: Iterable[str]) -> list[str]:
    """Return the probes that columns of these names need, each once."""
    owners = dict.fromkeys(name.partition(".")[0] for name in names if name not in _FREE)
    return [name for name in owners if name not in _NO_PROBES]


def needs_round_trips(names: Iterable[str]) -> bool:
    """Say whether a column is one of the round trips."""
    return any(name.startswith(f"{ROUNDTRIPS}.") for name in names)
