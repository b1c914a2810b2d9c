"""A dry run: a training's time and memory, measured on two small rollouts and their updates."""

import math
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from remask.align import checkpoint
from remask.align.distributed import Distributed, check_share
from remask.align.settings import AlignSettings
from remask.align.train_log import Row
from remask.align.trainer import AlignTrainer


def measure(settings: AlignSettings) -> dict[str, Any] | None:
    """Return time and memory of a training on this machine, on rank 0; write nothing.

    Two rollouts of one micro-batch per process are made, and the second one is timed. Hours grow in
    proportion to the prompts; validation and checkpoints are not included.
    """
    s = settings
    checkpoint.folder_of(s.out).claim(checkpoint.inputs_of(s))
    with TemporaryDirectory() as folder, ExitStack() as stack:
        small = replace(
            s,
            out=Path(folder),
            updates=2 * s.inner_updates,
            warmup=0,
            eval_every=0,
            show_every=0,
            collapse_window=0,
            track=("none",),
        )
        distributed = Distributed(small)
        stack.callback(distributed.leave)
        processes = distributed.size
        check_share(s.prompts_per_update, processes, "prompts_per_update")
        fills = math.ceil(s.micro_batch / s.num_generations)
        prompts = processes * min(fills, s.prompts_per_update // processes)
        rows: list[Row] = []
        trainer = AlignTrainer(replace(small, prompts_per_update=prompts), rows.append, distributed)
        trainer.round()  # the first one also compiles, allocates and fills caches
        rows.clear()
        trainer.round()
    if not distributed.is_main_process:
        return None
    scale = s.prompts_per_update / prompts
    phases = {name: rows[0][f"time/{name}"] / s.inner_updates for name in ("rollout", "score")}
    phases["update"] = fmean(row["time/update"] for row in rows)
    seconds = {name: value * scale for name, value in phases.items()}
    learning = sum(p.numel() for p in trainer.parameters.values())
    every = sum(p.numel() for p in trainer.policy.model.parameters())
    sampler = trainer.sampler
    return {
        "model": s.model,
        "method": s.method,
        "tuning": s.tuning,
        "processes": processes,
        "sharding": "learner" if distributed.is_sharded else "none",
        "device": str(distributed.device),
        "parameters": every - learning if s.tuning == "lora" else every,
        "trained": learning,
        "completions_per_rollout": s.num_rows,
        "rollouts": -(-s.updates // s.inner_updates),
        "sampler": {"length": sampler.length, "steps": sampler.steps, "block": sampler.block},
        "measured_completions": prompts * s.num_generations,
        "peak_memory_gb": rows[-1]["memory/peak_gb"],
        "seconds_per_update": seconds,
        "hours": sum(seconds.values()) * s.updates / 3600,
    }
