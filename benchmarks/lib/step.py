"""One optimisation step of a shape with random weights: completions, their scores, an update.

SPG's step is the paper's, scored by round trips; `stable` is SPG upwards only, scored by the start
with the verifier's 17 passes, where the recipe's probe makes 4. What a text would need is a stub,
as in `shapes`: rewards are made up, half of them above the mean, and metrics are left out. Every
completion fills its canvas, and every one is scored, which a gated reward would not do.
"""

import argparse
import math
import time
from dataclasses import replace
from typing import Any

import torch

from lib.probing import SETS, read_set
from lib.shapes import SHAPES, build, random_tokens
from remask.align.lora import without_adapters
from remask.align.policy import make_policy, trained
from remask.align.settings import check_settings
from remask.align.update import Batch, Updater, make_optimizer
from remask.consistency.roundtrips import round_trips
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.devices import choose_device
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.values import ROUNDTRIPS, Sample

GROUP = 8
METHODS: dict[str, dict[str, Any]] = {
    "spg": {"method": "spg"},
    "stable": {
        "method": "spg", "negative": "zero", "reward": "trusted", "trust": 0.5,
        "scorer": "verifier", "scored_by": "start",
    },
}  # fmt: skip


class Step:
    """A policy of a shape, and the three phases of a step, each on what the one before left."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.shape = SHAPES[arguments.shape]
        self.device = choose_device(arguments.device)
        length = self.shape.num_response
        self.settings = check_settings({
            "model": "random", "task": "gsm8k", "out": arguments.out, "num_generations": GROUP,
            "length": length, "steps": length // 2, "block": math.gcd(32, length // 2),
            "micro_batch": arguments.micro_batch, "tuning": "lora",
            "gradient_checkpointing": arguments.gradient_checkpointing,
            "lora_rank": 128 if length >= 256 else 4, **METHODS[arguments.method],
        })  # fmt: skip
        s, on_cuda = self.settings, self.device.type == "cuda"
        denoiser = build(self.shape, self.device)
        block = denoiser.block_size or s.block or length
        self.policy = make_policy(denoiser, s, in_bfloat16=on_cuda)
        self.sampler = SamplerSettings(
            length=length, steps=s.steps or length, block=block, temperature=s.temperature
        )
        self.updater = Updater(self.policy, s, s.masks(block))
        self.parameters = list(trained(self.policy).values())
        self.optimizer = make_optimizer(self.parameters, s)
        self.samples: list[Sample] = []
        self.loss = self.norm = math.nan

    @property
    def num_trained(self) -> int:
        """Numbers that learn."""
        return sum(p.numel() for p in self.parameters)

    def described(self) -> dict[str, Any]:
        """Return what a report says of the step."""
        s = self.settings
        scored = {"trips": s.trips, "rebuild_steps": s.rebuild_steps}
        return {
            "method": s.method, "negative": s.negative, "scorer": s.scorer, "group": GROUP,
            "prompt": self.shape.num_prompt, "length": self.sampler.length,
            "steps": self.sampler.steps, "block": self.sampler.block, "copies": s.num_copies,
            **(scored if s.scorer == ROUNDTRIPS else {}), "micro_batch": s.micro_batch,
            "lora_rank": s.lora_rank, "gradient_checkpointing": s.gradient_checkpointing,
        }  # fmt: skip

    def warm_up(self) -> None:
        """Run every phase once, with as few passes as there may be."""
        blocks = self.sampler.length // self.sampler.block
        self.rollout(replace(self.sampler, steps=blocks))
        self.score(replace(self.settings.part(ConsistencySettings), rebuild_steps=1))
        self.update()

    def reset(self) -> None:
        """Forget the peak of the memory."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def timed(self, phase: str) -> float:
        """Return the seconds of one phase, the device idle before and after."""
        module: Any = torch.cuda if self.device.type == "cuda" else torch.cpu
        module.synchronize()
        started = time.perf_counter()
        getattr(self, phase)()
        module.synchronize()
        return time.perf_counter() - started

    @torch.no_grad()
    def rollout(self, sampler: SamplerSettings | None = None) -> None:
        """Write the completions of one group."""
        prompt = random_tokens(self.shape, 1, self.shape.num_prompt)[0]
        items = [str(number) for number in range(GROUP)]
        self.samples = sample(self.policy, [prompt] * GROUP, sampler or self.sampler, items=items)

    @torch.no_grad()
    def score(self, settings: ConsistencySettings | None = None) -> None:
        """Make the round trips of all of them, or the verifier's passes."""
        if self.settings.scorer != ROUNDTRIPS:
            with without_adapters(self.policy.model):
                read_set(self.policy, self.samples, SETS[self.settings.scorer])
            return
        round_trips(self.policy, self.samples, settings or self.settings.part(ConsistencySettings))

    def update(self) -> None:
        """Make one optimizer update."""
        advantages = torch.tensor([0.5, -0.5]).repeat(GROUP // 2)
        tokens = sum(found.num_response for found in self.samples)
        batch = Batch(
            samples=self.samples, advantages=advantages, num_tokens=tokens, num_rows=GROUP,
            update=0,
        )  # fmt: skip
        self.loss = self.updater.backward(batch)["loss"]
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.max_grad_norm)
        self.norm = float(norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
