"""The contract of a scorer, check by check."""

from collections.abc import Sequence

from remask.errors import RemaskError
from remask.settings import checked, fit
from remask.testing.require import require
from remask.values import Sample, Score, Scorer


@checked
def check_scorer(scorer: Scorer, samples: Sequence[Sample]) -> None:
    """Raise AssertionError unless `scorer` keeps its contract on `samples` (at least two).

    That higher means more to be trusted cannot be checked without knowing which answers are right.
    """
    require(len(samples) >= 2, scorer, "two samples are needed to see whether neighbours matter")
    require(bool(scorer.name.strip()), scorer, "name is empty")
    together = _scores(scorer, samples)
    sizes = f"{len(samples)} samples gave {len(together)} scores"
    require(len(together) == len(samples), scorer, sizes)
    for i, score in enumerate(together):
        has_reason = score.value is not None or bool(score.reason)
        require(has_reason, scorer, f"the score of sample {i} is None without a reason")
    backwards = _scores(scorer, samples[::-1])[::-1]
    alone = [_scores(scorer, [s])[0] for s in samples]
    for i, score in enumerate(together):
        for how, other in (("in reverse order", backwards[i]), ("alone", alone[i])):
            require(
                _same_score(score, other),
                scorer,
                f"sample {i} scores {score.value} in a batch and {other.value} {how}",
            )


def _scores(scorer: Scorer, samples: Sequence[Sample]) -> list[Score]:
    try:
        scores: list[Score] = fit("the returned value", list[Score], scorer.score(samples))
        return scores
    except RemaskError as error:  # a `Score` refuses NaN, infinity and negative costs
        raise AssertionError(f"{scorer.name}: {error}") from error


def _same_score(one: Score, other: Score) -> bool:
    a = {"value": one.value, **one.by_metric}
    b = {"value": other.value, **other.by_metric}
    return a.keys() == b.keys() and all(_close(a[name], b[name]) for name in a)


def _close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= 1e-5
