"""Metrics of a round trip, and the tables that name them.

Each function takes plain inputs and names its equation in the paper; `METRICS` reads the inputs
from `RoundTrips`. Higher is better. None means that the metric is absent (no number to retain,
nothing masked); the composite then distributes its weight over the others.

Departure from the paper: number retention is absent instead of 0 if the original has no number (the
paper adds epsilon to the denominator).
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from remask.answers import numbers
from remask.answers.critical import critical_positions
from remask.consistency.code_metrics import ast_similarity, token_substitution
from remask.errors import DenoiserError, SettingsError
from remask.extension import bind, resolve, running
from remask.settings import checked, fit, unknown_name
from remask.values import RoundTrips, weighted_mean


def token_accuracy(original: Tensor, rebuilt: Tensor, masked: Tensor) -> float | None:
    """Return s_tok: the share of masked tokens that are reconstructed; None if none was masked.

    All three are (R,), over the response positions of the original.
    """
    if not masked.any():
        return None
    return (original == rebuilt)[masked].double().mean().item()


def semantic_similarity(u: ArrayLike, v: ArrayLike) -> float:
    """Return s_sem: the cosine of two sentence embeddings, in [-1, 1]."""
    a, b = np.asarray(u, dtype=np.float64), np.asarray(v, dtype=np.float64)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def number_retention(original: str, rebuilt: str) -> float | None:
    """Return s_num: the recall of the original's numbers, as multisets; None if it has none."""
    before = numbers(original)
    if not before:
        return None
    return (before & numbers(rebuilt)).total() / before.total()


def answer_match(original: str | None, rebuilt: str | None) -> float:
    """Return s_ans: 1 if both answers exist and are equivalent, else 0.

    Answers come from an extractor whose equal strings mean equivalent answers.
    """
    return float(original is not None and original == rebuilt)


def character_similarity(a: str, b: str) -> float:
    """Return s_char: 1 - Levenshtein distance / length of the longer text; 1 if both are empty."""
    from rapidfuzz.distance import Levenshtein  # not needed to make round trips

    return float(Levenshtein.normalized_similarity(a, b))


def cross_entropy(logp: Tensor, masked: Tensor) -> float | None:
    """Return s_ce (Proposition 1): exp of the mean log-probability of the masked tokens.

    Both are (R,), over response positions; `logp` is of the original tokens. None if none is
    masked.
    """
    if not masked.any():
        return None
    return math.exp(logp[masked].double().mean().item())


# D_f(delta || Q) = q f(1/q) + f(0) (1 - q) in closed form, as a function of log q: exact where q
# underflows. All have f(1) = 0 and fall as q rises; total variation's f is not strictly convex.
DIVERGENCES: Mapping[str, Callable[[Tensor], Tensor]] = {
    # f(u) = u log u, f(0) = 0: -log q
    "kl": lambda logp: -logp,
    # f(u) = |u - 1| / 2, f(0) = 1/2: 1 - q
    "total_variation": lambda logp: -torch.expm1(logp),
    # f(u) = (sqrt(u) - 1)^2 / 2, f(0) = 1/2: 1 - sqrt(q)
    "squared_hellinger": lambda logp: -torch.expm1(logp / 2),
    # f(u) = (u - 1)^2, f(0) = 1: 1/q - 1
    "chi_squared": lambda logp: torch.expm1(-logp),
}


def critical_divergence(logp: Tensor, critical: Tensor, f: str = "kl") -> float | None:
    """Return minus the mean f-divergence (Proposition 2) over the critical masked tokens.

    `logp` (R,) is of the original tokens; `critical` (R,) is true where a token is both critical
    and masked. None where no token is. At most 0, and 0 where every such token is certain.
    """
    if f not in DIVERGENCES:
        raise unknown_name("divergence", f, DIVERGENCES)
    if not critical.any():
        return None
    # The chi-squared divergence of an impossible token is infinite, and a score is finite.
    return -min(DIVERGENCES[f](logp[critical].double()).mean().item(), sys.float_info.max)


@dataclass(frozen=True, kw_only=True)
class Context:
    """Inputs of metrics besides the round trips."""

    extract: Callable[[str], str | None]  # the task's; equal strings mean equivalent answers
    pieces: tuple[str, ...] = ()  # the response tokens decoded one by one; for critical_divergence
    similarities: tuple[float, ...] | None = None  # per trip; None without a sentence encoder
    divergence: str = "kl"  # of critical_divergence


Values = tuple[float | None, ...]  # one per trip; None: absent


@checked
@dataclass(frozen=True, kw_only=True)
class Metric:
    """A name, and a function of the round trips of one answer: a value per round trip.

    A metric of `METRICS` is named; your own is passed to `Consistency` as an object.
    """

    name: str
    compute: Callable[[RoundTrips, Context], Sequence[float | None]]
    equation: str = ""  # where the paper defines it
    needs_encoder: bool = False  # it reads `Context.similarities`

    @checked
    def of(self, trips: RoundTrips, context: Context) -> Values:
        """Return the value of every round trip: numbers, or None if the metric has no value."""
        if METRICS.get(self.name) is self:
            return tuple(self.compute(trips, context))
        bind(f"metric {self.name!r}", self.compute, trips, context)
        with running("metric", self.name):
            returned = self.compute(trips, context)
            returned = fit(f"values of metric {self.name!r}", Sequence[float | None], returned)
        if len(returned) != len(trips.texts):
            raise SettingsError(
                f"metric {self.name!r} must return one value per round trip "
                f"({len(trips.texts)}), got {len(returned)}."
            )
        return tuple(returned)


def _token_accuracies(trips: RoundTrips, context: Context) -> Values:
    num = trips.sample.num_response
    original = torch.tensor(trips.sample.canvas[:num])  # (R,)
    rows = zip(trips.rebuilt[:, :num], trips.masked[:, :num], strict=True)
    return tuple(token_accuracy(original, rebuilt, masked) for rebuilt, masked in rows)


def _semantic_similarities(trips: RoundTrips, context: Context) -> Values:
    if context.similarities is None:
        raise SettingsError(
            "metric 'semantic_similarity' needs a sentence encoder; "
            "name one, or choose the metric set 'core'."
        )
    return context.similarities


def _number_retentions(trips: RoundTrips, context: Context) -> Values:
    return tuple(number_retention(trips.sample.text, text) for text in trips.texts)


def _answer_matches(trips: RoundTrips, context: Context) -> Values:
    original = context.extract(trips.sample.text)
    return tuple(answer_match(original, context.extract(text)) for text in trips.texts)


def _character_similarities(trips: RoundTrips, context: Context) -> Values:
    return tuple(character_similarity(trips.sample.text, text) for text in trips.texts)


def _confidences(trips: RoundTrips, context: Context) -> Values:
    return trips.confidence


def _cross_entropies(trips: RoundTrips, context: Context) -> Values:
    num = trips.sample.num_response
    rows = zip(trips.logp[:, :num], trips.masked[:, :num], strict=True)
    return tuple(cross_entropy(logp, masked) for logp, masked in rows)


def _critical_divergences(trips: RoundTrips, context: Context) -> Values:
    num = trips.sample.num_response
    answer = context.extract(trips.sample.text)
    critical = torch.tensor(critical_positions(context.pieces, answer), dtype=torch.bool)  # (R,)
    rows = zip(trips.logp[:, :num], trips.masked[:, :num] & critical, strict=True)
    return tuple(critical_divergence(logp, both, context.divergence) for logp, both in rows)


def _embedding_distances(trips: RoundTrips, context: Context) -> Values:
    return tuple(-distance for distance in trips.displacement)


def _ast_similarities(trips: RoundTrips, context: Context) -> Values:
    return tuple(ast_similarity(trips.sample.text, text) for text in trips.texts)


def _token_substitutions(trips: RoundTrips, context: Context) -> Values:
    return tuple(token_substitution(trips.sample.text, text) for text in trips.texts)


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(name="token_accuracy", equation="s_tok", compute=_token_accuracies),
        Metric(
            name="semantic_similarity",
            equation="s_sem",
            compute=_semantic_similarities,
            needs_encoder=True,
        ),
        Metric(name="number_retention", equation="s_num", compute=_number_retentions),
        Metric(name="answer_match", equation="s_ans", compute=_answer_matches),
        Metric(name="character_similarity", equation="s_char", compute=_character_similarities),
        Metric(name="confidence", equation="s_conf", compute=_confidences),
        Metric(name="cross_entropy", equation="Proposition 1", compute=_cross_entropies),
        Metric(name="critical_divergence", equation="Proposition 2", compute=_critical_divergences),
        Metric(name="embedding_distance", equation="Proposition 4", compute=_embedding_distances),
        Metric(name="ast_similarity", equation="code generation", compute=_ast_similarities),
        Metric(name="token_substitution", equation="code generation", compute=_token_substitutions),
    )
}

_PAPER = tuple(name for name, metric in METRICS.items() if metric.equation.startswith("s_"))
METRIC_SETS: Mapping[str, tuple[str, ...]] = {
    "paper": _PAPER,
    "core": tuple(name for name in _PAPER if not METRICS[name].needs_encoder),
}


def find_metric(metric: str | Metric) -> Metric:
    """Return a metric by object, name or `module:name`."""
    if isinstance(metric, str) and metric in METRICS:
        return METRICS[metric]
    return resolve("metric", metric, METRICS, members=("name", "of", "needs_encoder"))


def chosen_metrics(
    set_name: str, task_metrics: Sequence[str | Metric] | None = None
) -> tuple[Metric, ...]:
    """Return the metrics of a composite: those of the task, or the paper's six if it names none.

    The set `core` leaves out metrics that need a sentence encoder. A repeated name counts once.
    """
    if set_name not in METRIC_SETS:
        raise SettingsError(f"metrics must be {' or '.join(METRIC_SETS)}, got {set_name!r}.")
    names = METRIC_SETS["paper"] if task_metrics is None else task_metrics
    metrics = {metric.name: metric for metric in map(find_metric, names)}
    chosen = tuple(m for m in metrics.values() if set_name != "core" or not m.needs_encoder)
    if not chosen:
        raise SettingsError(
            f"metrics must name at least one metric of the set {set_name!r}, got {list(names)}."
        )
    return chosen


def metric_names(
    set_name: str, task_metrics: Sequence[str | Metric] | None = None
) -> tuple[str, ...]:
    """Return the names of `chosen_metrics`."""
    return tuple(metric.name for metric in chosen_metrics(set_name, task_metrics))


def uniform_weights(names: Sequence[str]) -> dict[str, float]:
    """Return equal weights that sum to 1."""
    return dict.fromkeys(names, 1 / len(names))


def check_weights(weights: Mapping[str, float], names: Sequence[str]) -> None:
    """Raise unless `weights` has exactly these names, no negative weight, and the sum 1."""
    if set(weights) != set(names):
        raise SettingsError(
            f"weights must name the metrics {', '.join(sorted(names))}, "
            f"got {', '.join(sorted(weights)) or 'none'}."
        )
    for name, weight in weights.items():
        if not weight >= 0:  # NaN fails too
            raise SettingsError(f"weight of metric {name!r} must be at least 0, got {weight}.")
    total = math.fsum(weights.values())
    if not abs(total - 1) <= 1e-6:
        raise SettingsError(f"weights must sum to 1, got {total:.6g}.")


def composite(values: Mapping[str, float], weights: Mapping[str, float]) -> float | None:
    """Return S_BMC, the weighted mean of the present metrics.

    None if no present metric has a positive weight.
    """
    present = {name: weight for name, weight in weights.items() if weight and name in values}
    for name in present:
        if math.isnan(values[name]):
            raise DenoiserError(
                f"metric {name!r} is NaN; load the model in float32, or leave the metric out."
            )
    if not present:
        return None
    return weighted_mean([values[name] for name in present], list(present.values()))
