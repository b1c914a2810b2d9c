"""How a model likes to be sampled, as its generation_config.json says. No torch here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from remask.denoisers import resampling
from remask.errors import SettingsError
from remask.values import ROUNDTRIPS

_ALIASES = {"alg": "order", "alg_temp": "order_temperature"}  # what Dream's file calls them
# Keys that only diffusion has, and those of the score. Those of `_SHARED` are also how an
# autoregressive ancestor was sampled, and speak of diffusion in their company alone.
_DIFFUSION = (
    "length", "steps", "block", "sub_block", "order", "order_temperature", "alg", "alg_temp",
    "ends_last", "reveal_threshold", "commit_gap", "edit_threshold", "post_steps", "suppress_eos",
    "threshold", "tasks", "resample_temperature",
)  # fmt: skip
_SHARED = ("temperature", "top_p", "top_k")


@dataclass(frozen=True, kw_only=True)
class Preset:
    """How a model likes to be sampled, from its generation_config.json."""

    length: int = 128  # canvas, in tokens
    steps: int = 128
    block: int = 128  # the canvas is written block by block; equal to the length: all at once
    sub_block: int | None = None  # a block is written in sub-blocks of so many (Fast-dLLM v2)
    temperature: float = 0.0
    # Of samples 1 and up where the temperature is 0, which would only copy sample 0.
    resample_temperature: float = resampling.USUAL.temperature
    # Of the score, by scorer; a number is that of the round trips, the default the paper's. That of
    # the sampler is reveal_threshold.
    threshold: float | Mapping[str, float] = 0.75
    # Which tokens may be drawn and which places are revealed: see `sampling.settings.Rule`.
    order: str = "low_confidence"
    order_temperature: float = 0.0
    ends_last: bool = False
    reveal_threshold: float | None = None
    commit_gap: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    edit_threshold: float | None = None  # LLaDA2.1: see `sampling.settings.EditSettings`
    post_steps: int = 16
    suppress_eos: bool = False
    # How the model's authors round, see `sampling.schedule`: known by its family, in no file.
    schedule: str = "even"
    # Asked for by name: it then decides on the canvas of tasks too. Equal presets sample alike.
    named: bool = field(default=False, compare=False)
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # departures by task

    def for_task(self, task: str) -> "Preset":
        """Return the preset with the departures for `task` applied."""
        changes: Any = self.tasks.get(task, {})
        adjustable = Preset.__dataclass_fields__.keys() - {"tasks", "schedule", "named"}
        if not isinstance(changes, Mapping) or not set(changes) <= adjustable:
            raise SettingsError(
                f"tasks.{task} in generation_config.json is {changes!r}; "
                f"it may set {', '.join(sorted(adjustable))}."
            )
        return self._changed(changes)

    @property
    def cuts_top_k_first(self) -> bool:
        """Whether `top_k` cuts before `top_p`: in the loops of SDAR and LLaDA2, not in Dream's."""
        return self.schedule == "shares"

    def thresholds(self, kind: str = "number") -> Mapping[str, float]:
        """Return the thresholds for one kind of answer, by scorer; the paper's if it has none.

        Those at the top level of generation_config.json are for the kind `number`.
        """
        usual = self.threshold if kind == "number" else Preset.threshold
        return _by_scorer(self.tasks.get(kind, {}).get("threshold", usual))

    def _changed(self, changes: Mapping[str, Any]) -> "Preset":
        """Return the preset with changes; a threshold leaves those of other scorers alone."""
        if "threshold" not in changes:
            return replace(self, **changes)
        given = _by_scorer(changes["threshold"])
        if not all(map(_is_finite, given.values())):
            raise SettingsError(
                f"threshold in generation_config.json is {changes['threshold']!r}; give a number, "
                "or an object with one for each scorer."
            )
        limits: Any = {**_by_scorer(self.threshold), **given}
        if limits.keys() == {ROUNDTRIPS}:
            limits = limits[ROUNDTRIPS]
        return replace(self, **{**changes, "threshold": limits})

    def in_blocks(self, size: int) -> "Preset":
        """Return the preset of a model with blocks of its own: whole ones, each with its steps."""
        num = -(-self.length // size)
        return replace(self, block=size, length=num * size, steps=-(-self.steps // num) * num)

    @staticmethod
    def read(config: Mapping[str, Any], usual: "Preset | None" = None) -> "Preset":
        """Return the preset in a generation_config.json; keys of other tools are left alone.

        What the file does not say is as in `usual`. A file that says nothing of diffusion is
        an autoregressive ancestor's, and so are its temperature and its filters.

        Dream's own file is such a preset too: `alg` and `alg_temp` are its words for the order, an
        option that is null or 0 is one not set, and steps without a length mean a token a step, in
        one block.
        """
        given = {_ALIASES.get(k, k): v for k, v in config.items()}
        unset = {k for k in ("order_temperature", "top_p", "top_k") if not given.get(k)}
        unset |= {"schedule", "named"} if speaks(config) else {"schedule", "named", *_SHARED}
        given = {k: v for k, v in given.items() if k in Preset.__dataclass_fields__.keys() - unset}
        if "steps" in given and "length" not in given:
            given = {"block": given["steps"], **given, "length": given["steps"]}
        preset = (usual or Preset())._changed(given)
        if not isinstance(preset.tasks, Mapping):
            raise SettingsError(
                f"tasks in generation_config.json is {preset.tasks!r}; give an object by task."
            )
        for name in preset.tasks:
            preset.for_task(name)._check()
        return preset._check()

    def _check(self) -> "Preset":
        self._require(_is_count, "a whole number above 0", "steps", "length", "block", "top_k")
        self._require(_is_count, "a whole number above 0", "sub_block")
        self._require(_is_number, "a number", "temperature", "order_temperature")
        self._require(_is_positive, "a number above 0", "resample_temperature")
        self._require(_is_number, "a number", "top_p", "reveal_threshold", "edit_threshold")
        self._require(_is_positive, "a number above 0", "commit_gap")
        self._require(lambda v: v == 0 or _is_count(v), "a whole number from 0 up", "post_steps")
        self._require(
            lambda value: isinstance(value, bool), "true or false", "ends_last", "suppress_eos"
        )
        self._require(lambda value: isinstance(value, str), "the name of an order", "order")
        return self

    def _require(self, fits: Callable[[Any], bool], what: str, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            unset = value is None and Preset.__dataclass_fields__[name].default is None
            if not unset and not fits(value):
                raise SettingsError(f"{name} in generation_config.json is {value!r}; give {what}.")


def speaks(config: Mapping[str, Any]) -> bool:
    """Return whether a generation_config.json says anything of diffusion sampling."""
    return any(config.get(key) is not None for key in _DIFFUSION)


def chosen(config: Mapping[str, Any]) -> bool:
    """Return whether what it says was chosen: not what a library filled in from its defaults."""
    return speaks(config) and not config.get("_from_model_config")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _is_finite(value: Any) -> bool:
    return _is_number(value) and abs(value) < float("inf")


def _by_scorer(threshold: Any) -> Mapping[str, Any]:
    """Return a threshold of the score as an object by scorer."""
    return threshold if isinstance(threshold, Mapping) else {ROUNDTRIPS: threshold}


def _is_positive(value: Any) -> bool:
    return _is_number(value) and 0 < value < float("inf")
