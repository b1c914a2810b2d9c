"""Published checkpoints, and how their authors sample them: the contents of catalog.yaml.

Nothing in the catalogue was measured with this library. Torch is not imported here.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any

import yaml  # type: ignore[import-untyped]

from remask.denoisers.preset import Preset
from remask.errors import SettingsError
from remask.settings import nearest, unknown_name

PACKED_BYTES = {"int8": 1.0, "nf4": 0.5 + 4 / 64}  # per weight, with its share of a scale in nf4
# External answers are verified on a canvas of the preset's length. LLaDA2's published lengths are
# upper limits, so a default preset is cut to this length.
_MAX_DEFAULT_LENGTH = 1024


class UnsupportedSetting(UserWarning):
    """A preset has a setting that our sampler does not implement."""


@dataclass(frozen=True, kw_only=True)
class PublishedPreset:
    """How the authors of a checkpoint sample it for one task, and the accuracy they report."""

    task: str
    preset: Preset
    source: str
    accuracy: float | None = None  # in per cent; None: not reported with these settings
    prompt: str = ""  # how the question was asked, if known
    unsupported: Mapping[str, Any] = field(default_factory=dict)  # under the authors' names

    @property
    def warning(self) -> str:
        """A sentence about unsupported settings; "" if there are none."""
        listed = ", ".join(f"{name}={value}" for name, value in self.unsupported.items())
        return listed and (
            f"preset {self.task!r} also sets {listed}, which remask does not implement; its "
            "answers will differ from the authors'."
        )


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A published checkpoint, or the embedded model."""

    id: str  # on the hub
    family: str
    architecture: str  # architectures[0] of its config.json
    num_parameters: int
    width: int
    vocab_size: int
    context: int  # length of the training sequences, prompt included
    licence: str | None = None  # None: not checked
    experts_per_token: int = 0  # 0: no experts
    tied: bool = False  # the head is the embedding
    num_float32: int = 0
    num_kept: int = 0  # 0: nothing is cached
    presets: tuple[PublishedPreset, ...] = ()

    def num_bytes(self, itemsize: int = 2) -> int:
        """Return the bytes of the weights; the default item size is bfloat16's."""
        return itemsize * self.num_parameters + 4 * self.num_float32

    def packed_bytes(self, itemsize: int = 2) -> dict[str, int]:
        """Return the approximate bytes in each packed format; embedding and head are not packed."""
        unpacked = self.width * self.vocab_size * (1 if self.tied else 2)
        rest, fixed = self.num_parameters - unpacked, itemsize * unpacked + 4 * self.num_float32
        return {name: int(fixed + size * rest) for name, size in PACKED_BYTES.items()}

    def find_preset(self, task: str) -> PublishedPreset:
        """Return the preset of this name in any case, or the only one that begins with it."""
        name = task.strip().lower()
        begun = [p for p in self.presets if name and p.task.lower().startswith(name)]
        found = [p for p in begun if p.task.lower() == name] or begun
        if len(found) == 1:
            return found[0]
        names = [p.task for p in found or self.presets]
        if not found and nearest(task, names):
            raise unknown_name(f"preset of {self.id}", task, names)
        listed = ", ".join(map(repr, names))
        raise SettingsError(f"preset of {self.id} must be one of {listed}, got {task!r}.")


def find(model: str) -> Checkpoint | None:
    """Return the checkpoint with this hub id, in any case, or None."""
    return next((c for c in CHECKPOINTS if c.id.lower() == model.lower()), None)


def suggestion(model: str) -> str:
    """Return a question with the most similar id; "" if none is similar."""
    ids = {one.id.rpartition("/")[2]: one.id for one in (TINY, *CHECKPOINTS)}
    near = nearest(model, ids.values()) or ids.get(nearest(model.rpartition("/")[2], ids) or "")
    return f" Did you mean {near}?" if near and near != model else ""


def find_preset(model: str, task: str) -> PublishedPreset:
    """Return a preset by hub id and name; "ID:NAME" as the name overrides the hub id."""
    other, colon, name = task.partition(":")
    model, task = (other, name) if colon else (model, task)
    checkpoint = find(model)
    if checkpoint is None or not checkpoint.presets:
        raise SettingsError(
            f"{model} has no published presets; name a model that has, as in "
            "GSAI-ML/LLaDA-8B-Instruct:GSM8K (`remask models` lists them)."
        )
    return checkpoint.find_preset(task)


def preset(model: str, task: str) -> Preset:
    """Return the settings of a published preset; warn if some of them are unsupported."""
    published = find_preset(model, task)
    if published.warning:
        warnings.warn(published.warning, UnsupportedSetting, stacklevel=2)
    return published.preset


def default_preset(model: str) -> Preset | None:
    """Return the catalogue's default for a hub id: for chat, else for GSM8K, else the first.

    None if nothing is published, or if that preset has unsupported settings.
    """
    checkpoint = find(model)
    if checkpoint is None or not checkpoint.presets:
        return None
    by_task = {published.task: published for published in checkpoint.presets}
    published = by_task.get("chat") or by_task.get("GSM8K") or checkpoint.presets[0]
    preset = published.preset
    if published.unsupported:
        return None
    if preset.length <= _MAX_DEFAULT_LENGTH:
        return preset
    steps = preset.steps * _MAX_DEFAULT_LENGTH // preset.length
    return replace(preset, length=_MAX_DEFAULT_LENGTH, steps=steps)


def family_preset(architecture: str) -> Preset:
    """Return the preset of an architecture for models without any other preset."""
    return Preset(resample_temperature=resampling(architecture)["temperature"])


def resampling(architecture: str) -> dict[str, Any]:
    """Return the temperature of further samples of a greedy preset, and its source."""
    return dict(_DATA["resampling"].get(architecture, _DATA["resampling"]["default"]))


def _published(architecture: str, group: Mapping[str, Any]) -> list[PublishedPreset]:
    """Return the presets of one group of the catalogue, which share settings and source."""
    group = dict(group)
    tasks, source = group.pop("tasks"), _DATA["sources"][group.pop("source")]
    prompt, unsupported = group.pop("prompt", ""), group.pop("unsupported", {})
    settings = {"steps": group["length"], "block": group["length"], **group}
    return [
        PublishedPreset(
            task=task,
            preset=replace(family_preset(architecture), **settings),
            source=source,
            accuracy=accuracy,
            prompt=prompt,
            unsupported=unsupported,
        )
        for task, accuracy in tasks.items()
    ]


def _checkpoint(shape: Mapping[str, Any], presets: Any = (), **about: Any) -> Checkpoint:
    groups = (_published(shape["architecture"], group) for group in presets)
    return Checkpoint(**shape, **about, presets=tuple(one for group in groups for one in group))


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT = resources.files("remask.denoisers").joinpath("catalog.yaml").read_text("utf-8")
_DATA: dict[str, Any] = yaml.load(_TEXT, _LOADER)
TINY, *CHECKPOINTS = (_checkpoint(**entry) for entry in _DATA["checkpoints"])
