"""An autoregressive model becomes a masked diffusion model.

First it learns the rows from left to right, as its ancestor did; then LLaDA's objective on prompts
with responses, over canvases of random length whose tail is filled with end tokens. Weights, their
average and the optimizer's moments are float32; on CUDA layers compute in bfloat16. Every draw
belongs to a step, so a run that was killed goes on as if it had not been: exactly, in float32 on a
CPU, unless a time budget decides how far it comes.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from remask import rng
from remask.denoisers.devices import DTYPES, choose_device
from remask.denoisers.load import find_folder
from remask.denoisers.native import stacked
from remask.denoisers.save import save
from remask.errors import DenoiserError, InputError, SettingsError
from remask.pretrain.adapt_rows import TokenRows, encode_rows, read_pairs
from remask.pretrain.adapt_settings import AdaptSettings
from remask.pretrain.ancestor import read_ancestor
from remask.pretrain.average import GradientWatch, follow
from remask.pretrain.batches import ORDER_VERSION, BatchPlan, RowBatch
from remask.pretrain.noise import (
    NoisyRows,
    add_noise,
    in_blocks,
    low_discrepancy_ratios,
    next_tokens,
    whole_canvas,
)
from remask.pretrain.successor import Successor
from remask.pretrain.trunk import FlatTrunk, asked_states, head_loss
from remask.records.run_folder import STATE, RunFolder, source_digest

LOG, MODEL = "adapt.jsonl", "model"
_FLOOR = 0.02  # of the learning rate, at the end
_CLIP = 1.0  # of the norm of the gradient
_CAUSAL_SHARE = 1 / 3  # of the minutes, at most
# Settings that may change when a run continues. Digests stand for the first three.
_FREE = (
    "source", "rows", "valid", "out", "device", "stop_after", "checkpoint_every", "log_every",
    "block", "dtype", "shard_megabytes",
)  # fmt: skip


class Adaptation:
    """The state of one adaptation; `run` advances it to the end."""

    def __init__(self, settings: AdaptSettings, say: Callable[[dict[str, Any]], None]) -> None:
        s = self.settings = settings
        self.say, self.device = say, choose_device(s.device)
        ancestor = read_ancestor(s.source, s.template)
        self.successor = Successor(ancestor, s)
        self.tokenizer = self.successor.tokenizer
        self.plan, self.held_out = self._plan(s.rows), None
        if s.valid is not None:
            self.held_out = self._plan((s.valid,))
        self.tight = replace(self.plan, tails=False)  # nothing is learned of a tail causally
        self.causal_epochs = int(not ancestor.is_adapted)
        if s.causal_epochs is not None:
            self.causal_epochs = s.causal_epochs
        self.causal_steps = self.tight.num_batches(self.causal_epochs)
        self.other_steps = self.plan.num_batches(s.epochs, first=self.causal_epochs)
        if not self.other_steps:
            raise InputError(
                f"{len(self.plan.rows):,} rows in {s.epochs} passes fill no batch of {s.tokens:,} "
                "tokens; lower tokens, or raise epochs."
            )
        self.network = self.successor.network
        self.folder, self.identity = folder_of(s.out), self._identity()
        self.begun_at = self.folder.resume(self.identity)
        self.network.to(self.device)
        self.average = self.successor.copy().to(self.device).requires_grad_(False)
        self.optimizer = self._optimizer()
        self.trunk = FlatTrunk(self._compiler())
        self.step, self.spent = 0, 0.0
        self.total, self.num_summed = torch.zeros((), device=self.device), 0  # losses not logged
        self.gradients = GradientWatch(self.device)
        self.best: dict[str, Tensor] | None = None  # the average with the lowest held-out loss
        self.best_loss, self.best_step, self.num_worse = math.inf, 0, 0
        self.validated = -1  # the last step whose held-out loss was taken
        if self.begun_at is not None:
            self._restore(self.begun_at)

    def _plan(self, paths: tuple[Path, ...]) -> BatchPlan:
        s = self.settings
        pairs, room = read_pairs(paths), self.successor.max_length
        lengths = tuple(n for n in s.row_lengths if n <= room)
        if not lengths:
            raise InputError(
                f"source {s.source} holds {room} tokens (max_position_embeddings), and the "
                f"shortest row of tokens {s.tokens:,} has {s.row_lengths[0]}; adapt another model."
            )
        most = lengths[-1]
        rows = encode_rows(pairs, self.tokenizer, canvas=s.canvas, longest=most)
        names = ", ".join(map(str, paths))
        self.say({"rows": len(rows), "dropped": rows.num_dropped, "files": names, "longest": most})
        return BatchPlan(
            rows=rows, lengths=lengths, tokens=s.tokens, canvas=s.canvas,
            least_canvas=s.least_canvas, seed=s.seed,
        )  # fmt: skip

    def _identity(self) -> dict[str, Any]:
        """Return the settings and input digests that decide the outcome."""
        settings = {k: v for k, v in asdict(self.settings).items() if k not in _FREE}
        source = Path(self.settings.source)
        return {
            **settings,
            "source": source_digest(source if source.is_file() else find_folder(str(source))),
            "rows": self.plan.rows.digest(),
            "valid": None if self.held_out is None else self.held_out.rows.digest(),
            "batches": ORDER_VERSION,
        }

    def _optimizer(self) -> torch.optim.AdamW:
        s = self.settings
        named = list(self.network.named_parameters())
        matrices = [p for name, p in named if name.startswith("blocks.") and p.dim() == 2]
        rest = [p for name, p in named if not (name.startswith("blocks.") and p.dim() == 2)]
        groups = [
            {"params": matrices, "weight_decay": s.weight_decay},
            {"params": rest, "weight_decay": 0.0},
        ]
        fused = self.device.type == "cuda"
        return torch.optim.AdamW(groups, s.lr, betas=(0.9, 0.95), fused=fused)

    def _compiler(self) -> Callable[..., Any] | None:
        if self.device.type != "cuda":
            return None
        torch.set_float32_matmul_precision("high")
        return lambda function: torch.compile(function, dynamic=False)

    def _autocast(self) -> Any:
        on = self.device.type == "cuda"
        return torch.autocast("cuda", torch.bfloat16) if on else nullcontext()

    # The loop

    def run(self) -> Path:
        """Train until nothing is left to gain, then write and return the checkpoint folder."""
        s, clock = self.settings, _Clock(self.spent)
        self._begin()
        reason = ""
        if self.validated < 0:
            self._validate()
        for batch in self._batches():
            if reason := self._why_over(clock):
                break
            progress = self.progress(clock)
            loss, norm = self._update(batch, progress)
            self.total += loss
            self.num_summed, clock.steps = self.num_summed + 1, clock.steps + 1
            self.step += 1
            self.gradients.note(norm, self.step)
            if self._is_causal(batch) and self._is_time_up(clock, _CAUSAL_SHARE):
                self.causal_steps = self.step  # what is left of them is left out
            if self.step % s.log_every == 0 or self.step in (self.causal_steps, self.steps):
                self._report(float(norm), batch, progress, clock)
            if self._is_validated_now():
                self._validate()
            if self.step % s.checkpoint_every == 0:
                self._checkpoint(clock)
        if self._is_time_up(clock) and self.validated != self.step:
            self._validate()  # else what the last steps learned would be lost
        self._checkpoint(clock)
        if reason:
            self.say({"step": self.step, "max_steps": self.steps, "stopped": reason})
        return self.export()

    def _begin(self) -> None:
        self.folder.begin(asdict(self.settings), self.begun_at)
        if self.begun_at is not None:
            self.say({"resumed": self.step})

    def _batches(self) -> Iterator[RowBatch]:
        """Yield the batches that are left: passes are counted through, and each drawn anew."""
        first = self.causal_epochs
        for batch in islice(self.tight.batches(first), self.step, None):
            if self.step >= self.causal_steps:  # they may end early, see `run`
                break
            yield batch
        others = self.plan.batches(self.settings.epochs, first=first)
        yield from islice(others, self.step - self.causal_steps, None)

    @property
    def steps(self) -> int:
        """All steps there are to be, where no time is over before."""
        return self.causal_steps + self.other_steps

    def _is_causal(self, batch: RowBatch) -> bool:
        return batch.epoch < self.causal_epochs

    def _is_validated_now(self) -> bool:
        """Say whether a held-out loss is due: of its ancestor's way it says nothing."""
        if self.step < self.causal_steps:
            return False
        due = self.step % self.settings.eval_every == 0
        return due or self.step in (self.causal_steps, self.steps)

    def progress(self, clock: "_Clock") -> float:
        """Return the share of the steps, or of the time, that is over with the next step."""
        of_time = 0.0 if self.settings.minutes is None else clock.spent / self.settings.minutes / 60
        return min(1.0, max((self.step + 1) / self.steps, of_time))

    def _why_over(self, clock: "_Clock") -> str:
        """Return why there is no next step; "" where there is one."""
        s = self.settings
        if self.num_worse >= s.patience:
            return f"no new best in {s.patience} held-out losses"
        if self._is_time_up(clock):
            return f"the {s.minutes:g} minutes are over"
        if s.stop_after is not None and clock.here >= 60 * s.stop_after:
            return f"stopped after {s.stop_after:g} minutes; the same command goes on"
        return ""

    def _is_time_up(self, clock: "_Clock", share: float = 1.0) -> bool:
        minutes = self.settings.minutes
        return minutes is not None and clock.spent >= share * 60 * minutes

    def rate(self, progress: float) -> float:
        """Return the learning-rate multiplier: warmup, then cosine decay."""
        rise = min(1.0, progress / self.settings.warmup) if self.settings.warmup else 1.0
        return rise * (_FLOOR + (1 - _FLOOR) * 0.5 * (1 + math.cos(math.pi * progress)))

    def _update(self, batch: RowBatch, progress: float) -> tuple[Tensor, Tensor]:
        """Make one step; return its loss and the norm of its gradient, both still on the device."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.lr * self.rate(progress)
        causal = self._is_causal(batch)
        rows = self._clean(batch) if causal else self._training(batch)
        loss = self.loss(self.network, rows, batch.length, causal=causal)
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), _CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()
        follow(self.average, self.network, decay=self.settings.ema, step=self.step)
        return loss, norm

    def loss(self, network: Any, rows: NoisyRows, length: int, *, causal: bool = False) -> Tensor:
        """Return the loss of a batch; where gradients are on, they are taken."""
        with self._autocast():
            states = asked_states(self.trunk, network, rows, length, causal=causal)
        return head_loss(network, states, rows, self._autocast)

    def _training(self, batch: RowBatch) -> NoisyRows:
        share = self.settings.block_share
        return self._noisy(self.plan.rows, batch, "noise", self.step, block_share=share)

    def _noisy(
        self, rows: TokenRows, batch: RowBatch, purpose: str, number: int, *, block_share: float
    ) -> NoisyRows:
        generator = torch.Generator().manual_seed(
            rng.key(self.settings.seed, "adapt", purpose, number)
        )
        ids = self._ids(rows, batch)
        start = torch.rand((), generator=generator)
        ratio = low_discrepancy_ratios(len(ids), start, self.settings.min_ratio)
        draws = torch.rand(ids.shape, generator=generator)
        num_prompt = torch.from_numpy(rows.num_prompt[batch.rows])
        noise = whole_canvas(num_prompt, ratio, draws)
        if block_share:
            num_response = torch.from_numpy(rows.num_response[batch.rows])
            chosen = torch.rand(len(ids), generator=generator) < block_share
            blocks = torch.rand((len(ids), 2), generator=generator)
            noise = in_blocks(noise, num_response, chosen, blocks)
        mask_id = self.tokenizer.mask_id
        return add_noise(ids, num_prompt, noise, mask_id=mask_id).to(self.device)

    def _clean(self, batch: RowBatch) -> NoisyRows:
        rows, of = self.plan.rows, batch.rows
        num_prompt, num_response = (
            torch.from_numpy(part[of]) for part in (rows.num_prompt, rows.num_response)
        )
        return next_tokens(self._ids(rows, batch), num_prompt, num_response).to(self.device)

    def _ids(self, rows: TokenRows, batch: RowBatch) -> Tensor:
        """Return the clean rows of a batch, (B, S)."""
        return torch.from_numpy(rows.lay_out(batch.rows, batch.length, self.tokenizer.eos_id))

    # What is held out

    @torch.no_grad()
    def held_out_loss(self) -> float | None:
        """Return the loss of the average on the rows held out; the noise is always the same."""
        if self.held_out is None:
            return None
        total = torch.zeros((), device=self.device)
        for number, (share, batch) in enumerate(self.held_out.held_out()):
            rows = self._noisy(self.held_out.rows, batch, "held out", number, block_share=0.0)
            total += share * self.loss(self.average, rows, batch.length)
        return float(total)

    def _validate(self) -> None:
        self.gradients.check(self.settings.lr)
        loss, self.validated = self.held_out_loss(), self.step
        if loss is None:
            return
        self._check_finite("held-out loss", loss)
        self.num_worse += 1
        if loss < self.best_loss:
            self.best_loss, self.best_step, self.num_worse = loss, self.step, 0
            self.best = {k: v.clone() for k, v in self.average.state_dict().items()}
        self._log({"step": self.step, "max_steps": self.steps, "valid_loss": loss,
                   "best_step": self.best_step})  # fmt: skip

    # What is written

    def _report(self, norm: float, batch: RowBatch, progress: float, clock: "_Clock") -> None:
        self.gradients.check(self.settings.lr)
        loss = float(self.total) / self.num_summed
        self._check_finite("loss", loss)
        name = "causal_loss" if self._is_causal(batch) else "loss"
        row = {
            "step": self.step, "max_steps": self.steps, "epoch": batch.epoch, name: loss,
            "grad_norm": norm, "lr": self.settings.lr * self.rate(progress),
            "tokens_per_s": clock.lap() * self.settings.tokens, "spent_s": clock.spent,
            "left_s": clock.spent * (1 / progress - 1),
        }  # fmt: skip
        if self.device.type == "cuda":
            row["memory_gb"] = torch.cuda.max_memory_allocated(self.device) / 1e9
        self.total.zero_()
        self.num_summed = 0
        self._log(row)

    def _check_finite(self, what: str, value: float) -> None:
        if not math.isfinite(value):
            raise DenoiserError(
                f"The {what} is {value} at step {self.step}. Lower lr ({self.settings.lr})."
            )

    def _log(self, row: dict[str, Any]) -> None:
        self.folder.append(LOG, row)
        self.say(row)

    def _checkpoint(self, clock: "_Clock") -> None:
        self.gradients.check(self.settings.lr)
        self._check_finite("loss", float(self.total))
        self.spent = clock.spent
        state = {
            "step": self.step,
            "causal_steps": self.causal_steps,
            "spent": self.spent,
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "best": self.best,
            "validation": [self.best_loss, self.best_step, self.num_worse, self.validated],
            "losses": [self.total, self.num_summed],
        }
        facts = {"run": self.identity}
        self.folder.save(self.step, lambda part: torch.save(state, part / STATE), facts)

    def _restore(self, folder: Path) -> None:
        state = torch.load(folder / STATE, map_location=self.device, weights_only=True)
        self.step, self.spent, self.best = state["step"], state["spent"], state["best"]
        self.causal_steps = state["causal_steps"]
        self.best_loss, self.best_step, self.num_worse, self.validated = state["validation"]
        self.total, self.num_summed = state["losses"]
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])

    def export(self) -> Path:
        """Write the average, or the best of them, as a checkpoint folder; return the folder."""
        s = self.settings
        if self.best is not None:
            chosen = self.successor.copy().to(self.device)
            chosen.load_state_dict(self.best)
        else:
            chosen = self.average
        facts = {
            "steps": self.best_step if self.best is not None else self.step,
            "rows": len(self.plan.rows),
            "valid_loss": self.best_loss if self.best is not None else None,
        }
        family = self.successor.family
        folder = s.out / MODEL
        self.folder.write(folder, lambda part: save(
            part, self.successor.config(facts), self.successor.preset(), self.tokenizer.backend,
            stacked(chosen, family.tensor_map(chosen)), dtype=DTYPES[s.dtype],
            max_shard_bytes=int(s.shard_megabytes * 10**6),
        ), facts)  # fmt: skip
        largest = max(file.stat().st_size for file in folder.glob("*.safetensors"))
        self.say(
            {"model": str(folder), "of_step": facts["steps"], "largest_mb": round(largest / 1e6, 3)}
        )
        return folder


class _Clock:
    """How long a run has trained: in all, in this call, and since it last spoke."""

    def __init__(self, before: float) -> None:
        self.before, self.start = before, time.monotonic()
        self.last, self.steps = self.start, 0

    @property
    def here(self) -> float:
        return time.monotonic() - self.start

    @property
    def spent(self) -> float:
        return self.before + self.here

    def lap(self) -> float:
        """Return the steps a second of this lap, and begin the next."""
        seconds, self.last = time.monotonic() - self.last, time.monotonic()
        steps, self.steps = self.steps, 0
        return steps / max(seconds, 1e-9)


def folder_of(out: Path) -> RunFolder:
    """Return the folder of an adaptation."""
    return RunFolder(out=out, command="adapt", logs=(LOG,), models=(MODEL,))


def hold(settings: AdaptSettings) -> AbstractContextManager[None]:
    """Lock the folder of a run, from before it is read until the run ends."""
    s = settings
    return folder_of(s.out).hold([Path(s.source), *s.rows, s.valid])


def adapt(settings: AdaptSettings, say: Callable[[dict[str, Any]], None] = print) -> Path:
    """Adapt a model, or continue the run in its folder; return the folder of the model."""
    try:
        with hold(settings):
            return Adaptation(settings, say).run()
    except torch.OutOfMemoryError:
        raise SettingsError(
            f"tokens {settings.tokens:,} do not fit on the device; lower them, for instance to "
            f"{settings.tokens // 2:,}."
        ) from None
