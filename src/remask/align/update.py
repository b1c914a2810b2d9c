"""One optimizer update's gradient, a few rows and one masked copy at a time.

Memory does not grow with the completions of a batch, nor with their masked copies: each copy of a
micro-batch goes through the network and back alone. What the loss divides by is that of the whole
batch, of all processes, so the gradients of the parts add up to that of the whole.

Rows of advantage 0 teach SPG nothing and are left out, as `remask.align.spg` says they may be, and
so are those below the mean where these count for nothing (`negative: zero`). A
penalty holds them to the reference all the same, and so does the regression, whose answers are to
have moved by A / beta: by nothing where a group's rewards are equal. It leaves out groups without
an advantage where nothing can have moved, on the first update after a rollout that is its anchor.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from remask.align.bounds import elbo, elbo_weights, mask_ratios
from remask.align.diffu_grpo import diffu_grpo_loss
from remask.align.lora import without_adapters
from remask.align.masks import Masks, draw_masks, mask_keys
from remask.align.method_settings import (
    GrpoSettings,
    MaskSettings,
    RegressionSettings,
    SpgSettings,
)
from remask.align.policy import Policy, drops, learning, log_probs
from remask.align.regression import regression_loss, regression_weights
from remask.align.settings import AlignSettings
from remask.align.sft import draw_sft_masks, sft_loss
from remask.align.spg import needs_preview, spg_loss, spg_weights
from remask.denoisers.base import Denoiser
from remask.sampling.batches import finished_rows
from remask.sampling.blocks import row_block
from remask.values import Canvas, Sample

SPG_SUMS = ("loss", "elbo_pos", "num_pos", "eubo_neg", "num_neg", "gap", "mask_ratio", "num_rows")
REGRESSION_SUMS = ("loss", "elbo_pos", "moved_pos", "num_pos", "moved_neg", "num_neg")
GRPO_SUMS = ("loss", "kl", "clip_ratio")
SFT_SUMS = ("loss",)
MEANS = {  # that the log shows, and what each is divided by
    "spg": {"elbo_pos": "num_pos", "eubo_neg": "num_neg", "gap": "num_rows",
            "mask_ratio": "num_rows"},
    "regression": {"elbo_pos": "num_pos", "moved_pos": "num_pos", "moved_neg": "num_neg"},
}  # fmt: skip
_NO_REWARD = -1  # in place of the number of a group
Sums = dict[str, float]  # of this process; those of all are added up


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """The completions of this process that one update learns from."""

    samples: Sequence[Sample]
    advantages: Tensor  # (B,) on the CPU
    num_tokens: int  # response tokens of all processes
    num_rows: int  # of all processes
    update: int  # number of the update; masks are keyed by it
    groups: Sequence[int] = ()  # a number that rows of one prompt share; -1: without a reward
    old_logp: Sequence[Tensor] = ()  # of each micro-batch: see `old_log_probs`


class _MicroBatch(NamedTuple):
    """A micro-batch."""

    number: int
    rows: list[int]  # b, of the batch
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
            "spg": self._spg, "diffu_grpo": self._grpo, "regression": self._regression,
            "sft": self._sft,
        }  # fmt: skip
        self.backward = methods[settings.method]

    def _taught(self, batch: Batch, *, moved: bool) -> list[int]:
        """Return the rows that have a gradient; `moved`: the policy is not that of the rollout."""
        rows = range(len(batch.samples))
        if self.settings.method == "regression":
            held = moved or self.settings.uses_reference
            uneven = {batch.groups[i] for i in rows if held or batch.advantages[i] != 0}
            return [i for i in rows if batch.groups[i] in uneven - {_NO_REWARD}]
        if self.settings.method == "sft" or self.settings.uses_reference:
            return list(rows)
        if self.settings.method == "spg" and self.spg.negative == "zero":
            return [i for i in rows if batch.advantages[i] > 0]
        return [i for i in rows if batch.advantages[i] != 0]

    def _micro_batches(self, batch: Batch, *, update: int | None = None) -> Iterator[_MicroBatch]:
        """Yield the micro-batches, rows of similar length together.

        Args:
            batch: of which.
            update: that is to come, under whose masks; None: the batch's own.
        """
        taken = self._taught(batch, moved=update is not None or bool(batch.old_logp))
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
            advantages = batch.advantages[rows].to(device)
            yield _MicroBatch(number, rows, canvas, response, advantages, keys)

    def _draw(self, part: _MicroBatch) -> Masks:
        return draw_masks(part.canvas, part.response, self.masks, part.keys, row_block(self.policy))

    def _spg(self, batch: Batch) -> Sums:
        sums = dict.fromkeys(SPG_SUMS, 0.0)
        for part in self._micro_batches(batch):
            masks = self._draw(part)
            logp = self._preview(part, masks, batch.update)
            about = (masks.counted, part.response, part.advantages, self.spg)
            others: dict[str, Any] = {
                "num_tokens": batch.num_tokens, "start_logp": self._start_logp(part, masks),
                "old_logp": batch.old_logp[part.number] if batch.old_logp else None,
            }  # fmt: skip
            weights = spg_weights(logp, *about, **others)
            logp = self._push(part, masks, weights, batch.update)
            loss, row_bounds = spg_loss(logp, *about, **others)
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
        # Dropout is drawn for all rows at once: some alone would draw other ones.
        if rows.all() or drops(self.policy):
            return self._by_copy(part, masks, update)
        canvas = _only(part.canvas, rows)
        for m in range(len(logp)):
            with learning(self.policy, update, part.number, m, seed=self.settings.seed):
                logp[m, rows] = log_probs(
                    self.policy, canvas, masks.masked[m, rows], masks.counted[m, rows]
                )
        return logp

    def _push(self, part: _MicroBatch, masks: Masks, weights: Tensor, update: int) -> Tensor:
        """Add the gradient of the weighted sum, copy by copy; return what the copies say.

        Args:
            part: the rows.
            masks: their copies.
            weights: (M, b, L) derivatives of the loss by each log-probability.
            update: number of the update, by which dropout is drawn.
        """
        logp = torch.zeros(masks.counted.shape, device=part.response.device)
        for m, weight in enumerate(weights):
            with learning(self.policy, update, part.number, m, seed=self.settings.seed):
                result = log_probs(self.policy, part.canvas, masks.masked[m], masks.counted[m])
                (weight * result).sum().backward()
            logp[m] = result.detach()
        return logp

    @torch.no_grad()
    def _by_copy(self, part: _MicroBatch, masks: Masks, update: int) -> Tensor:
        """Return the log-probabilities of all rows, (M, b, L), with the dropout of an update."""
        logp = torch.zeros(masks.counted.shape, device=part.response.device)
        for m in range(len(logp)):
            with learning(self.policy, update, part.number, m, seed=self.settings.seed):
                logp[m] = log_probs(self.policy, part.canvas, masks.masked[m], masks.counted[m])
        return logp

    def _start_logp(self, part: _MicroBatch, masks: Masks) -> Tensor | None:
        """Return what the model before the first update says, (M, b, L), where it matters."""
        if not self.settings.uses_reference:
            return None
        seen = zip(masks.masked, masks.counted, strict=True)
        return torch.stack([self._reference_logp(part.canvas, *one) for one in seen])

    def _regression(self, batch: Batch) -> Sums:
        settings = self.settings.part(RegressionSettings)
        moved = torch.zeros(len(batch.samples), dtype=torch.float64)
        parts = list(self._micro_batches(batch))
        for part in parts:
            moved[part.rows] = self._moved(part, batch)
        rows = sorted(row for part in parts for row in part.rows)
        lengths = torch.tensor([sample.num_response for sample in batch.samples])
        groups, advantages = torch.tensor(batch.groups)[rows], batch.advantages[rows].double()
        about = (moved[rows], lengths[rows], advantages, groups, settings)
        slopes = torch.zeros(len(batch.samples))
        slopes[rows] = regression_weights(*about, num_tokens=batch.num_tokens).float()
        sums = dict.fromkeys(REGRESSION_SUMS, 0.0)
        for part in parts:
            masks = self._draw(part)
            slope = slopes[part.rows].to(part.response.device)
            weights = slope[:, None] * elbo_weights(masks.counted)
            logp = self._push(part, masks, weights, batch.update)
            raised = part.advantages > 0
            _add(sums, {"elbo_pos": elbo(logp, masks.counted)[raised].sum()})
        raised, lowered = batch.advantages > 0, batch.advantages < 0
        _add(sums, {
            "loss": regression_loss(*about, num_tokens=batch.num_tokens),
            "moved_pos": moved[raised].sum(), "num_pos": raised.sum(),
            "moved_neg": moved[lowered].sum(), "num_neg": lowered.sum(),
        })  # fmt: skip
        return sums

    @torch.no_grad()
    def _moved(self, part: _MicroBatch, batch: Batch) -> Tensor:
        """Return how far the bound of each row is from the anchor's, (b,), on the CPU."""
        masks = self._draw(part)
        anchor = self._start_logp(part, masks)
        if anchor is None and not batch.old_logp:  # the rollout's model is this one
            return torch.zeros(len(part.rows), dtype=torch.float64)
        before = batch.old_logp[part.number] if anchor is None else anchor
        now = self._by_copy(part, masks, batch.update)
        return (elbo(now, masks.counted) - elbo(before, masks.counted)).cpu().double()

    def _grpo(self, batch: Batch) -> Sums:
        sums, grpo = dict.fromkeys(GRPO_SUMS, 0.0), self.settings.part(GrpoSettings)
        for part in self._micro_batches(batch):
            masks = self._draw(part)
            seen = (part.canvas, masks.masked[0], part.response)
            with learning(self.policy, batch.update, part.number, seed=self.settings.seed):
                logp = log_probs(self.policy, *seen)
                old = batch.old_logp[part.number] if batch.old_logp else logp.detach()
                reference = self._reference_logp(*seen) if grpo.kl_weight > 0 else None
                result = diffu_grpo_loss(
                    logp, old, reference, part.response, part.advantages, grpo,
                    num_tokens=batch.num_tokens,
                )  # fmt: skip
                result.loss.backward()  # type: ignore[no-untyped-call]
            _add(sums, {"loss": result.loss, "kl": result.kl, "clip_ratio": result.clip_ratio})
        return sums

    @torch.no_grad()
    def _reference_logp(self, canvas: Canvas, masked: Tensor, selected: Tensor) -> Tensor:
        plain = without_adapters(self.policy.model) if self.reference is None else nullcontext()
        with plain:
            return log_probs(self.reference or self.policy, canvas, masked, selected)

    @torch.no_grad()
    def old_log_probs(self, batch: Batch, update: int) -> list[Tensor]:
        """Return what the policy says now, under the masks of a later update, by micro-batch.

        Of diffu-GRPO (b, L) of the response, of the others (M, b, L) of what is counted.
        """
        result = []
        for part in self._micro_batches(batch, update=update):
            masks = self._draw(part)
            if self.settings.method != "diffu_grpo":
                result.append(self._by_copy(part, masks, update))
                continue
            with learning(self.policy, update, part.number, seed=self.settings.seed):
                result.append(log_probs(self.policy, part.canvas, masks.masked[0], part.response))
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
    for name, num in MEANS.get(method, {}).items():
        if sums[num]:
            out[f"{method}/{name}"] = sums[name] / sums[num]
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
