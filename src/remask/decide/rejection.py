"""From scores to an answer: rejection sampling (MGRS), best-of-N, majority vote.

All three draw on one pool per item, keyed by sample number, and work on many items at once:
an item that has its answer leaves the batch. Algorithm 1 is `rejection`, a generator that yields
what it needs and is sent the attempts, so that a batch (`reject`), a server that serves others in
between and a replay of records (`decide`) all follow the same rule.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Literal, NamedTuple

from remask.decide.settings import BUDGET
from remask.values import Decision, Sample, Score, Scorer

Draw = Callable[[Sequence[str], int], list[Sample]]  # items, sample number -> a sample of each
Watch = Callable[[Sample, Score], None]  # is shown every attempt as it comes
Attempt = tuple[Sample, Score]


class Round(NamedTuple):
    """What rejection sampling needs next: sample `number` of each item without an answer."""

    items: tuple[str, ...]
    number: int


Rejection = Generator[Round, Sequence[Attempt], list[Decision]]


def rejection(items: Sequence[str], *, threshold: float = 0.75, budget: int = 10) -> Rejection:
    """Yield rounds, be sent an attempt per item, and return a decision per item: Algorithm 1.

    The first sample that scores above `threshold` (strictly) is accepted; when the budget is spent,
    the best so far is returned as a fallback.
    """
    BUDGET.check("budget", budget)
    attempts: dict[str, list[Attempt]] = {item: [] for item in items}
    waiting = tuple(items)
    for number in range(budget):
        if not waiting:
            break
        made = yield Round(waiting, number)
        for item, attempt in zip(waiting, made, strict=True):
            attempts[item].append(attempt)
        waiting = tuple(item for item in waiting if not attempts[item][-1][1].exceeds(threshold))
    return [_decide(item, attempts[item], threshold) for item in items]


def decide(
    attempt: Callable[[Round], Sequence[Attempt]],
    items: Sequence[str],
    *,
    threshold: float = 0.75,
    budget: int = 10,
) -> list[Decision]:
    """Return a decision per item by Algorithm 1, where `attempt` makes the attempts of a round."""
    steps = rejection(items, threshold=threshold, budget=budget)
    proceed = partial(next, steps)
    while True:
        try:
            needed = proceed()
        except StopIteration as end:
            decisions: list[Decision] = end.value
            return decisions
        proceed = partial(steps.send, attempt(needed))


def reject(
    draw: Draw,
    scorer: Scorer,
    items: Sequence[str],
    *,
    threshold: float = 0.75,
    budget: int = 10,
    watch: Watch = lambda sample, score: None,
) -> list[Decision]:
    """Return a decision per item by Algorithm 1, Manifold-Guided Rejection Sampling."""

    def attempt(needed: Round) -> list[Attempt]:
        attempts = _attempts(draw, scorer, needed.items, needed.number)
        for made in attempts:
            watch(*made)
        return attempts

    return decide(attempt, items, threshold=threshold, budget=budget)


def best_of(draw: Draw, scorer: Scorer, items: Sequence[str], n: int) -> list[Decision]:
    """Return the best-scored of `n` samples of each item; the first wins ties."""
    BUDGET.check("budget", n)
    rounds = [_attempts(draw, scorer, items, number) for number in range(n)]
    return [
        _fallback(item, [attempts[i] for attempts in rounds], f"best of {n} by {scorer.name}")
        for i, item in enumerate(items)
    ]


def majority_vote(
    draw: Draw, key: Callable[[Sample], str | None], items: Sequence[str], n: int
) -> list[Decision]:
    """Return a sample with the most frequent answer of `n`; ties go to the answer seen first.

    `key` says what two answers are compared by, such as `answer_key` of a task and a problem.
    """
    BUDGET.check("budget", n)
    pools = list(zip(*(draw(items, number) for number in range(n)), strict=True))
    out = []
    for item, pool in zip(items, pools, strict=True):
        answers = [key(sample) for sample in pool]
        # None never wins: an answer nobody can read is no vote.
        shares = [0.0 if a is None else answers.count(a) / n for a in answers]
        attempts = [(s, Score(value=share)) for s, share in zip(pool, shares, strict=True)]
        out.append(_fallback(item, attempts, f"majority of {n}"))
    return out


def _attempts(draw: Draw, scorer: Scorer, items: Sequence[str], number: int) -> list[Attempt]:
    samples = draw(items, number)
    scores = (score.signed(scorer.name) for score in scorer.score(samples))
    return list(zip(samples, scores, strict=True))


def _decide(item: str, attempts: Sequence[Attempt], threshold: float) -> Decision:
    number, last = len(attempts), attempts[-1]
    if last[1].exceeds(threshold):
        reason = f"sample {number} scored {last[1].rank:.3f}, above {threshold:g}"
        return _decision(item, attempts, last, "accept", reason)
    reason = f"no sample of {number} scored above {threshold:g}: the best is returned"
    return _fallback(item, attempts, reason)


def _fallback(item: str, attempts: Sequence[Attempt], reason: str) -> Decision:
    best = max(attempts, key=lambda attempt: attempt[1].rank)  # the first of equals
    return _decision(item, attempts, best, "fallback", reason)


def _decision(
    item: str,
    attempts: Sequence[Attempt],
    chosen: Attempt,
    action: Literal["accept", "fallback"],
    reason: str,
) -> Decision:
    sample, score = chosen
    forwards = sum(sample.forwards + score.forwards for sample, score in attempts)
    return Decision(
        item=item,
        action=action,
        sample=sample,
        score=score,
        attempts=tuple(attempts),
        forwards=forwards,
        reason=reason,
    )
