"""The composite score: round trips -> metrics -> one number.

    trips = round_trips(...)          N rebuilds of every answer
    values = {metric: one per trip}   absent where a metric has nothing to say
    score = sum of weight x mean over trips, weights renormalised over the metrics present

The metric set is named, so a score never changes with what happens to be installed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Literal

from remask.consistency.cycle import round_trips
from remask.consistency.metrics import (
    METRIC_SETS,
    METRICS,
    Context,
    check_weights,
    composite,
    metric_names,
    semantic_similarity,
    uniform_weights,
)
from remask.consistency.semantic import sentence_encoder
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.errors import SettingsError
from remask.values import RoundTrips, Sample, Score


@dataclass(frozen=True, kw_only=True, eq=False)
class Consistency:
    """Bidirectional Manifold Consistency as a `Scorer`."""

    denoiser: Denoiser
    extract: Callable[[str], str | None]
    settings: ConsistencySettings = field(default_factory=ConsistencySettings)
    metric_set: Literal["paper", "core"] = "paper"
    task_metrics: Sequence[str] | None = None  # None: those of the metric set
    extra_metrics: Sequence[str] = ()  # measured and reported, outside the composite
    weights: Mapping[str, float] | None = None  # None: uniform
    seed: int = 0
    name: str = "roundtrips"

    def __post_init__(self) -> None:
        """Refuse unknown metrics and weights that do not belong to them."""
        if self.metric_set not in METRIC_SETS:
            raise SettingsError(
                f"metrics {self.metric_set!r} is unknown; use {' or '.join(METRIC_SETS)}."
            )
        for metric in (*self.metrics, *self.extra_metrics):
            if metric not in METRICS:
                raise SettingsError(
                    f"metric {metric!r} is unknown; known are {', '.join(METRICS)}."
                )
        if self.weights is not None:
            check_weights(self.weights, self.metrics)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics in the composite."""
        return metric_names(self.metric_set, self.task_metrics)

    @property
    def encodes(self) -> bool:
        """Whether a metric needs the sentence encoder."""
        return any(METRICS[m].needs_encoder for m in (*self.metrics, *self.extra_metrics))

    def warm(self) -> None:
        """Load the sentence encoder where it will be needed: a missing one is told at once."""
        if self.encodes:
            sentence_encoder(self.denoiser.device.type)

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample."""
        trips = round_trips(self.denoiser, samples, self.settings, seed=self.seed)
        return self.measure(trips)

    def measure(self, trips: Sequence[RoundTrips]) -> list[Score]:
        """Return the scores of round trips already made."""
        similarities = self._similarities(trips)
        return [self._measure(t, s) for t, s in zip(trips, similarities, strict=True)]

    def _similarities(self, trips: Sequence[RoundTrips]) -> list[tuple[float, ...] | None]:
        """Return the cosine of every rebuild with its original; each text is encoded once."""
        if not self.encodes:
            return [None] * len(trips)
        encoder = sentence_encoder(self.denoiser.device.type)
        texts = [text for t in trips for text in (t.sample.text, *t.texts)]
        vectors = encoder.encode(texts)
        return [
            tuple(semantic_similarity(vectors[t.sample.text], vectors[text]) for text in t.texts)
            for t in trips
        ]

    def _measure(self, trips: RoundTrips, similarities: tuple[float, ...] | None) -> Score:
        response = trips.sample.canvas[: trips.sample.num_response]
        context = Context(
            extract=self.extract,
            similarities=similarities,
            pieces=tuple(self.denoiser.tokenizer.pieces(response)),
        )
        by_trip = {
            name: METRICS[name].compute(trips, context)
            for name in (*self.metrics, *self.extra_metrics)
        }
        by_metric = {
            name: fmean(v for v in values if v is not None)
            for name, values in by_trip.items()
            if any(v is not None for v in values)
        }
        weights = self.weights or uniform_weights(self.metrics)
        value = composite(_only(by_metric, self.metrics), weights)
        return Score(
            value=value,
            reason="" if value is not None else "no metric of positive weight has a value",
            by_metric=by_metric,
            by_trip=by_trip,
            drift=tuple(None if math.isnan(d) else d for d in trips.drift.tolist()),
            stderr=self._stderr(by_trip, weights),
            forwards=trips.forwards,
        )

    def _stderr(
        self, by_trip: Mapping[str, Sequence[float | None]], weights: Mapping[str, float]
    ) -> float | None:
        """Return the standard error of the composite over trips."""
        values = []
        for n in range(len(next(iter(by_trip.values())))):
            row = {m: v for m in self.metrics if (v := by_trip[m][n]) is not None}
            value = composite(row, weights)
            if value is not None:
                values.append(value)
        return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def _only(values: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    return {name: values[name] for name in names if name in values}
