"""How far the gradient of two processes is from that of one.

    python benchmarks/sharding.py [OUT] [--figures docs/figures.json --commit SHA --hardware NAME]

One process and two processes that divide the weights make the same two updates of a small random
LLaDA on CPUs in float32, with every method. In the uneven cases one of the two has no completion
with an advantage and makes padded passes. The result is the largest difference of the whole
batch's gradients, divided by the largest gradient of the update. OUT is a file for the numbers.

Both use plain gradient descent: AdamW would turn rounding errors into whole steps.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from lib.figures import figure_of, parse, save
from torch import Tensor
from torch.distributed.tensor import DTensor

CASES: dict[str, dict[str, Any]] = {
    "spg": {"method": "spg", "tuning": "full"},
    "spg, uneven": {"method": "spg", "tuning": "full", "reward": "sharding:uneven"},
    "spg, negative zero, uneven": {
        "tuning": "full",
        "negative": "zero",
        "reward": "sharding:uneven",
    },
    "spg, recomputed": {"method": "spg", "tuning": "full", "gradient_checkpointing": True},
    "diffu_grpo": {"method": "diffu_grpo", "tuning": "full"},
    "diffu_grpo without penalty, uneven": {
        "method": "diffu_grpo",
        "tuning": "full",
        "kl_weight": 0.0,
        "reward": "sharding:uneven",
    },
    "sft": {"method": "sft", "tuning": "full", "length": 96, "block": 48, "reward": None},
    "adapters, whole": {"method": "spg", "tuning": "lora"},
}
COMMAND = "python benchmarks/sharding.py"
LIMIT, RATE = 1e-5, 0.1


def even(prompts: Any, completions: Any, completion_ids: Any, **_: Any) -> Any:
    """Pay for low ids."""
    return [sum(i < 131 for i in ids) for ids in completion_ids]


def uneven(prompts: Any, completions: Any, completion_ids: Any, problem: Any, **_: Any) -> Any:
    """Pay nothing for every other prompt: one of two processes has nothing to learn from."""
    pays = [int(one.id.rpartition("/")[2]) % 2 for one in problem]
    paid = even(prompts, completions, completion_ids)
    return [pay * value for pay, value in zip(pays, paid, strict=True)]


def settings_of(model: Path, out: Path, **changes: Any) -> Any:
    """Return the settings of one update."""
    from remask.align.settings import check_settings

    usual = {
        "model": str(model), "task": "countdown", "out": out, "reward": "sharding:even",
        "updates": 2, "inner_updates": 2, "prompts_per_update": 4, "num_generations": 4,
        "length": 16, "steps": 4, "block": 4, "micro_batch": 3, "max_grad_norm": 1e9,
        "eval_every": 0, "lora_rank": 2, "lora_dropout": 0.0, "show_every": 0, "track": "none",
        "device": "cpu",
    }  # fmt: skip
    if changes.get("reward") in ("ungated", "lexicographic"):
        usual |= {"metrics": "core", "trips": 2, "rebuild_steps": 2}
    told = {**usual, **changes}
    return check_settings({name: value for name, value in told.items() if value is not None})


def gradients(settings: Any) -> list[dict[str, Tensor]]:
    """Return the whole gradient of each update, as the optimizer gets it."""
    from remask.align.sharding import whole_tensors
    from remask.align.trainer import AlignTrainer

    trainer = AlignTrainer(settings, say=lambda row: None)
    divided = [isinstance(p, DTensor) for p in trainer.policy.model.parameters()]
    assert set(divided) == {trainer.distributed.is_sharded}
    seen: list[dict[str, Tensor]] = []

    @torch.no_grad()
    def step(*_: Any) -> None:
        raw = {name: p.grad for name, p in trainer.parameters.items() if p.grad is not None}
        seen.append({n: g.clone() for n, g in whole_tensors(raw, here=True).items()})
        for name, gradient in raw.items():
            trainer.parameters[name].sub_(RATE * gradient)

    trainer.optimizer.step = step
    trainer.run()
    return seen


def work(model: Path, folder: Path) -> None:
    """Write the gradients of every case: of one process, or of those that the environment names."""
    rank = int(os.environ.get("RANK", "0"))
    for number, changes in enumerate(CASES.values()):
        found = gradients(settings_of(model, folder / f"run-{number}", **changes))
        if rank == 0:
            torch.save(found, folder / f"gradients-{number}.pt")


def start(words: Sequence[str], **more: str) -> "subprocess.Popen[bytes]":
    """Start this file again, as one process of several or alone."""
    command = [sys.executable, __file__, *words]
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1", **more})


def differences(model: Path, folder: Path) -> dict[str, dict[str, float]]:
    """Return, by case, the largest difference, and the largest gradient."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for name in ("one", "two"):
        (folder / name).mkdir()
    words = ("--model", str(model), "--work")
    running = [start((*words, str(folder / "one")))] + [
        start((*words, str(folder / "two")), RANK=str(rank), LOCAL_RANK=str(rank), **shared)
        for rank in range(2)
    ]
    codes = [process.wait() for process in running]
    if any(codes):
        raise SystemExit("a process failed; its own words stand above")
    found = {}
    for number, case in enumerate(CASES):
        pairs = (torch.load(folder / n / f"gradients-{number}.pt") for n in ("one", "two"))
        for update, (one, two) in enumerate(zip(*pairs, strict=True), 1):
            assert one.keys() == two.keys()
            found[f"{case}, update {update}"] = {
                "difference": max(float((one[n] - two[n]).abs().max()) for n in one),
                "largest": max(float(g.abs().max()) for g in one.values()),
            }
    return found


def main() -> int:
    """Measure all cases and print them; what is too far apart is a failure."""
    from remask.testing import write_checkpoint

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", nargs="?", type=Path, help="file for the numbers")
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parse(parser, sys.argv[1:])
    if arguments.work:
        work(arguments.model, arguments.work)
        return 0
    with tempfile.TemporaryDirectory() as name:
        model = write_checkpoint(
            Path(name) / "model", layers=3, width=16, heads=2, inner=16, length=16, max_length=256,
            dtype=torch.float32,
        )  # fmt: skip
        found = differences(model, Path(name))
    worst = max(case["difference"] / case["largest"] for case in found.values())
    for name, case in found.items():
        print(f"{name}: {case['difference']:.2e} of {case['largest']:.2e}")
    print(f"align/fsdp_gradient_difference: {worst:.2e}")
    if arguments.out:
        arguments.out.write_text(json.dumps({"cases": found, "largest": worst}, indent=2) + "\n")
    unit = "largest difference of a gradient, of the largest one, two processes against one, CPU"
    figure = figure_of(worst, unit, len(found))
    save(arguments, {"align/fsdp_gradient_difference": figure}, "sharding", COMMAND)
    return int(not worst <= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
