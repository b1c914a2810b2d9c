"""Published decoding in our words: a preset of the catalogue becomes a `Preset`.

The catalogue keeps the names that the authors gave to their parameters. Here each of them is
translated, or asks for what our sampler does anyway, or is listed as unmet: none is dropped in
silence. Departures: a threshold is reached from its value up, where block models ask for more than
it (one of 1, which nothing exceeds, is none), and `confidence_eos_eot_inf` is the rule at
temperature 0 at every temperature.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from remask.denoisers import catalog
from remask.denoisers.preset import Preset
from remask.denoisers.published import Checkpoint, Published, Setting
from remask.denoisers.resampling import resampling
from remask.errors import SettingsError
from remask.settings import nearest, unknown_name

_NAMES = {
    "gen_length": "length",
    "max_new_tokens": "length",
    "max_token": "length",
    "steps": "steps",
    "diffusion_steps": "steps",
    "denoising_steps": "steps",
    "denoising_steps_per_block": "steps",
    "block_length": "block",
    "block_size": "block",
    "small_block_size": "sub_block",
    "temperature": "temperature",
    "remasking": "order",
    "remasking_strategy": "order",
    "alg": "order",
    "alg_temp": "order_temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "threshold": "reveal_threshold",
    "confidence_threshold": "reveal_threshold",
    "dynamic_threshold": "reveal_threshold",
    "confidence_eos_eot_inf": "ends_last",
    "logits_eos_inf": "suppress_eos",
    "editing_threshold": "edit_threshold",
    "max_post_steps": "post_steps",
}
# Settings of one block, where others count all of them.
_PER_BLOCK = {"denoising_steps", "denoising_steps_per_block"}
# With and without a threshold, SDAR's order is LLaDA's; its confidence is taken after temperature
# and filters, which at the published temperatures, 0 and 1, without filters, is the same.
_ORDERS = {"low_confidence_dynamic": "low_confidence", "low_confidence_static": "low_confidence"}
# Values that ask for nothing that our sampler does not do anyway.
_NOTHING: dict[str, Setting] = {
    "cfg_scale": 0.0,
    "logits_eos_inf": False,
    "minimal_topk": 1,
    "top_k": 0,
    "use_block_cache": False,
    "eos_early_stop": False,
    "parallel_decoding": "threshold",
    "var": False,
}
# An answer from outside is verified on a canvas as long as the preset says. LLaDA2's lengths are
# only the point at which it is stopped, so a model does not start with more than this.
_LONGEST_START = 1024


class Unmet(UserWarning):
    """A preset asks for something that our sampler cannot do."""


@dataclass(frozen=True, kw_only=True)
class Official:
    """A published preset, in the authors' words and in ours."""

    checkpoint: str  # its hub id
    published: Published
    preset: Preset
    unmet: Mapping[str, Setting]  # what the authors set and we cannot do, under their names

    @property
    def note(self) -> str:
        """The sentence that tells what is unmet; empty where nothing is."""
        if not self.unmet:
            return ""
        listed = ", ".join(f"{name}={value}" for name, value in self.unmet.items())
        return (
            f"preset {self.published.task!r} of {self.checkpoint} also sets {listed}, which remask "
            "cannot do yet; expect other answers than its authors got."
        )


def preset(model: str, task: str) -> Preset:
    """Return how the authors of `model` sample it for `task`; what is unmet comes as a warning."""
    translated = official(model, task)
    if translated.note:
        warnings.warn(translated.note, Unmet, stacklevel=2)
    return translated.preset


def official(model: str, task: str) -> Official:
    """Return the published preset of this name, in any case, or beginning like this.

    Args:
        model: a hub id of the catalogue.
        task: as `remask models ID` lists it; or "ID:TASK", which names the checkpoint too, so that
            a folder can be sampled like the model it is a copy of.
    """
    before, colon, after = task.partition(":")
    model, task = (before, after) if colon else (model, task)
    checkpoint = catalog.find(model)
    if checkpoint is None or not checkpoint.presets:
        raise SettingsError(
            f"no presets are known for {model}; name a checkpoint that has some, as in "
            "GSAI-ML/LLaDA-8B-Instruct:GSM8K (remask models lists them)."
        )
    return translate(checkpoint, _named(checkpoint, task))


def _named(checkpoint: Checkpoint, task: str) -> Published:
    """Return the preset called `task`, or the only one whose name begins with it."""
    wanted = task.strip().lower()
    by_name = {published.task.lower(): published for published in checkpoint.presets}
    if wanted in by_name:
        return by_name[wanted]
    begun = [p for name, p in by_name.items() if wanted and name.startswith(wanted)]
    if len(begun) == 1:
        return begun[0]
    names = [published.task for published in begun or checkpoint.presets]
    if not begun and nearest(task, names):
        raise unknown_name(f"preset of {checkpoint.id}", task, names)
    what = "could be several" if begun else "is unknown"
    listed = ", ".join(map(repr, names))
    raise SettingsError(f"preset {task!r} of {checkpoint.id} {what}; use one of {listed}.")


def translate(checkpoint: Checkpoint, published: Published) -> Official:
    """Return a published preset with every parameter under our name, or among the unmet."""
    met: dict[str, Any] = {}
    unmet: dict[str, Setting] = {}
    for name, value in published.settings.items():
        ours = _NAMES.get(name)
        if name in _NOTHING and value == _NOTHING[name]:
            continue
        if ours is None:
            unmet[name] = value
        else:
            met[ours] = value
    met = {"block": met["length"], "steps": met["length"], **met}
    met["order"] = _ORDERS.get(met.get("order", ""), met.get("order", Preset.order))
    if met.get("reveal_threshold", 0.0) >= 1:
        met["reveal_threshold"] = None
    if _steps_are_per_block(checkpoint, published):
        met["steps"] *= met["length"] // met["block"]
    preset = replace(usual(checkpoint.architecture), **met)
    return Official(checkpoint=checkpoint.id, published=published, preset=preset, unmet=unmet)


def _steps_are_per_block(checkpoint: Checkpoint, published: Published) -> bool:
    if published.settings.keys() & _PER_BLOCK:
        return True
    grows = bool(published.settings.get("var", False))
    return "steps" in published.settings and (checkpoint.family == "LLaDA2" or grows)


def usual(architecture: str) -> Preset:
    """Return how an architecture is sampled where nothing else is said."""
    return Preset(resample_temperature=resampling(architecture).temperature)


def start(model: str) -> Preset | None:
    """Return what a hub id is loaded with where its own files say nothing of sampling.

    That is its preset for chat, else for GSM8K, else the first; None where nothing is published, or
    where part of it would be unmet.
    """
    checkpoint = catalog.find(model)
    if checkpoint is None or not checkpoint.presets:
        return None
    by_task = {published.task: published for published in checkpoint.presets}
    chosen = by_task.get("chat") or by_task.get("GSM8K") or checkpoint.presets[0]
    translated = translate(checkpoint, chosen)
    return None if translated.unmet else _shortened(translated.preset)


def _shortened(preset: Preset) -> Preset:
    """Return the preset with at most `_LONGEST_START` tokens, and steps to match."""
    if preset.length <= _LONGEST_START:
        return preset
    steps = preset.steps * _LONGEST_START // preset.length
    return replace(preset, length=_LONGEST_START, steps=steps)


def merged(own: Preset, published: Preset) -> Preset:
    """Return the published preset with the thresholds of the score that a model's files set."""
    tasks = {
        task: {"threshold": changes["threshold"]}
        for task, changes in own.tasks.items()
        if "threshold" in changes
    }
    return replace(published, threshold=own.threshold, tasks=tasks)
