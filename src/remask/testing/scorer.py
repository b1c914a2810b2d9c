"""The contract of a scorer, check by check."""

import math
from collections.abc import Sequence

from remask.testing.require import require
from remask.values import Sample, Score, Scorer


def check_scorer(scorer: Scorer, samples: Sequence[Sample]) -> None:
    """Raise AssertionError unless `scorer` keeps its contract on `samples` (at least two).

    That higher means more to be trusted cannot be checked without knowing which answers are right.
    """
    require(len(samples) >= 2, scorer, "two samples are needed to see whether neighbours matter")
    require(bool(scorer.name.strip()), scorer, "name is empty")
    together = scorer.score(samples)
    sizes = f"{len(samples)} samples gave {len(together)} scores"
    require(len(together) == len(samples), scorer, sizes)
    for i, score in enumerate(together):
        _check_score(scorer, score, f"the score of sample {i}")
    backwards = scorer.score(samples[::-1])[::-1]
    alone = [scorer.score([s])[0] for s in samples]
    for i, score in enumerate(together):
        for how, other in (("in reverse order", backwards[i]), ("alone", alone[i])):
            require(
                _same_score(score, other),
                scorer,
                f"sample {i} scores {score.value} in a batch and {other.value} {how}",
            )


def _check_score(scorer: Scorer, score: Score, what: str) -> None:
    if score.value is None:
        require(bool(score.reason), scorer, f"{what} is None without a reason")
    numbers = [score.value, score.stderr, *score.by_metric.values()]
    numbers += [*score.drift, *score.logp]
    numbers += [value for trips in score.by_trip.values() for value in trips]
    finite = all(math.isfinite(number) for number in numbers if number is not None)
    require(finite, scorer, f"{what} holds NaN or infinity: {score}")
    require(score.forwards >= 0, scorer, f"{what} cost {score.forwards} forwards")


def _same_score(one: Score, other: Score) -> bool:
    a = {"value": one.value, **one.by_metric}
    b = {"value": other.value, **other.by_metric}
    return a.keys() == b.keys() and all(_close(a[name], b[name]) for name in a)


def _close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= 1e-5
