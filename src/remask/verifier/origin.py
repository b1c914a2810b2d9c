"""The settings in the file of a fitted verifier. No torch."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from remask.consistency.settings import ConsistencySettings
from remask.decide.stages import StagedVerifier
from remask.errors import RecordError, SettingsError
from remask.probes.settings import Probe
from remask.sampling.settings import SampledModel, SamplerSettings, sampler_settings
from remask.settings import checked
from remask.verifier.columns import probes_in
from remask.verifier.threshold import ScoreContext, differences

# Sampler settings that override a preset.
_GIVEN = (
    "length", "steps", "block", "temperature", "order", "reveal_threshold", "commit_gap",
    "edit_threshold",
)  # fmt: skip


def trip_settings(fitted: StagedVerifier | None) -> ConsistencySettings:
    """Return the round-trip settings of a fit; the defaults if it has none."""
    known = _settings(fitted, "consistency")
    unknown = known.keys() - ConsistencySettings.__dataclass_fields__.keys()
    if unknown:
        raise _damaged("consistency", known)
    try:
        return ConsistencySettings(**known)
    except SettingsError:
        raise _damaged("consistency", known) from None


def canvas_length(fitted: StagedVerifier | None) -> int | None:
    """Return the canvas length of the answers of a fit; None if unknown."""
    length = _settings(fitted, "sampler").get("length")
    if length is not None and (type(length) is not int or length < 1):  # True is an int as well
        raise _damaged("sampler", {"length": length})
    return length


@checked
def read_fitted(path: Path) -> StagedVerifier:
    """Read a fitted verifier; raise if its settings or probes are invalid."""
    fitted = StagedVerifier.read(path)
    try:
        for name in probes_in(fitted.provenance.metrics):
            Probe.named(name)
        trip_settings(fitted)
        canvas_length(fitted)
    except SettingsError as error:
        raise RecordError(f"{path} is damaged: {error} Fit it again.") from None
    return fitted


def fitted_sampler(
    fitted: StagedVerifier | None, model: SampledModel, kind: str
) -> SamplerSettings | None:
    """Return the sampler settings of the answers of a fit; None if unknown.

    A temperature equal to the preset's is not passed on, because it may apply to sample 0 only.
    """
    known = _settings(fitted, "sampler")
    if known.get("length") is None:
        return None
    given = {name: known[name] for name in _GIVEN if known.get(name) is not None}
    if given.get("temperature") == model.preset.for_task(kind).temperature:
        del given["temperature"]
    return sampler_settings(model, kind=kind, **given)


def other_settings(fitted: StagedVerifier | None, sampler: SamplerSettings) -> list[str]:
    """Return the names of sampler settings that differ from those of the fit.

    A fit uses sample 0 of each question, so settings of later samples are not compared.
    """
    known, ours = _settings(fitted, "sampler"), asdict(sampler)
    names = known.keys() & ours.keys() - {"resample_temperature"}
    return [name for name in ours if name in names and known[name] != ours[name]]


def check_sampler(fitted: StagedVerifier | None, sampler: SamplerSettings) -> None:
    """Raise if the sampler differs from the one of the fit."""
    known, ours = (
        ScoreContext(kind="", sampler={name: own[name] for name in other_settings(fitted, sampler)})
        for own in (_settings(fitted, "sampler"), asdict(sampler))
    )
    other = differences(known, ours)
    if other:
        raise SettingsError(
            f"The verifier was fitted on answers written with {other}. Use these settings, fit it "
            "again, or use the label-free verifier."
        )


def _settings(fitted: StagedVerifier | None, name: str) -> Mapping[str, Any]:
    known = {} if fitted is None else fitted.provenance.settings.get(name) or {}
    if not isinstance(known, Mapping):
        raise _damaged(name, known)
    return known


def _damaged(name: str, known: object) -> SettingsError:
    return SettingsError(
        f"the fitted verifier says {name} {known!r:.80}, which cannot be; fit it again."
    )
