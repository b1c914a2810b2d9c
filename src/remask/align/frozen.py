"""Scores by the model as it was before the first update, whatever has been learned since.

A model that scores its own answers while it learns moves the scale that it is paid by. Under LoRA
the model as it was is the policy without its adapters; where all weights learn it is a copy.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from torch import nn

from remask.align.lora import without_adapters
from remask.align.reward import ScorerOfPrompts
from remask.align.settings import AlignSettings
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.values import Sample, Score, Scorer


@dataclass(frozen=True, kw_only=True, eq=False)
class UnadaptedScorer:
    """A scorer that asks a network without its adapters."""

    scorer: Scorer
    network: nn.Module

    @property
    def name(self) -> str:
        """Name in tables and records."""
        return self.scorer.name

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample."""
        with without_adapters(self.network):
            return self.scorer.score(samples)


def scoring_denoiser(
    denoiser: Denoiser, settings: AlignSettings, reference: Denoiser | None = None
) -> Denoiser:
    """Return who is to score: the one that writes completions, or one that does not learn.

    Args:
        denoiser: writes completions.
        settings: of the run.
        reference: the model as it was, where updates look at it too; else a copy is made.
    """
    if settings.scored_by == "live" or settings.tuning == "lora":
        return denoiser
    if reference is not None:
        return reference
    native = cast(NativeDenoiser, denoiser)
    return replace(native, model=copy.deepcopy(native.model).requires_grad_(False))


def at_start(
    scorer: Scorer | ScorerOfPrompts, denoiser: Denoiser, settings: AlignSettings
) -> Scorer | ScorerOfPrompts:
    """Return the scorer, without adapters where these stand for what was learned since."""
    if settings.scored_by == "live" or settings.tuning == "full":
        return scorer
    network = cast(NativeDenoiser, denoiser).model
    if hasattr(scorer, "score"):
        return UnadaptedScorer(scorer=cast(Scorer, scorer), network=network)

    def make(prompts: Mapping[str, str]) -> Scorer:
        return UnadaptedScorer(scorer=scorer(prompts), network=network)

    return make
