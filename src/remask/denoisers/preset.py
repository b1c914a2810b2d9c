"""Sampling settings of a model, as its generation_config.json gives them. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

from remask.errors import SettingsError
from remask.settings import Setting, fit, setting_fields
from remask.values import ROUNDTRIPS

_ALIASES = {"alg": "order", "alg_temp": "order_temperature"}  # names in Dream's file
# Autoregressive models have these settings too; alone they say nothing about diffusion sampling.
_SHARED = {"temperature", "top_p", "top_k"}
_NOT_IN_FILES = {"schedule", "named"}

_Count = Annotated[int, Setting(least=1)]
_Positive = Annotated[float, Setting(above=0)]


@dataclass(frozen=True, kw_only=True)
class Preset:
    """How a model is sampled, and the thresholds above which its answers are accepted.

    `sampling.settings` documents the fields that `SamplerSettings` also has.
    """

    length: _Count = 128
    steps: _Count = 128
    block: _Count = 128
    sub_block: _Count | None = None
    temperature: float = 0.0
    resample_temperature: _Positive = 0.7  # of samples 1, 2, ... if `temperature` is 0
    order: str = "low_confidence"
    order_temperature: float = 0.0
    ends_last: bool = False
    reveal_threshold: float | None = None
    commit_gap: _Positive | None = None
    top_p: float | None = None
    top_k: _Count | None = None
    edit_threshold: float | None = None
    post_steps: Annotated[int, Setting(least=0)] = 16
    suppress_eos: bool = False
    # Acceptance thresholds by scorer; a number is the threshold of round trips (0.75 in the paper).
    threshold: float | Mapping[str, float] = 0.75
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # changes by task
    schedule: str = "even"  # set by the model family, see `sampling.schedule`
    named: bool = field(default=False, compare=False)  # requested by name: sets the canvas of tasks

    @property
    def cuts_top_k_first(self) -> bool:
        """Whether `top_k` applies before `top_p`, as in SDAR and LLaDA2; Dream reverses them."""
        return self.schedule == "shares"

    def thresholds(self, kind: str = "number") -> Mapping[str, float]:
        """Return the acceptance thresholds for one kind of answer by scorer.

        Thresholds at the top level of generation_config.json are for the kind `number`. Other kinds
        without thresholds have the default.
        """
        default = self.threshold if kind == "number" else Preset.threshold
        return _by_scorer(self.tasks.get(kind, {}).get("threshold", default))

    def for_task(self, task: str) -> "Preset":
        """Return the preset with the changes for `task` applied."""
        return self._changed(self.tasks.get(task, {}), f"tasks.{task}.")

    def in_blocks(self, size: int) -> "Preset":
        """Return the preset for a model that writes blocks of `size` tokens, with equal steps."""
        num_blocks = -(-self.length // size)
        steps = -(-self.steps // num_blocks) * num_blocks
        return replace(self, block=size, length=num_blocks * size, steps=steps)

    def with_thresholds(self, other: "Preset") -> "Preset":
        """Return the preset with the acceptance thresholds of another one, tasks included."""
        tasks = {
            task: {"threshold": changes["threshold"]}
            for task, changes in other.tasks.items()
            if "threshold" in changes
        }
        return replace(self, threshold=other.threshold, tasks=tasks)

    @staticmethod
    def read(config: Mapping[str, Any], defaults: "Preset | None" = None) -> "Preset":
        """Return the preset in a generation_config.json; keys of other tools are ignored.

        Without diffusion settings the file describes an autoregressive model, so its temperature
        and filters are ignored too. In Dream's file, a setting that is null or 0 is unset, and
        steps without a length mean one token per step in one block.
        """
        given = {_ALIASES.get(name, name): value for name, value in config.items()}
        ignored = {k for k in ("order_temperature", "top_p", "top_k") if not given.get(k)}
        ignored |= _NOT_IN_FILES if has_diffusion_settings(config) else _NOT_IN_FILES | _SHARED
        given = {name: value for name, value in given.items() if name in _NAMES - ignored}
        if "steps" in given and "length" not in given:
            size = given["steps"]
            given = {**given, "length": size, "block": given.get("block", size)}
        preset = (defaults or Preset())._changed(given)
        for task in preset.tasks:
            preset.for_task(task)  # raises if a change is invalid
        return preset

    def _changed(self, changes: Mapping[str, Any], where: str = "") -> "Preset":
        """Return the preset with changes; a threshold keeps those of scorers it does not name."""
        for name, value in changes.items():
            if where and name not in _NAMES - _NOT_IN_FILES - {"tasks"}:
                raise _error(f"{where}{name} must be a sampler setting or threshold.")
            fit(f"{where}{name}", setting_fields(Preset)[name].hint, value, error=_error)
        if "threshold" not in changes:
            return replace(self, **changes)
        thresholds = {**_by_scorer(self.threshold), **_by_scorer(changes["threshold"])}
        single = thresholds.keys() == {ROUNDTRIPS}
        threshold = thresholds[ROUNDTRIPS] if single else thresholds
        return replace(self, **{**changes, "threshold": threshold})


_NAMES = {one.name for one in fields(Preset)}


def has_diffusion_settings(config: Mapping[str, Any]) -> bool:
    """Return whether a generation_config.json has settings of diffusion sampling."""
    names = (_NAMES | _ALIASES.keys()) - _SHARED - _NOT_IN_FILES
    return any(config.get(name) is not None for name in names)


def has_chosen_settings(config: Mapping[str, Any]) -> bool:
    """Return whether its diffusion settings were chosen, not filled in by a library."""
    return has_diffusion_settings(config) and not config.get("_from_model_config")


def _error(sentence: str) -> SettingsError:
    return SettingsError(f"generation_config.json: {sentence}")


def _by_scorer(threshold: float | Mapping[str, float]) -> Mapping[str, float]:
    return threshold if isinstance(threshold, Mapping) else {ROUNDTRIPS: threshold}
