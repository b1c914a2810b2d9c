"""Masked-diffusion pre-training of the embedded model on generated problems.

LLaDA's fine-tuning objective: mask each canvas token with probability t, predict the masked ones,
weigh by 1/t. Muon turns the matrices, AdamW the rest; an exponential average of the weights is what
is kept. Every random draw belongs to a step, so a resumed run equals an uninterrupted one, exactly
in float32 on a CPU.
"""

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tokenizers
import torch
import torch.nn.functional as F
from torch import Tensor

from remask import rng
from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.devices import choose_device
from remask.denoisers.llada import ARCHITECTURE, LLaDA, LLaDAConfig, hub_tensors
from remask.denoisers.load import find_folder, load
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.save import save
from remask.denoisers.tokenizer import LLADA_TEMPLATE, Tokenizer
from remask.errors import SettingsError
from remask.pretrain.average import GradientWatch, follow
from remask.pretrain.noise import low_discrepancy_ratios
from remask.records.run_folder import STATE, RunFolder, source_digest
from remask.sampling.sampler import sample
from remask.sampling.settings import sampler_settings
from remask.tasks import TASKS
from studies.embedded.corpus import (
    END_OF_TURN_ID,
    EOS_ID,
    MASK_ID,
    TRAINED_LEVELS,
    Corpus,
    train_tokenizer,
)
from studies.embedded.muon import Muon
from studies.embedded.settings import TrainSettings

LOG, MODEL = "log.jsonl", "model"
# Settings that may change when a run continues. A digest stands for the last one.
_FREE = ("out", "workers", "device", "max_shard_bytes", "checkpoint_every", "init")
BLOCK = 16  # of the preset: without blocks the end of an answer is settled before its middle
WHOLE = ("countdown", "pycode")  # tasks written without: a search, a program is seen as a whole


class Trainer:
    """The state of one training run; `run` advances it to the end."""

    def __init__(self, settings: TrainSettings, say: Callable[[str], None]) -> None:
        s = self.settings = settings
        self.say = say
        self.device = choose_device(s.device)
        self.folder, self.identity = folder_of(s.out), self._identity()
        self.begun_at, saved = self.folder.resume(self.identity), None
        if self.begun_at is not None:
            path = self.begun_at / STATE
            saved = torch.load(path, map_location=self.device, weights_only=True)
        start = None if s.init is None else load(str(s.init), device="cpu", dtype="float32")
        self.tokenizer = (
            self._tokenizer(start) if saved is None
            else tokenizers.Tokenizer.from_str(saved["tokenizer"])
        )  # fmt: skip
        self.config = LLaDAConfig(
            d_model=s.width, n_layers=s.layers, n_heads=s.heads, n_kv_heads=s.heads,
            mlp_hidden_size=s.inner, vocab_size=-(-self.tokenizer.get_vocab_size() // 64) * 64,
            max_sequence_length=512, weight_tying=True, rope_theta=10_000.0,
        )  # fmt: skip
        self.network = LLaDA(self.config)
        self._fill(start)
        self.network.to(self.device)
        self.average = LLaDA(self.config).to(self.device).requires_grad_(False)
        self.average.load_state_dict(self.network.state_dict())
        self.optimizers = self._optimizers()
        self.gradients = GradientWatch(self.device)
        self.step, self.shown = 0, 0.0  # the loss that is logged, smoothed
        if saved is not None:
            self._restore(saved)
        self.losses = self._compiled()

    def _tokenizer(self, start: Denoiser | None) -> tokenizers.Tokenizer:
        if start is not None:
            return start.tokenizer.backend
        s = self.settings
        return train_tokenizer(
            num_problems=s.num_tokenizer_problems, size=s.vocabulary, seed=s.seed
        )

    def _fill(self, start: Denoiser | None) -> None:
        """Fill the network: drawn at random, or from the checkpoint to start from."""
        s = self.settings
        if start is None:
            seed = rng.key(s.seed, "train", "weights")
            self.network.initialise(torch.Generator().manual_seed(seed))
            return
        network = start.model if isinstance(start, NativeDenoiser) else None
        if not isinstance(network, LLaDA) or network.config != self.config:
            raise SettingsError(
                f"init {s.init} holds a network of another shape; give its width, layers, heads "
                "and inner."
            )
        self.network.load_state_dict(network.state_dict())

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        s = self.settings
        named = list(self.network.named_parameters())
        matrices = [p for name, p in named if p.dim() == 2 and not name.startswith("embedding")]
        rest = [p for name, p in named if p.dim() != 2 or name.startswith("embedding")]
        fused = self.device.type == "cuda"
        return [
            Muon(matrices, s.lr, weight_decay=s.weight_decay),
            torch.optim.AdamW(rest, s.lr, betas=(0.9, 0.98), weight_decay=0.0, fused=fused),
        ]

    def _compiled(self) -> Callable[..., Tensor]:
        def logits(ids: Tensor) -> Tensor:
            with torch.autocast(
                self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"
            ):
                return self.network.project(self.network(ids))

        def losses(ids: Tensor, num_prompt: Tensor, ratio: Tensor, draws: Tensor) -> Tensor:
            return masked_loss(logits, ids, num_prompt, ratio, draws)

        if self.device.type != "cuda":
            return losses
        torch.set_float32_matmul_precision("high")
        compiled: Callable[..., Tensor] = torch.compile(losses, dynamic=False)
        return compiled

    def run(self) -> Path:
        """Train to the last step, then write and return the checkpoint folder."""
        s = self.settings
        self.folder.begin(asdict(s), self.begun_at)
        if self.begun_at is not None:
            self.say(json.dumps({"resumed": self.step}))
        corpus = Corpus(mix=s.mix, batch=s.batch, seed=s.seed, tokenizer=self.tokenizer.to_str())
        clock = time.monotonic()
        for rows in corpus.stream(self.step, s.steps, s.workers):
            loss = self._update(torch.from_numpy(rows.ids), torch.from_numpy(rows.num_prompt))
            self.step += 1
            if self.step % 100 == 0 or self.step == s.steps:
                self.gradients.check(s.lr)
                value = float(loss)
                self.shown = value if self.shown == 0 else 0.8 * self.shown + 0.2 * value
                rate = (self.step % 100 or 100) / (time.monotonic() - clock)
                clock, left = time.monotonic(), (s.steps - self.step) / rate
                self._log(
                    {"step": self.step, "loss": self.shown, "steps_per_s": rate, "left_s": left}
                )
            if self.step % s.eval_every == 0 or self.step == s.steps:
                self._log({"step": self.step, "accuracy": self.accuracy()})
            if self.step % s.checkpoint_every == 0:
                self._checkpoint()
        self._checkpoint()
        return self.export()

    def _update(self, ids: Tensor, num_prompt: Tensor) -> Tensor:
        s = self.settings
        generator = torch.Generator(self.device)
        generator.manual_seed(rng.key(s.seed, "train", "noise", self.step))
        ids = ids.to(self.device, torch.long, non_blocking=True)
        start = torch.rand((), device=self.device, generator=generator)
        draws = torch.rand(ids.shape, device=self.device, generator=generator)
        ratio = low_discrepancy_ratios(len(ids), start, s.min_ratio)
        loss = self.losses(ids, num_prompt.to(self.device), ratio, draws)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.gradients.note(norm, self.step + 1)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = s.lr * self.rate(self.step)
            optimizer.step()
            optimizer.zero_grad()
        follow(self.average, self.network, decay=s.ema, step=self.step)
        return loss.detach()

    def rate(self, step: int) -> float:
        """Return the learning-rate multiplier at `step`: warmup, then cosine decay to 2 %."""
        warm = min(1.0, (step + 1) / self.settings.warmup)
        return warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / self.settings.steps)))

    def denoiser(self) -> NativeDenoiser:
        """Return the averaged model, ready to sample."""
        return NativeDenoiser(
            name="training",
            model=self.average,
            tokenizer=Tokenizer(
                backend=self.tokenizer, mask_id=MASK_ID,
                eos_ids=(EOS_ID, END_OF_TURN_ID),
                pad_id=EOS_ID, template=LLADA_TEMPLATE, trims=True,
            ),
            preset=Preset(),
        )  # fmt: skip

    def accuracy(self) -> dict[str, float]:
        """Return greedy accuracy on validation problems, by task/level, one token per step."""
        denoiser, out = self.denoiser(), {}
        for name in self.settings.mix:
            family = TASKS[name]
            for level in family.levels:
                count = self.settings.eval_problems
                problems = [
                    family.problem(i, split="validation", level=level) for i in range(count)
                ]
                length = family.canvas_length(level)
                block = length if name in WHOLE else BLOCK
                answers = sample(
                    denoiser,
                    [denoiser.tokenizer.render(p.prompt) for p in problems],
                    sampler_settings(denoiser, canvas=length, block=block),
                    items=[p.id for p in problems],
                )
                right = [family.grade(p, a.text) for p, a in zip(problems, answers, strict=True)]
                out[f"{name}/{level}"] = sum(right) / count
        return out

    def export(self) -> Path:
        """Write the averaged weights as a checkpoint folder and return it."""
        tasks = [TASKS[name] for name in self.settings.mix]
        length = max(task.canvas_length(level) for task in tasks for level in TRAINED_LEVELS)
        config: dict[str, Any] = {
            "architectures": [ARCHITECTURE],
            "model_type": "llada",
            **asdict(self.config),
            "embedding_size": self.config.vocab_size,
            "vocab_size": self.tokenizer.get_vocab_size(),
            "mask_token_id": MASK_ID,
            "eos_token_id": EOS_ID,
            "pad_token_id": EOS_ID,
        }
        preset = {
            "length": length, "steps": length, "block": BLOCK,
            "temperature": 0.0, "threshold": 0.75,
            "tasks": {name: {"block": length} for name in WHOLE if name in self.settings.mix},
        }  # fmt: skip
        folder = self.settings.out / MODEL
        self.folder.write(folder, lambda part: save(
            part, config, preset, self.tokenizer,
            hub_tensors(self.average), max_shard_bytes=self.settings.max_shard_bytes,
        ), {"step": self.step})  # fmt: skip
        return folder

    def _log(self, row: dict[str, Any]) -> None:
        self.folder.append(LOG, row)
        self.say(json.dumps(row))

    def _identity(self) -> dict[str, Any]:
        """Return the settings, and the digest of the initial model, that decide the outcome."""
        settings = {k: v for k, v in asdict(self.settings).items() if k not in _FREE}
        init = self.settings.init
        return {**settings, "init": init and source_digest(find_folder(str(init)))}

    def _checkpoint(self) -> None:
        self.gradients.check(self.settings.lr)
        state = {
            "step": self.step,
            "shown": self.shown,
            "tokenizer": self.tokenizer.to_str(),
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        facts = {"run": self.identity}
        self.folder.save(self.step, lambda part: torch.save(state, part / STATE), facts)

    def _restore(self, state: dict[str, Any]) -> None:
        self.step, self.shown = state["step"], state["shown"]
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)


def folder_of(out: Path) -> RunFolder:
    """Return the folder of a training."""
    return RunFolder(out=out, command="train", logs=(LOG,), models=(MODEL,))


def train(settings: TrainSettings, say: Callable[[str], None] = print) -> Path:
    """Train a model, or continue the run in its folder; return the folder of the model."""
    with folder_of(settings.out).hold([settings.init]):
        return Trainer(settings, say).run()


def masked_loss(
    network: Callable[[Tensor], Tensor],
    ids: Tensor,
    num_prompt: Tensor,
    ratio: Tensor,
    draws: Tensor,
) -> Tensor:
    """Return the mean over canvas tokens of the 1/t-weighted cross-entropy at masked ones.

    Args:
        network: ids (B, S) -> logits (B, S, V).
        ids: (B, S) clean rows.
        num_prompt: (B,) tokens before the canvas.
        ratio: (B,) t, the chance of each canvas token to be masked.
        draws: (B, S) uniform in [0, 1).
    """
    canvas = torch.arange(ids.shape[1], device=ids.device) >= num_prompt[:, None]  # (B, S)
    masked = canvas & (draws < ratio[:, None])
    logits = network(ids.masked_fill(masked, MASK_ID))
    loss = F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten(), reduction="none")
    weight = masked / ratio[:, None]
    return (loss.view_as(weight) * weight).sum() / canvas.sum()
