"""Choose one answer per prompt: rejection sampling (MGRS), best-of-N or majority vote.

All three draw sample 0, 1, 2, ... of many prompts ("items") at once. Rejection sampling stops for
an item as soon as one of its samples scores above the threshold.

`rejection` is Algorithm 1 of arXiv:2604.16565 as a generator: it yields the samples that it needs
and receives them with their scores. Batches (`reject`), the server and the replay of recorded
samples (`decide`) run this one implementation.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from remask.decide.settings import PAPER_THRESHOLD, Budget
from remask.errors import InputError
from remask.extension import bind, call
from remask.settings import Threshold, checked, fit
from remask.values import Decision, Sample, Score, Scorer, score_text, scores_of

Draw = Callable[[Sequence[str], int], list[Sample]]  # (items, n) -> sample n of each item
Watch = Callable[[Sample, Score], None]  # called after each attempt
Attempt = tuple[Sample, Score]


class Round(NamedTuple):
    """Request for sample `number` of each item that is not accepted yet."""

    items: tuple[str, ...]
    number: int


Rejection = Generator[Round, Sequence[Attempt], list[Decision]]


@checked
def rejection(
    items: Sequence[str], *, threshold: Threshold = PAPER_THRESHOLD, budget: Budget = 10
) -> Rejection:
    """Yield requests for samples, receive one attempt per item, and return the decisions.

    Accepts the first sample that scores strictly above `threshold`. An item without such a sample
    falls back to its best one after `budget` samples. An answer without a score is never accepted.
    """
    return _rejection(items, threshold, budget)


def _rejection(items: Sequence[str], threshold: float, budget: int) -> Rejection:
    attempts: dict[str, list[Attempt]] = {item: [] for item in items}
    pending = tuple(attempts)
    for number in range(budget):
        if not pending:
            break
        results = yield Round(pending, number)
        for item, attempt in zip(pending, results, strict=True):
            attempts[item].append(attempt)
        pending = tuple(item for item in pending if not attempts[item][-1][1].exceeds(threshold))
    return [_decide(item, attempts[item], threshold) for item in items]


@checked
def decide(
    attempt: Callable[[Round], Sequence[Attempt]],
    items: Sequence[str],
    *,
    threshold: Threshold = PAPER_THRESHOLD,
    budget: Budget = 10,
) -> list[Decision]:
    """Run `rejection` to its end, calling `attempt` for the attempts of each round."""
    algorithm = rejection(items, threshold=threshold, budget=budget)
    attempts: Any = None  # a generator starts with send(None)
    while True:
        try:
            request = algorithm.send(attempts)
        except StopIteration as end:
            return list(end.value)
        attempts = attempt(request)


@checked
def reject(
    draw: Draw,
    scorer: Scorer,
    items: Sequence[str],
    *,
    threshold: Threshold = PAPER_THRESHOLD,
    budget: Budget = 10,
    watch: Watch = lambda sample, score: None,
) -> list[Decision]:
    """Draw and score samples by Algorithm 1, and return one decision per item."""
    bind("watch", watch, None, None)

    def attempt(needed: Round) -> list[Attempt]:
        attempts = _attempts(draw, scorer, needed.items, needed.number)
        for sample, score in attempts:
            watch(sample, score)
        return attempts

    return decide(attempt, items, threshold=threshold, budget=budget)


@checked
def best_of(draw: Draw, scorer: Scorer, items: Sequence[str], n: Budget) -> list[Decision]:
    """Return the best-scored of `n` samples of each item; the first one wins ties.

    An answer without a score ranks last.
    """
    rounds = [_attempts(draw, scorer, items, number) for number in range(n)]
    return [
        _fallback(item, [attempts[i] for attempts in rounds], f"best of {n} by {scorer.name}")
        for i, item in enumerate(items)
    ]


@checked
def majority_vote(
    draw: Draw, key: Callable[[Sample], str | None], items: Sequence[str], n: Budget
) -> list[Decision]:
    """Return a sample with the most frequent of `n` answers; the answer drawn first wins ties.

    `key` returns the value by which answers are compared, for example `answer_key` of a task.
    Unreadable (None) and empty answers get no vote.
    """
    rounds = [_drawn(draw, items, number) for number in range(n)]
    out = []
    for i, item in enumerate(items):
        pool = [samples[i] for samples in rounds]
        answers = [call("key", key, sample) if sample.has_content else None for sample in pool]
        shares = [0.0 if a is None else answers.count(a) / n for a in answers]
        attempts = [(s, Score(value=share)) for s, share in zip(pool, shares, strict=True)]
        out.append(_fallback(item, attempts, f"majority of {n}"))
    return out


def _drawn(draw: Draw, items: Sequence[str], number: int) -> list[Sample]:
    returned = call("draw", draw, items, number)
    samples: list[Sample] = fit("samples of draw", list[Sample], returned, error=InputError)
    if len(samples) != len(items):
        raise InputError(
            f"draw must return one sample per item ({len(items)}), got {len(samples)}."
        )
    return samples


def _attempts(draw: Draw, scorer: Scorer, items: Sequence[str], number: int) -> list[Attempt]:
    samples = _drawn(draw, items, number)
    return list(zip(samples, scores_of(scorer, samples), strict=True))


def _decide(item: str, attempts: Sequence[Attempt], threshold: float) -> Decision:
    number, (sample, score) = len(attempts), attempts[-1]
    if score.value is not None and score.exceeds(threshold):
        value = score_text(score.value, threshold)
        reason = f"sample {number} scored {value}, above {threshold:.10g}"
        decision = _decision(item, attempts, (sample, score), "accept", reason)
    else:
        reason = f"no sample of {number} scored above {threshold:.10g}: the best is returned"
        decision = _fallback(item, attempts, reason)
    return replace(decision, threshold=threshold)


def _fallback(item: str, attempts: Sequence[Attempt], reason: str) -> Decision:
    best = max(attempts, key=lambda attempt: attempt[1].rank)  # the first of equals
    if best[1].value is None:
        reason = f"{reason}; no answer has a score"
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
