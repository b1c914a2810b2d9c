"""How scores are made, and the threshold that applies to them."""

from dataclasses import asdict, replace
from typing import get_args

from remask.consistency.metrics import chosen_metrics
from remask.consistency.roundtrips import Consistency
from remask.consistency.settings import MetricSet
from remask.decide.threshold import Certificate
from remask.denoisers.base import Denoiser
from remask.denoisers.native import dtype_of
from remask.scoring.registry import Kind, Reader, reader, scorer_version
from remask.settings import Threshold, checked
from remask.values import Scorer
from remask.verifier.columns import score_name
from remask.verifier.threshold import (
    UNIFORM,
    ScoreContext,
    ScoreThreshold,
    Source,
    find_threshold,
)
from remask.verifier.verifier import Verifier


@checked
def score_context(
    model: Denoiser, scorer: Scorer, *, kind: Kind = "number", source: Source = "external"
) -> ScoreContext:
    """Return how this scorer's scores of this model's answers, or of external ones, are made."""
    how = reader(kind)
    context = ScoreContext(
        kind=how.name, model=model.name, dtype=dtype_of(model), scorer=scorer.name, source=source,
        scorer_version=scorer_version(scorer.name),
    )  # fmt: skip
    if isinstance(scorer, Verifier):
        name = score_name(
            scorer.name, at_hand=source == "external", is_fitted=scorer.fitted is not None
        )
        return replace(context, scorer=name, max_forwards=scorer.budget or "all")
    if not isinstance(scorer, Consistency):
        return context
    is_uniform = scorer.weights is None or len(set(scorer.weights.values())) == 1
    return replace(
        context,
        metrics=_metric_set(scorer, how),
        weights=UNIFORM if is_uniform else scorer.weights,
        consistency=asdict(scorer.settings),
    )


def _metric_set(scorer: Consistency, how: Reader) -> str:
    """Return the metric set whose metrics for this kind of answer a scorer has, or their names."""
    chosen = set(map(id, chosen_metrics(scorer.metric_set, scorer.task_metrics)))
    for name in get_args(MetricSet):
        if chosen == set(map(id, chosen_metrics(name, how.metrics))):
            return str(name)
    return ",".join(scorer.metrics)


@checked
def threshold_for(
    model: Denoiser,
    scorer: Scorer,
    *,
    kind: Kind = "number",
    source: Source = "external",
    given: Threshold | None = None,
    certificate: Certificate | None = None,
    stops: bool = False,
) -> ScoreThreshold:
    """Return the threshold that applies to these scores: `ScoreThreshold.verdict` judges them.

    Args:
        model: of the scores.
        scorer: that makes them.
        kind: of the answers.
        source: who wrote the answers: this model, or somebody else.
        given: a threshold that you chose yourself.
        certificate: one that was checked for these scores.
        stops: rejection sampling stops by it, see `find_threshold`.
    """
    context = score_context(model, scorer, kind=kind, source=source)
    fitted = scorer.fitted if isinstance(scorer, Verifier) else None
    own: float | None = None if fitted else getattr(scorer, "threshold", None)
    return find_threshold(
        context, model.preset.thresholds(context.kind), given=given,
        fitted=certificate or fitted, scorer_threshold=own, stops=stops,
    )  # fmt: skip
