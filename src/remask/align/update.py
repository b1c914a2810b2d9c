"""One optimizer update's gradient, a few rows and one masked copy at a time.

Memory does not grow with the completions of a batch, nor with their masked copies: each copy of a
micro-batch goes through the network and back alone. What the loss divides by is that of the whole
batch, of all processes, so the gradients of the parts add up to that of the whole.

Rows of advantage 0 teach SPG nothing and are left out, as `remask.align.spg` says they may be. d1's
penalty holds them to the reference all the same.
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

SPG_SUMS = ("loss", "elbo_pos", "num_pos", "eubo_neg", "num_neg", "gap", "mask_ratio", "num_rows")
GRPO_SUMS = ("loss", "kl", "clip_ratio")
SFT_SUMS = ("loss",)
Sums = dict[str, float]  # of this process; those of all are added up


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """The completions of this process that one update learns from."""

    samples: Sequence[Sample]
    advantages: Tensor  # (B,) on the CPU
    num_tokens: int  # response tokens of all processes
    num_rows: int  # of all processes
    update: int  # number of the update; masks are keyed by it
    old_logp: Sequence[Tensor] = ()  # of each micro-batch, (b, L): see `old_log_probs`


class _MicroBatch(NamedTuple):
    """A micro-batch."""

    number: int
    canvas: Canvas
    response: Tensor  # (b, L) bool
    advantages: Tensor  # (b,)
    keys: Tensor  # (b,)


class Updater:
    """Adds the gradient of a batch to the parameters; what it returns is for the log."""

    def __init__(
        self,
        policy: Policy,
        settings: AlignSettings,
        masks: MaskSettings,
        reference: Denoiser | None = None,
    ) -> None:
        self.policy, self.settings, self.masks = policy, settings, masks
        self.reference, self.spg = reference, settings.part(SpgSettings)
        methods: dict[str, Callable[[Batch], Sums]] = {
            "spg": self._spg, "diffu_grpo": self._grpo, "sft": self._sft,
        }  # fmt: skip
        self.backward = methods[settings.method]

    @property
    def _needs_all(self) -> bool:
        """Whether rows of advantage 0 have a gradient too."""
        s = self.settings
        return s.method == "sft" or (s.method == "diffu_grpo" and s.kl_weight > 0)

    def _micro_batches(self, batch: Batch, *, update: int | None = None) -> Iterator[_MicroBatch]:
        """Yield the micro-batches, rows of similar length together."""
        taken = list(range(len(batch.samples)))
        if not self._needs_all:
            taken = [i for i in taken if batch.advantages[i] != 0]
        taken.sort(key=lambda i: -len(batch.samples[i].prompt) - len(batch.samples[i].canvas))
        size, device = self.settings.micro_batch, self.policy.device
        for number, start in enumerate(range(0, len(taken), size)):
            rows = taken[start : start + size]
            samples = [batch.samples[i] for i in rows]
            canvas, response = finished_rows(self.policy, samples)
            keys = mask_keys(
                samples, update=batch.update if update is None else update,
                seed=self.settings.seed, device=device,
            )  # fmt: skip
            yield _MicroBatch(number, canvas, response, batch.advantages[rows].to(device), keys)

    def _draw(self, part: _MicroBatch) -> Masks:
        return draw_masks(part.canvas, part.response, self.masks, part.keys, row_block(self.policy))

    def _spg(self, batch: Batch) -> Sums:
        sums = dict.fromkeys(SPG_SUMS, 0.0)
        for part in self._micro_batches(batch):
            masks = self._draw(part)
            logp = self._preview(part, masks, batch.update)
            about = (masks.counted, part.response, part.advantages, self.spg)
            weights = spg_weights(logp, *about, num_tokens=batch.num_tokens)
            for m, weight in enumerate(weights):
                with learning(self.policy, batch.update, part.number, m, seed=self.settings.seed):
                    result = log_probs(self.policy, part.canvas, masks.masked[m], masks.counted[m])
                    (weight * result).sum().backward()
                logp[m] = result.detach()
            loss, row_bounds = spg_loss(logp, *about, num_tokens=batch.num_tokens)
            raised, lowered = part.advantages > 0, part.advantages < 0
            ratios = mask_ratios(masks.counted, part.response)
            _add(sums, {
                "loss": loss,
                "elbo_pos": row_bounds.elbo[raised].sum(), "num_pos": raised.sum(),
                "eubo_neg": row_bounds.eubo[lowered].sum(), "num_neg": lowered.sum(),
                "gap": (row_bounds.eubo - row_bounds.elbo).sum(),
                "mask_ratio": ratios.mean(0).sum(), "num_rows": torch.tensor(len(raised)),
            })  # fmt: skip
        return sums

    @torch.no_grad()
    def _preview(self, part: _MicroBatch, masks: Masks, update: int) -> Tensor:
        """Return the log-probabilities that weights depend on, (M, b, L); 0 of other rows."""
        logp = torch.zeros(masks.counted.shape, device=part.response.device)
        rows = needs_preview(part.advantages, self.spg)
        if not rows.any():
            return logp
        if drops(self.policy):  # drawn for all rows at once: some alone would draw other ones
            rows = torch.ones_like(rows)
        canvas = _only(part.canvas, rows)
        for m in range(len(logp)):
            with learning(self.policy, update, part.number, m, seed=self.settings.seed):
                logp[m, rows] = log_probs(
                    self.policy, canvas, masks.masked[m, rows], masks.counted[m, rows]
                )
        return logp

    def _grpo(self, batch: Batch) -> Sums:
        sums, grpo = dict.fromkeys(GRPO_SUMS, 0.0), self.settings.part(GrpoSettings)
        for part in self._micro_batches(batch):
            masks = self._draw(part)
            seen = (part.canvas, masks.masked[0], part.response)
            with learning(self.policy, batch.update, part.number, seed=self.settings.seed):
                logp = log_probs(self.policy, *seen)
                old = batch.old_logp[part.number] if batch.old_logp else logp.detach()
                result = diffu_grpo_loss(
                    logp, old, self._reference_logp(*seen), part.response, part.advantages, grpo,
                    num_tokens=batch.num_tokens,
                )  # fmt: skip
                result.loss.backward()  # type: ignore[no-untyped-call]
            _add(sums, {"loss": result.loss, "kl": result.kl, "clip_ratio": result.clip_ratio})
        return sums

    @torch.no_grad()
    def _reference_logp(self, canvas: Canvas, masked: Tensor, selected: Tensor) -> Tensor | None:
        if self.settings.kl_weight == 0:
            return None
        plain = without_adapters(self.policy.model) if self.reference is None else nullcontext()
        with plain:
            return log_probs(self.reference or self.policy, canvas, masked, selected)

    @torch.no_grad()
    def old_log_probs(self, batch: Batch, update: int) -> list[Tensor]:
        """Return what the policy says now, under the masks of a later update, by micro-batch."""
        result = []
        for part in self._micro_batches(batch, update=update):
            masked = self._draw(part).masked[0]
            with learning(self.policy, update, part.number, seed=self.settings.seed):
                result.append(log_probs(self.policy, part.canvas, masked, part.response))
        return result

    def _sft(self, batch: Batch) -> Sums:
        sums = dict.fromkeys(SFT_SUMS, 0.0)
        for part in self._micro_batches(batch):
            masks = draw_sft_masks(part.canvas, part.keys)
            with learning(self.policy, batch.update, part.number, seed=self.settings.seed):
                logp = log_probs(self.policy, part.canvas, masks.masked, masks.masked)
                loss = sft_loss(logp, part.canvas, masks, num_rows=batch.num_rows)
                if loss.requires_grad:  # in a small batch it may happen that nothing is masked
                    loss.backward()  # type: ignore[no-untyped-call]
            _add(sums, {"loss": loss})
        return sums


def make_optimizer(parameters: list[nn.Parameter], s: AlignSettings) -> torch.optim.Optimizer:
    """Return AdamW over the parameters that learn."""
    return torch.optim.AdamW(
        parameters, s.learning_rate, betas=(s.beta1, s.beta2), weight_decay=s.weight_decay,
        fused=parameters[0].is_cuda,
    )  # fmt: skip


def shown(sums: Sums, method: str) -> dict[str, float]:
    """Return what the log shows of the sums over all processes."""
    out = {"loss": sums["loss"]}
    if method == "diffu_grpo":
        out |= {"kl": sums["kl"], "clip_ratio": sums["clip_ratio"]}
    if method == "spg":
        for name, num in (("elbo_pos", "num_pos"), ("eubo_neg", "num_neg"), ("gap", "num_rows"),
                          ("mask_ratio", "num_rows")):  # fmt: skip
            if sums[num]:
                out[f"spg/{name}"] = sums[name] / sums[num]
    return out


def _add(sums: Sums, more: dict[str, Tensor]) -> None:
    for name, value in more.items():
        sums[name] += float(value.detach())


def _only(canvas: Canvas, rows: Tensor) -> Canvas:
    """Return some rows of a batch."""
    attend = None if canvas.attend is None else canvas.attend[rows]
    places = None if canvas.places is None else canvas.places[rows]
    return replace(
        canvas, tokens=canvas.tokens[rows], canvas=canvas.canvas[rows], attend=attend,
        places=places,
    )  # fmt: skip
