"""Where the numbers of these tests come from."""

from collections.abc import Callable
from typing import Any

import pytest

from remask.decide.provenance import Provenance


def build(*metrics: str, **changed: Any) -> Provenance:
    fields: dict[str, Any] = {
        "metric_set": "core", "metrics": metrics, "task": "wordmath", "model": "tiny",
        "split": "validation", "seed": 3, "version": "0.1.0", "date": "2026-11-15",
        "settings": {"trips": 4, "mask_ratio": 0.9},
    }  # fmt: skip
    return Provenance(**fields | changed)


@pytest.fixture(scope="session")
def made_of() -> Callable[..., Provenance]:
    """Return a provenance of these metrics."""
    return build
