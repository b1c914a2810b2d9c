"""What `--json` prints: one document per command, with the keys of the settings and the values.

Not here: what a terminal shows (`paint`), and what is written to files (`jobs`, `records`).
"""

from collections.abc import Callable
from typing import Any

from remask.values import Decision, Score, is_trusted
from remask.verifier.threshold import ScoreThreshold

Extract = Callable[[str], str | None]


def scored(text: str, score: Score, threshold: ScoreThreshold, extract: Extract) -> dict[str, Any]:
    """Return an answer with its score and its verdict."""
    verdict = threshold.verdict(score)
    return {
        "answer": text,
        "extracted": extract(text),
        "scorer": score.scorer,
        "score": score.value,
        "stderr": score.stderr,
        "metrics": dict(score.by_metric),
        **threshold.fields,
        "trusted": is_trusted(verdict),
        "verdict": verdict,
        **({"error": score.reason} if score.value is None else {}),
        **({"reason": score.reason} if score.value is not None and score.reason else {}),
        **({"stage": score.stage} if score.stage else {}),
    }


def decided(decision: Decision, threshold: ScoreThreshold, extract: Extract) -> dict[str, Any]:
    """Return a decision and its attempts."""
    attempts = [
        {"number": sample.number, **scored(sample.text, score, threshold, extract)}
        | {"forwards": sample.forwards + score.forwards}
        for sample, score in decision.attempts
    ]
    return scored(decision.sample.text, decision.score, threshold, extract) | {
        "action": decision.action,
        "reason": decision.reason,
        "attempts": attempts,
        "forwards": decision.forwards,
    }
