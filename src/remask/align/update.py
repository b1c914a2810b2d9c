"""Computes the gradient of one optimizer update, one micro-batch and one masked copy at a time.

Memory grows neither with the size of the batch nor with the number of masked copies. Losses are
divided by the number of tokens (or rows) of the whole batch over all processes, so the gradients
of the parts add up to the gradient of the batch.

Rows without a gradient are left out: rows with advantage 0 and, with `negative: zero`, rows with
negative advantage. The KL penalty of diffu-GRPO and `sft` learn from every row.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from remask.align.bounds import mask_ratios
from remask.align.diffu_grpo import diffu_grpo_loss
from remask.align.lora import without_adapters
from remask.align.masks import Masks, draw_masks, mask_keys
from remask.align.method_settings import GrpoSettings, MaskSettings, SpgSettings
from remask.align.policy import Policy, drops, learning, log_probs
from remask.align.settings import AlignSettings
from remask.align.sft import draw_sft_masks, sft_loss
from remask.align.spg import needs_preview, spg_loss, spg_weights
from remask.denoisers.base import Denoiser
from remask.sampling.batches import finished_rows
from remask.sampling.blocks import row_block
from remask.values import Canvas, Sample

MEANS = {  # logged means of SPG, and the sum that each is divided by
    "elbo_pos": "num_pos",
    "eubo_neg": "num_neg",
    "gap": "num_rows",
    "mask_ratio": "num_rows",
}
Sums = dict[str, float]  # of this process; `shown` takes the sums over all processes
_NAMES = {
    "spg": ("loss", *MEANS, "num_pos", "num_neg", "num_rows"),
    "diffu_grpo": ("loss", "kl", "clip_ratio"),
    "sft": ("loss",),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """The completions of this process that one update learns from."""

    samples: Sequence[Sample]
    advantages: Tensor  # (B,) on the CPU
    num_tokens: int  # response tokens of all processes
    num_rows: int  # of all processes
    update: int  # number of the update, the key of its masks
    old_logp: Sequence[Tensor] = ()  # one for each micro-batch, from `old_log_probs`


class _MicroBatch(NamedTuple):
    number: int
    rows: list[int]  # b, indices in the batch
    canvas: Canvas
    response: Tensor  # (b, L) bool
    advantages: Tensor  # (b,)
    keys: Tensor  # (b,)
    is_padding: bool = False  # one row with weight 0


class Updater:
    """Adds the gradient of a batch to the parameters' gradients."""

    def __init__(
        self,
        policy: Policy,
        settings: AlignSettings,
        masks: MaskSettings,
        reference: Denoiser | None = None,
        largest: Callable[[int], int] | None = None,
    ) -> None:
        """Prepare updates of a policy.

        Args:
            policy: the model that learns.
            settings: of the run.
            masks: how completions are masked.
            reference: the initial model; None: the policy without its adapters.
            largest: returns the largest number of any rank, for a sharded policy, whose ranks must
                make the same passes.
        """
        self.policy, self.settings, self.masks = policy, settings, masks
        self.reference, self.spg = reference, settings.part(SpgSettings)
        self.grpo, self.largest = settings.part(GrpoSettings), largest

    def backward(self, batch: Batch) -> Sums:
        """Add the gradient of a batch and return sums for the log."""
        methods: dict[str, Callable[[Batch, _MicroBatch], dict[str, Tensor]]] = {
            "spg": self._spg,
            "diffu_grpo": self._grpo,
            "sft": self._sft,
        }
        sums = dict.fromkeys(_NAMES[self.settings.method], 0.0)
        for part in self._micro_batches(batch, batch.update):
            for name, value in methods[self.settings.method](batch, part).items():
                sums[name] += float(value.detach())
        return sums

    def _learning_rows(self, batch: Batch) -> list[int]:
        """Return the rows that have a gradient."""
        rows = range(len(batch.samples))
        if self.settings.method == "sft" or self.settings.uses_reference:
            return list(rows)
        if self.settings.method == "spg" and self.spg.negative == "zero":
            return [i for i in rows if batch.advantages[i] > 0]
        return [i for i in rows if batch.advantages[i] != 0]

    def _micro_batches(self, batch: Batch, update: int) -> Iterator[_MicroBatch]:
        """Yield the micro-batches, longest rows first, with the mask keys of an update."""
        chosen = self._learning_rows(batch)
        chosen.sort(key=lambda i: -len(batch.samples[i].prompt) - len(batch.samples[i].canvas))
        size, device, seed = self.settings.micro_batch, self.policy.device, self.settings.seed
        parts = [chosen[start : start + size] for start in range(0, len(chosen), size)]
        num_own = len(parts)
        if self.largest is not None:
            parts += [[0]] * (self.largest(num_own) - num_own)
        for number, rows in enumerate(parts):
            samples = [batch.samples[i] for i in rows]
            canvas, response = finished_rows(self.policy, samples)
            keys = mask_keys(samples, update=update, seed=seed, device=device)
            advantages = batch.advantages[rows].to(device) * (number < num_own)  # padding: 0
            yield _MicroBatch(number, rows, canvas, response, advantages, keys, number >= num_own)

    def _draw(self, part: _MicroBatch) -> Masks:
        return draw_masks(part.canvas, part.response, self.masks, part.keys, row_block(self.policy))

    def _spg(self, batch: Batch, part: _MicroBatch) -> dict[str, Tensor]:
        masks = self._draw(part)
        arguments = (masks.counted, part.response, part.advantages, self.spg)
        preview = self._preview(part, masks, batch.update)
        weights = spg_weights(preview, *arguments, num_tokens=batch.num_tokens)
        logp = torch.zeros_like(preview)
        for m, weight in enumerate(weights):
            with learning(self.policy, batch.update, part.number, m, seed=self.settings.seed):
                result = log_probs(self.policy, part.canvas, masks.masked[m], masks.counted[m])
                (weight * result).sum().backward()
            logp[m] = result.detach()
        if part.is_padding:
            return {}
        loss, row_bounds = spg_loss(logp, *arguments, num_tokens=batch.num_tokens)
        raised, lowered = part.advantages > 0, part.advantages < 0
        return {
            "loss": loss,
            "elbo_pos": row_bounds.elbo[raised].sum(),
            "num_pos": raised.sum(),
            "eubo_neg": row_bounds.eubo[lowered].sum(),
            "num_neg": lowered.sum(),
            "gap": (row_bounds.eubo - row_bounds.elbo).sum(),
            "mask_ratio": mask_ratios(masks.counted, part.response).mean(0).sum(),
            "num_rows": torch.tensor(len(raised)),
        }

    @torch.no_grad()
    def _preview(self, part: _MicroBatch, masks: Masks, update: int) -> Tensor:
        """Return the log-probabilities that the weights depend on, (M, b, L); 0 for other rows."""
        logp = torch.zeros(masks.counted.shape, device=part.response.device)
        rows = needs_preview(part.advantages, self.spg)
        if self.largest is not None and self.spg.uses_upper:  # the same passes on all ranks
            rows = torch.ones_like(rows)
        if not rows.any():
            return logp
        if drops(self.policy):  # dropout must be drawn for the rows of the learning pass
            rows = torch.ones_like(rows)
        canvas = part.canvas if rows.all() else _select(part.canvas, rows)
        for m in range(len(logp)):
            with learning(self.policy, update, part.number, m, seed=self.settings.seed):
                logp[m, rows] = log_probs(
                    self.policy, canvas, masks.masked[m, rows], masks.counted[m, rows]
                )
        return logp

    def _grpo(self, batch: Batch, part: _MicroBatch) -> dict[str, Tensor]:
        hidden = (part.canvas, self._draw(part).masked[0], part.response)
        with learning(self.policy, batch.update, part.number, seed=self.settings.seed):
            logp = log_probs(self.policy, *hidden)
            result = diffu_grpo_loss(
                logp,
                batch.old_logp[part.number] if batch.old_logp else logp.detach(),
                self._reference_logp(*hidden) if self.settings.uses_reference else None,
                part.response,
                part.advantages,
                self.grpo,
                num_tokens=batch.num_tokens,
            )
            result.loss.backward()  # type: ignore[no-untyped-call]
        return result._asdict()

    @torch.no_grad()
    def _reference_logp(self, canvas: Canvas, masked: Tensor, selected: Tensor) -> Tensor:
        plain = without_adapters(self.policy.model) if self.reference is None else nullcontext()
        with plain:
            return log_probs(self.reference or self.policy, canvas, masked, selected)

    @torch.no_grad()
    def old_log_probs(self, batch: Batch, update: int) -> list[Tensor]:
        """Return log p of the responses under the masks of a later update, one (b, L) per part."""
        result = []
        for part in self._micro_batches(batch, update):
            with learning(self.policy, update, part.number, seed=self.settings.seed):
                masked = self._draw(part).masked[0]
                result.append(log_probs(self.policy, part.canvas, masked, part.response))
        return result

    def _sft(self, batch: Batch, part: _MicroBatch) -> dict[str, Tensor]:
        masks = draw_sft_masks(part.canvas, part.keys)
        selected = masks.masked
        if not selected.any():  # every pass needs a backward pass, on all ranks
            selected = part.canvas.canvas
        with learning(self.policy, batch.update, part.number, seed=self.settings.seed):
            logp = log_probs(self.policy, part.canvas, masks.masked, selected)
            loss = sft_loss(logp, part.canvas, masks, num_rows=batch.num_rows)
            loss.backward()  # type: ignore[no-untyped-call]
        return {"loss": loss}


def make_optimizer(parameters: list[nn.Parameter], s: AlignSettings) -> torch.optim.Optimizer:
    """Return AdamW over the parameters that learn."""
    return torch.optim.AdamW(
        parameters,
        s.learning_rate,
        betas=(s.beta1, s.beta2),
        weight_decay=s.weight_decay,
        fused=parameters[0].is_cuda,
    )


def shown(sums: Sums, method: str) -> dict[str, float]:
    """Return the values for the log from the sums over all processes."""
    if method != "spg":
        return dict(sums)
    means = {n: sums[n] / sums[num] for n, num in MEANS.items() if sums[num]}
    return {"loss": sums["loss"], **{f"spg/{name}": value for name, value in means.items()}}


def _select(canvas: Canvas, rows: Tensor) -> Canvas:
    return replace(
        canvas,
        tokens=canvas.tokens[rows],
        canvas=canvas.canvas[rows],
        attend=None if canvas.attend is None else canvas.attend[rows],
        places=None if canvas.places is None else canvas.places[rows],
    )
