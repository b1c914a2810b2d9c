"""Records written by hand, as `collect` writes them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

Row = dict[str, Any]


def build(
    problem: str = "a",
    number: int = 0,
    *,
    right: bool = True,
    answer: str | None = "1",
    score: float | None = 0.5,
    confidence: float = 0.5,
    by_trip: Mapping[str, Sequence[float | None]] | None = None,
    process_ok: bool | None = None,
    task: str = "wordmath",
    level: str = "hard",
) -> Row:
    trips = {"token_accuracy": (score, score)} if by_trip is None else by_trip
    return {
        "id": f"{task}/{level}/{problem}",
        "task": task,
        "level": level,
        "number": number,
        "prompt": "How many?",
        "text": f"#### {answer}",
        "gold": "1",
        "answer": answer,
        "right": right,
        "process_ok": right if process_ok is None else process_ok,
        "forwards": 10,
        "scores": {"confidence": confidence, "confidence_canvas": 0.9, "roundtrips": score},
        "stderr": 0.0,
        "metrics": {},
        "by_trip": {name: list(values) for name, values in trips.items()},
        "drift": [0.0, 0.5, None],
        "verify_forwards": 8,
    }


@pytest.fixture(scope="session")
def make_row() -> Callable[..., Row]:
    """Return a sample with 2 trips: 10 forwards to write, 8 to verify."""
    return build
