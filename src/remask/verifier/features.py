"""Features of an answer; `columns` lists their names."""

import math
from collections.abc import Callable, Mapping, Sequence

from remask.probes.readings import Critical, Reading
from remask.sampling.trajectory import answer_flips, settled_step, tentative_answers
from remask.values import ROUNDTRIPS, Sample, Score
from remask.verifier.columns import EVERY, Features, readings_of

_LEAST = 1e-30  # a probability of 0 has no logarithm


def generation_features(
    sample: Sample,
    critical: Critical,
    decode: Callable[[Sequence[int]], str],
    extract: Callable[[str], str | None],
) -> Features:
    """Return the features that need no forward pass."""
    marks = tuple(critical(sample))
    features: Features = {"length": sample.num_response, "critical_count": sum(marks)}
    if sample.probs is not None:
        logp = tuple(math.log(max(p, _LEAST)) for p in sample.probs[: sample.num_response])
        written = Reading(logp=logp, critical=marks, forwards=0)
        features |= {f"generation.{which}": written.value(which) for which in EVERY}
    if sample.trace is not None:
        answers = tentative_answers(sample.trace, sample.num_response, decode, extract)
        features["trace.flips"] = answer_flips(answers)
        features["trace.settled"] = settled_step(answers)
    return features


def probe_features(readings: Mapping[str, Reading]) -> Features:
    """Return the features of probe readings."""
    features: Features = {}
    for name, reading in readings.items():
        features |= {f"{name}.{which}": reading.value(which) for which in readings_of(name)}
        features[f"{name}.forwards"] = reading.forwards
    return features


def round_trip_features(score: Score) -> Features:
    """Return the features of a round-trip score."""
    return {f"{ROUNDTRIPS}.{name}": value for name, value in score.by_metric.items()}
