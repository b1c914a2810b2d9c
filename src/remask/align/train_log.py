"""The log of a training: one row per update with TRL's names, and sample completions.

    reward, reward_std, frac_reward_zero_std, rewards/<name>/mean, rewards/<name>/std
    completions/mean_length, min_length, max_length, clipped_ratio
    entropy    mean of -log p, in nats, of tokens when they are unmasked
    loss, grad_norm, learning_rate, num_tokens, kl, clip_ratio
    bmc/*, spg/*                 the score and the bounds; nan_skipped counts skipped updates
    time/*, memory/peak_gb       seconds by phase, and peak memory

The first update of a rollout carries the rollout's values. A resumed run removes the rows after its
checkpoint and writes them again.
"""

import math
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, pstdev
from typing import Any

import torch

from remask.align.checkpoint import COMPLETIONS, LOG
from remask.align.rollout import Rollout
from remask.records.run_folder import RunFolder

Row = dict[str, Any]
Say = Callable[[Row], None]
NUM_SHOWN = 2  # completions of a rollout


class TrainLog:
    """The logs of a run; only rank 0 writes and reports."""

    def __init__(self, folder: RunFolder, say: Say, track: Say, *, is_main_process: bool) -> None:
        self.folder, self.say, self.track = folder, say, track
        self.is_main_process = is_main_process

    def log(self, row: Row) -> None:
        """Append a row to the log, track it and report it."""
        self._append(LOG, row)
        self.track(row)
        self.tell(row)

    def tell(self, row: Row) -> None:
        """Report a row without logging it."""
        if self.is_main_process:
            self.say(row)

    def show(self, rollout: Rollout, step: int) -> None:
        """Log and report the first completions of a rollout."""
        for sample, problem, reward in list(
            zip(rollout.samples, rollout.problems, rollout.rewards, strict=True)
        )[:NUM_SHOWN]:
            row = {
                "step": step,
                "item": sample.item,
                "prompt": problem.prompt,
                "completion": sample.text,
                "reward": reward,
            }
            self._append(COMPLETIONS, row)
            self.tell(row)

    def _append(self, name: str, row: Row) -> None:
        if self.is_main_process:
            self.folder.append(name, row)


def measured(rollout: Rollout, size: int) -> list[Row]:
    """Return one row per completion, to be gathered from all processes."""
    rows = []
    for i, sample in enumerate(rollout.samples):
        group = [r for r in rollout.rewards[i - i % size : i - i % size + size] if r is not None]
        rows.append(
            {
                "reward": rollout.rewards[i],
                "group_std": pstdev(group) if group else None,
                "parts": {name: values[i] for name, values in rollout.parts.items()},
                "length": sample.num_response,
                "clipped": sample.num_response == len(sample.canvas),
                "entropy": surprise(sample.probs, sample.num_response),
            }
        )
    return rows


def surprise(probs: Sequence[float] | None, num: int) -> float | None:
    """Return the mean of -log p over a response; None for an empty one."""
    if not probs or not num:
        return None
    return fmean(-math.log(max(p, 1e-30)) for p in probs[:num])


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the log values of the completions of all processes."""
    lengths = [row["length"] for row in rows]
    out = {
        "completions/mean_length": fmean(lengths),
        "completions/min_length": min(lengths),
        "completions/max_length": max(lengths),
        "completions/clipped_ratio": fmean(row["clipped"] for row in rows),
    }
    if rewards := _present(rows, "reward"):
        spread = _present(rows, "group_std")
        out |= {
            "reward": fmean(rewards),
            "reward_std": fmean(spread),
            "frac_reward_zero_std": fmean(std == 0 for std in spread),
        }
    for name in rows[0]["parts"]:
        values = [row["parts"][name] for row in rows if row["parts"][name] is not None]
        if values:
            out[f"rewards/{name}/mean"] = fmean(values)
            out[f"rewards/{name}/std"] = pstdev(values)
    if entropies := _present(rows, "entropy"):
        out["entropy"] = fmean(entropies)
    return out


def _present(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [row[name] for row in rows if row[name] is not None]


def peak_memory_gb(device: torch.device) -> float:
    """Return the peak memory: allocated memory on CUDA, otherwise resident memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss: bytes on macOS, else kilobytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
