"""Where a fitted verifier is from, and for whom it may speak. No torch."""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from remask.consistency.settings import ConsistencySettings
from remask.decide.stages import StagedVerifier
from remask.errors import RecordError, SettingsError
from remask.probes.settings import Probe
from remask.sampling.settings import SampledModel, SamplerSettings, sampler_settings
from remask.verifier.columns import VERSION, probes_in

# Of a sampler: what may be given beside a preset.
_GIVEN = (
    "length", "steps", "block", "temperature", "order", "reveal_threshold", "commit_gap",
    "edit_threshold",
)  # fmt: skip


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
    try:
        return ConsistencySettings(**known)
    except SettingsError:
        raise _damaged("consistency", known) from None


def canvas_length(fitted: StagedVerifier | None) -> int | None:
    """Return the canvas of the answers it was fitted to; probes of another read other numbers."""
    length = _settings(fitted, "sampler").get("length")
    if length is not None and (type(length) is not int or length < 1):  # True is an int as well
        raise _damaged("sampler", {"length": length})
    return length


def read_fitted(path: Path) -> StagedVerifier:
    """Return the verifier in a file, or raise where settings or probes of it cannot be."""
    fitted = StagedVerifier.read(path)
    try:
        for name in probes_in(fitted.provenance.metrics):
            Probe.named(name)
        trip_settings(fitted)
        canvas_length(fitted)
    except SettingsError as error:
        raise RecordError(f"{path} is damaged: {error}") from None
    return fitted


def fitted_sampler(
    fitted: StagedVerifier | None, model: SampledModel, kind: str
) -> SamplerSettings | None:
    """Return how the answers were written that it was fitted to; None where it does not say.

    The preset's temperature is not given as if it were another: it may be that of sample 0 alone.
    """
    known = _settings(fitted, "sampler")
    if known.get("length") is None:
        return None
    given = {name: known[name] for name in _GIVEN if known.get(name) is not None}
    if given.get("temperature") == model.preset.for_task(kind).temperature:
        del given["temperature"]
    return sampler_settings(model, kind=kind, **given)


def other_settings(fitted: StagedVerifier | None, sampler: SamplerSettings) -> list[str]:
    """Return in what answers are to be written otherwise than those it was fitted to.

    Those were the first of each question; how further ones are drawn is not compared.
    """
    known, ours = _settings(fitted, "sampler"), asdict(sampler)
    names = known.keys() & ours.keys() - {"resample_temperature"}
    return [name for name in ours if name in names and known[name] != ours[name]]


def check_sampler(fitted: StagedVerifier | None, sampler: SamplerSettings) -> None:
    """Raise where answers are to be written in another way than those it was fitted to."""
    other = other_settings(fitted, sampler)
    if other:
        known, ours = _settings(fitted, "sampler"), asdict(sampler)
        before, now = (
            " and ".join(f"{name} {one[name]}" for name in other) for one in (known, ours)
        )
        raise SettingsError(
            f"the verifier was fitted to answers written with {before}, and these are to be "
            f"written with {now}; write them as those, fit one to answers like these, or use the "
            "label-free one."
        )


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
