"""Where fitted numbers come from, and the JSON files that say so.

Weights, certificates and calibrators belong to one way of scoring. Their files name its metric set,
and reading one for another set is an error. What they were fitted on is told by the caller; this
room asks no clock and no repository.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from remask import records
from remask.errors import RecordError

Fitted = TypeVar("Fitted")


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The score that something was fitted to, and the answers it was fitted on."""

    metric_set: str  # "paper", "core", or a name for other columns
    metrics: tuple[str, ...]
    task: str
    model: str
    split: str
    seed: int
    version: str  # of remask, or a commit
    date: str
    weights: Mapping[str, float] | None = None  # of the metrics in the score; None: uniform
    settings: Mapping[str, Any] = field(default_factory=dict)  # how answers were drawn and scored

    def check(self, metric_set: str, metrics: Sequence[str], where: Path) -> None:
        """Raise unless the score is made of this metric set."""
        if (self.metric_set, set(self.metrics)) != (metric_set, set(metrics)):
            raise RecordError(
                f"{where} was fitted to metric set {self.metric_set!r} "
                f"({', '.join(self.metrics)}), not to {metric_set!r} ({', '.join(metrics)}); "
                f"fit it again, or score with its metrics."
            )


def write(path: Path, kind: str, fields: Mapping[str, Any]) -> None:
    """Write one fitted thing, its provenance among the fields, as JSON: whole or not at all."""
    text = json.dumps({"kind": kind, **fields}, indent=2, allow_nan=False) + "\n"
    records.write_text(path, text)


def read(
    path: Path, kind: str, metric_set: str, metrics: Sequence[str], build: Callable[..., Fitted]
) -> Fitted:
    """Return what `build` makes of the fields of a file, where it fits this metric set."""
    fields, provenance = parse(path, kind)
    provenance.check(metric_set, metrics, path)
    try:
        return build(**fields, provenance=provenance)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise broken(path, error) from None


def parse(path: Path, kind: str) -> tuple[dict[str, Any], Provenance]:
    """Return the fields and the provenance of a fitted thing of this kind, of any metric set."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        found = document.pop("kind")
        fields = document.pop("provenance")
        provenance = Provenance(**{**fields, "metrics": tuple(fields["metrics"])})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise broken(path, error) from None
    if found != kind:
        raise RecordError(f"{path} holds a {found}, not a {kind}; name another file.")
    return document, provenance


def broken(path: Path, error: Exception) -> RecordError:
    """Return the error for a file that cannot be used, with its reason."""
    return RecordError(f"{path} is damaged ({type(error).__name__}: {error}); fit it again.")
