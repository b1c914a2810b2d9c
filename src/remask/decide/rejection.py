"""From scores to an answer: rejection sampling (MGRS), best-of-N, majority vote.

All three draw on one pool per item, keyed by sample number, and work on many items at once:
an item that has its answer leaves the batch.
"""

from collections.abc import Callable, Sequence

from remask import limits
from remask.values import Decision, Sample, Score, Scorer

Draw = Callable[[Sequence[str], int], list[Sample]]  # items, sample number -> a sample of each
Watch = Callable[[Sample, Score], None]  # told of every attempt as it comes


def reject(
    draw: Draw,
    scorer: Scorer,
    items: Sequence[str],
    *,
    threshold: float = 0.75,
    budget: int = 10,
    watch: Watch = lambda sample, score: None,
) -> list[Decision]:
    """Return a decision per item: Algorithm 1, Manifold-Guided Rejection Sampling.

    The first sample that scores above `threshold` (strictly) is accepted; when the budget is spent,
    the best so far is returned as a fallback.
    """
    _check_budget(budget)
    attempts: dict[str, list[tuple[Sample, Score]]] = {item: [] for item in items}
    accepted: set[str] = set()
    for number in range(budget):
        waiting = [item for item in items if item not in accepted]
        if not waiting:
            break
        for item, attempt in zip(waiting, _attempt(draw, scorer, waiting, number), strict=True):
            watch(*attempt)
            attempts[item].append(attempt)
            if _value(attempt[1]) > threshold:
                accepted.add(item)
    return [_decide(item, attempts[item], item in accepted, threshold) for item in items]


def best_of(draw: Draw, scorer: Scorer, items: Sequence[str], n: int) -> list[Decision]:
    """Return the best-scored of `n` samples of each item; the first wins ties."""
    _check_budget(n)
    rounds = [_attempt(draw, scorer, items, number) for number in range(n)]
    return [
        _settle(item, [attempts[i] for attempts in rounds], f"best of {n} by {scorer.name}")
        for i, item in enumerate(items)
    ]


def majority_vote(
    draw: Draw, key: Callable[[Sample], str | None], items: Sequence[str], n: int
) -> list[Decision]:
    """Return a sample with the most frequent answer of `n`; ties go to the answer seen first.

    `key` says what two answers are compared by, such as `answer_key` of a task and a problem.
    """
    _check_budget(n)
    pools = list(zip(*(draw(items, number) for number in range(n)), strict=True))
    out = []
    for item, pool in zip(items, pools, strict=True):
        answers = [key(sample) for sample in pool]
        # None never wins: an answer nobody can read is no vote.
        shares = [0.0 if a is None else answers.count(a) / n for a in answers]
        attempts = [(s, Score(value=share)) for s, share in zip(pool, shares, strict=True)]
        out.append(_settle(item, attempts, f"majority of {n}"))
    return out


def _attempt(
    draw: Draw, scorer: Scorer, items: Sequence[str], number: int
) -> list[tuple[Sample, Score]]:
    samples = draw(items, number)
    return list(zip(samples, scorer.score(samples), strict=True))


def _value(score: Score) -> float:
    """Return the value to compare; an answer without a score is worth less than any with one."""
    return float("-inf") if score.value is None else score.value


def _best(attempts: Sequence[tuple[Sample, Score]]) -> tuple[Sample, Score]:
    return max(attempts, key=lambda attempt: _value(attempt[1]))  # the first of equals


def _decide(
    item: str, attempts: list[tuple[Sample, Score]], accepted: bool, threshold: float
) -> Decision:
    if not accepted:
        reason = f"no sample of {len(attempts)} scored above {threshold:g}: the best is returned"
        return _settle(item, attempts, reason)
    sample, score = attempts[-1]
    return Decision(
        item=item,
        action="accept",
        sample=sample,
        score=score,
        attempts=tuple(attempts),
        forwards=_cost(attempts),
        reason=f"sample {len(attempts)} scored {_value(score):.3f}, above {threshold:g}",
    )


def _settle(item: str, attempts: Sequence[tuple[Sample, Score]], reason: str) -> Decision:
    sample, score = _best(attempts)
    return Decision(
        item=item,
        action="fallback",
        sample=sample,
        score=score,
        attempts=tuple(attempts),
        forwards=_cost(attempts),
        reason=reason,
    )


def _cost(attempts: Sequence[tuple[Sample, Score]]) -> int:
    return sum(sample.forwards + score.forwards for sample, score in attempts)


def _check_budget(n: int) -> None:
    limits.check(budget=n)
