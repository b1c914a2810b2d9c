"""Probes on a shape: what they are made of, and the work that they have to do.

A model that sees both ways computes equal prompts anew for every mask. A block-causal one computes
them once in a batch, and so it does the clean copy of an answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from lib.work import Work, flops_of
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.levels import levels_of
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Wrapped
from remask.probes.readings import Reading, read
from remask.probes.settings import Probe
from remask.values import Canvas, Sample
from remask.verifier.columns import LABEL_FREE_PROBES

# What is measured beside round trips: one pass, and those of the label-free verifier.
SETS: Mapping[str, tuple[str, ...]] = {"probe": ("critical",), "verifier": LABEL_FREE_PROBES}
CRITICAL_EVERY = 8  # tokens, one of which counts as critical: random ones have no text
NOTES = (
    "probe: all critical tokens masked at once, one forward. verifier: "
    f"{', '.join(SETS['verifier'])}, 17 forwards. One token of {CRITICAL_EVERY} counts as "
    "critical. A pass of a block-causal model over noisy and clean rows counts as two forwards.",
    "Equal prompts are computed anew for every mask, unless the model is block-causal: then what "
    "rows of a batch have in common is computed, and charged, once.",
    "pass_over_step: seconds of a pass over those of a rebuild step in the row of round trips "
    "above it, for as many answers. A step fills a sixteenth of the row; where the model is "
    "block-causal it is one step in every block.",
)


def num_passes(names: Sequence[str]) -> int:
    """Return the passes of a set of probes over one answer."""
    return sum(Probe.named(name).passes for name in names)


def every_eighth(sample: Sample) -> list[bool]:
    """Say which tokens of a random answer count as critical."""
    return [i % CRITICAL_EVERY == 0 for i in range(sample.num_response)]


def read_set(
    denoiser: Wrapped | NativeDenoiser, samples: Sequence[Sample], names: Sequence[str]
) -> list[dict[str, Reading]]:
    """Return what probes of these names read of random answers."""
    return read(denoiser, samples, [Probe.named(name) for name in names], critical=every_eighth)


@dataclass(frozen=True, eq=False)
class Tallied(Wrapped):
    """Counts what goes through a network."""

    calls: list[tuple[int, int]] = field(default_factory=list)  # positions, and what each sees
    head_rows: list[int] = field(default_factory=list)

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        """Count, then pass on."""
        self.calls.append((canvas.tokens.numel(), canvas.tokens.shape[1]))
        return super().hidden(canvas, cache)

    def hidden_noisy_given_clean(self, canvas: Canvas, clean: Tensor) -> Tensor:
        """Count the rows, what they share once, then pass on."""
        blocks = torch.arange(clean.shape[1], device=clean.device)[None] // self.block_size
        for level in levels_of(canvas.tokens, clean, canvas.attend, blocks).each:
            self.calls.append((level.tokens.numel(), level.seen.shape[-1]))
        return super().hidden_noisy_given_clean(canvas, clean)

    def head(self, rows: Tensor) -> Tensor:
        """Count, then pass on."""
        self.head_rows.append(len(rows))
        return super().head(rows)


def probe_work(denoiser: NativeDenoiser, samples: Sequence[Sample], names: Sequence[str]) -> Work:
    """Return the work of a set of probes, by doing it."""
    tallied = Tallied(denoiser)
    readings = read_set(tallied, samples, names)
    forwards = sum(reading.forwards for by_name in readings for reading in by_name.values())
    flops = sum(flops_of(denoiser.model, seen, num, 0) for num, seen in tallied.calls)
    flops += flops_of(denoiser.model, 0, 0, sum(tallied.head_rows))
    return Work(forwards, sum(num for num, _ in tallied.calls), flops)
