"""The contract between models and everything else.

A denoiser maps tokens, some of them the mask token, to logits. Logits are *position-aligned*: row i
predicts token i, whatever the network does inside (Dream predicts i + 1: the shift ends in its
adapter). Trunk and head are apart because the vocabulary times all positions is the largest tensor
of the whole computation and most of it would be thrown away: callers project only the rows they
still need.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from remask.denoisers.tokenizer import Tokenizer
from remask.errors import SettingsError
from remask.values import Canvas

_ADJUSTABLE = {"length", "steps", "block", "temperature", "threshold"}


@dataclass(frozen=True, kw_only=True)
class Preset:
    """How a model likes to be sampled, from its generation_config.json."""

    length: int = 128  # canvas, in tokens
    steps: int = 128
    block: int = 128  # the canvas is written block by block; equal to the length: all at once
    temperature: float = 0.0
    threshold: float = 0.75
    tasks: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # departures by task

    def for_task(self, task: str) -> "Preset":
        """Return the preset with the departures for `task` applied."""
        changes: Any = self.tasks.get(task, {})
        if not isinstance(changes, Mapping) or not set(changes) <= _ADJUSTABLE:
            raise SettingsError(
                f"tasks.{task} in generation_config.json is {changes!r}; "
                f"it may set {', '.join(sorted(_ADJUSTABLE))}."
            )
        return replace(self, **changes)

    @staticmethod
    def read(config: Mapping[str, Any]) -> "Preset":
        """Return the preset in a generation_config.json; keys of other tools are left alone."""
        preset = Preset(**{k: v for k, v in config.items() if k in Preset.__dataclass_fields__})
        if not isinstance(preset.tasks, Mapping):
            raise SettingsError(
                f"tasks in generation_config.json is {preset.tasks!r}; give an object by task."
            )
        for name in preset.tasks:
            preset.for_task(name)._check()
        return preset._check()

    def _check(self) -> "Preset":
        for name in ("length", "steps", "block"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise SettingsError(
                    f"{name} in generation_config.json is {value!r}; give a whole number above 0."
                )
        for name in ("temperature", "threshold"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
                raise SettingsError(
                    f"{name} in generation_config.json is {value!r}; give a number."
                )
        return self


class Denoiser(Protocol):
    """A masked diffusion language model."""

    @property
    def name(self) -> str:
        """The name, folder or hub id it was loaded from."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """Text to ids and back, with the special ids and the chat template."""
        ...

    @property
    def preset(self) -> Preset:
        """How it likes to be sampled."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        ...

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""
        ...

    @property
    def max_length(self) -> int:
        """Longest prompt + canvas, in tokens."""
        ...

    @property
    def forwards_per_call(self) -> int:
        """Forward passes that one call of `hidden` costs per row (2 under guidance)."""
        ...

    def hidden(self, canvas: Canvas) -> Tensor:
        """Return what the head needs to predict every position, (B, L, H)."""
        ...

    def head(self, rows: Tensor) -> Tensor:
        """Return float32 logits (M, V) of rows (M, H) gathered from `hidden`."""
        ...

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the input embeddings of `tokens`, (..., E) float32."""
        ...
