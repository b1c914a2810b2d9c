"""From scores to an answer: rejection sampling (MGRS), best-of-N, majority vote.

All three draw on one pool per item, keyed by sample number, and work on many items at once:
an item that has its answer leaves the batch. Algorithm 1 is `rejection`, a generator that yields
what it needs and is sent the attempts, so that a batch (`reject`), a server that serves others in
between and a replay of records (`decide`) all follow the same rule.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

from remask.decide.settings import PAPER_THRESHOLD, Budget
from remask.errors import InputError
from remask.extension import bind, call
from remask.settings import Threshold, checked, fit
from remask.values import Decision, Sample, Score, Scorer, score_text, scores_of

Draw = Callable[[Sequence[str], int], list[Sample]]  # items, sample number -> a sample of each
Watch = Callable[[Sample, Score], None]  # is called with every attempt
Attempt = tuple[Sample, Score]


class Round(NamedTuple):
    """What rejection sampling needs next: sample `number` of each item without an answer."""

    items: tuple[str, ...]
    number: int


Rejection = Generator[Round, Sequence[Attempt], list[Decision]]


@checked
def rejection(
    items: Sequence[str], *, threshold: Threshold = PAPER_THRESHOLD, budget: Budget = 10
) -> Rejection:
    """Yield rounds, receive an attempt per item, and return a decision per item: Algorithm 1.

    The first sample that scores above `threshold` (strictly) is accepted. When the budget is spent,
    the best so far is returned as a fallback. An answer without a score is never accepted.
    """
    return _rejection(items, threshold, budget)


def _rejection(items: Sequence[str], threshold: float, budget: int) -> Rejection:
    attempts: dict[str, list[Attempt]] = {item: [] for item in items}
    waiting = tuple(attempts)
    for number in range(budget):
        if not waiting:
            break
        made = yield Round(waiting, number)
        for item, attempt in zip(waiting, made, strict=True):
            attempts[item].append(attempt)
        waiting = tuple(item for item in waiting if not attempts[item][-1][1].exceeds(threshold))
    return [_decide(item, attempts[item], threshold) for item in items]


@checked
def decide(
    attempt: Callable[[Round], Sequence[Attempt]],
    items: Sequence[str],
    *,
    threshold: Threshold = PAPER_THRESHOLD,
    budget: Budget = 10,
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
    """Return a decision per item by Algorithm 1, Manifold-Guided Rejection Sampling."""
    bind("watch", watch, None, None)

    def attempt(needed: Round) -> list[Attempt]:
        attempts = _attempts(draw, scorer, needed.items, needed.number)
        for made in attempts:
            watch(*made)
        return attempts

    return decide(attempt, items, threshold=threshold, budget=budget)


@checked
def best_of(draw: Draw, scorer: Scorer, items: Sequence[str], n: Budget) -> list[Decision]:
    """Return the best-scored of `n` samples of each item; the first wins ties.

    An answer without a score ranks below every score.
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
    """Return a sample with the most frequent answer of `n`; ties go to the first answer.

    `key` returns what two answers are compared by, such as `answer_key` of a task and a problem;
    None, and an empty answer, never win.
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
    """Return sample `number` of each item, from a function of the user."""
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
