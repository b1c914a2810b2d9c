"""Where fitted numbers come from, and the JSON files that say so.

Weights, certificates and calibrators belong to one way of scoring. Their files name its metric set,
and reading one for another set is an error. What they were fitted on is told by the caller; this
room asks no clock and no repository.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from remask.errors import RecordError, SettingsError
from remask.records import jsonl, text_file
from remask.settings import Misfit, fit, setting_fields

Fitted = TypeVar("Fitted")
_REMEDY = "fit it again"
_APART = ("provenance", "shape")  # fields that have readers of their own


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
    jsonl.write_text(path, text)


def read(
    path: Path, kind: str, metric_set: str, metrics: Sequence[str], build: Callable[..., Fitted]
) -> Fitted:
    """Return what `build` makes of the fields of a file, where it fits this metric set."""
    found, provenance = parse(path, kind)
    provenance.check(metric_set, metrics, path)
    if is_dataclass(build):
        check(path, build, found)
    try:
        return build(**found, provenance=provenance)
    except SettingsError as error:  # numbers that are each well, and not together
        raise damaged(path, str(error).rstrip(".")) from None


def parse(path: Path, kind: str) -> tuple[dict[str, Any], Provenance]:
    """Return the fields and the provenance of a fitted thing of this kind, of any metric set."""
    document = text_file.read_object(path, _REMEDY)
    found = document.pop("kind", None)
    if not isinstance(found, str):
        raise damaged(path, "it has no kind")
    if found != kind:
        raise RecordError(f"{path} holds a {found}, not a {kind}; name another file.")
    about = document.pop("provenance", None)
    if not isinstance(about, dict):
        raise damaged(path, "it has no provenance")
    check(path, Provenance, about, "provenance.")
    return document, Provenance(**{**about, "metrics": tuple(about["metrics"])})


def check(path: Path, kind: type, told: Mapping[str, Any], under: str = "") -> None:
    """Raise where a document does not hold the fields of a dataclass; `under` is where it is."""
    known = {name: f for name, f in setting_fields(kind).items() if name not in _APART}
    missing = [name for name, field in known.items() if field.required and name not in told]
    if missing:
        raise damaged(path, f"it has no {under}{missing[0]}")
    hints = get_type_hints(kind)
    for name, value in told.items():
        if name not in known:
            raise damaged(path, f"it has {name}, which is no field of it")
        if hints[name] is float and isinstance(value, str):
            raise damaged(path, f"{name} is {value!r:.80}, not a number")
        try:
            fit(hints[name], value)
        except Misfit as wanted:
            raise damaged(path, f"{name} is {value!r:.80}, not {wanted}") from None


def damaged(path: Path, what: str) -> RecordError:
    """Return the error for a file that cannot be used, with its reason."""
    return RecordError(f"{path} is damaged: {what}; {_REMEDY}.")
