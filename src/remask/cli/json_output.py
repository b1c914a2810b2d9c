"""What `--json` prints: one document per command, with the keys of the settings and the values.

Not here: what a terminal shows (`paint`), and what is written to files (`jobs`, `records`).
"""

from collections.abc import Callable
from typing import Any

from remask.values import Decision, Score

Extract = Callable[[str], str | None]


def scored(text: str, score: Score, limit: float | None, extract: Extract) -> dict[str, Any]:
    """Return an answer with its score; without a threshold nobody can say whether to trust it."""
    return {
        "answer": text,
        "extracted": extract(text),
        "scorer": score.scorer,
        "score": score.value,
        "stderr": score.stderr,
        "metrics": dict(score.by_metric),
        "trusted": None if limit is None else score.exceeds(limit),
        "verdict": score.verdict(limit),
        **({"error": score.reason} if score.value is None else {}),
        **({"reason": score.reason} if score.value is not None and score.reason else {}),
        **({"stage": score.stage} if score.stage else {}),
    }


def decided(decision: Decision, limit: float, extract: Extract) -> dict[str, Any]:
    """Return a decision and its attempts."""
    attempts = [
        {"number": sample.number, **scored(sample.text, score, limit, extract)}
        | {"forwards": sample.forwards + score.forwards}
        for sample, score in decision.attempts
    ]
    return scored(decision.sample.text, decision.score, limit, extract) | {
        "action": decision.action,
        "reason": decision.reason,
        "attempts": attempts,
        "forwards": decision.forwards,
    }
