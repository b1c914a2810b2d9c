"""Where a fitted verifier is from, and for whom it may speak. No torch."""

from collections.abc import Collection, Mapping
from typing import Any

from remask.consistency.settings import ConsistencySettings
from remask.decide.stages import StagedVerifier
from remask.errors import SettingsError
from remask.verifier.columns import VERSION


def check_origin(fitted: StagedVerifier, ours: Mapping[str, Any], kinds: Collection[str]) -> None:
    """Raise where a fitted verifier would judge answers of another origin than it was fitted to.

    Args:
        fitted: to answers of one model to one task.
        ours: the task and the model now, and what else is known of how it is loaded and asked; what
            one of the two sides does not know is not compared.
        kinds: names under which the task that it was fitted to is read.
    """
    about = fitted.provenance
    if ours["task"] not in kinds:
        _refuse("task", about.task, ours["task"])
    known = {**about.settings, "model": about.model, "task": ours["task"]}
    known["scorer version"] = f"{about.scorer} {about.scorer_version}"
    for name, value in {**ours, "scorer version": f"verifier {VERSION}"}.items():
        before = known.get(name)
        if before is not None and value is not None and before != value:
            _refuse(name, before, value)


def trip_settings(fitted: StagedVerifier | None) -> ConsistencySettings:
    """Return the round trips that a verifier was fitted to; the usual ones where it says none."""
    known = _settings(fitted, "consistency")
    unknown = known.keys() - ConsistencySettings.__dataclass_fields__.keys()
    if unknown:
        raise _damaged("consistency", known)
    return ConsistencySettings(**known)


def canvas_length(fitted: StagedVerifier | None) -> int | None:
    """Return the canvas of the answers it was fitted to; probes of another read other numbers."""
    length = _settings(fitted, "sampler").get("length")
    if length is not None and not isinstance(length, int):
        raise _damaged("sampler", {"length": length})
    return length


def _settings(fitted: StagedVerifier | None, name: str) -> Mapping[str, Any]:
    """Return settings that a verifier was fitted with; none where it does not say."""
    known = {} if fitted is None else fitted.provenance.settings.get(name) or {}
    if not isinstance(known, Mapping):
        raise _damaged(name, known)
    return known


def _damaged(name: str, known: object) -> SettingsError:
    return SettingsError(
        f"the fitted verifier says {name} {known!r:.80}, which cannot be; fit it again."
    )


def _refuse(field: str, before: object, now: object) -> None:
    raise SettingsError(
        f"the verifier was fitted to answers of {field} {before}, and this is {field} {now}; fit "
        "one to answers of this, or use the label-free one."
    )
