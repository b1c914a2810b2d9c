"""Dream against logits of the reference implementation, recorded by record_dream.py."""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from remask.denoisers.dream import FAMILY
from remask.denoisers.native import stacked

RECORD = Path(__file__).parent / "dream.safetensors"


@torch.no_grad()
def both(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return our logits, the recorded ones, each (2, 40, V), and what is no padding, (2, 40)."""
    with safe_open(RECORD, framework="pt") as file:
        config = json.loads(file.metadata()["config"])
        held = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    network = FAMILY.build(config).to(dtype)
    for name, place in stacked(network, FAMILY.tensor_map(network)).items():
        place.copy_(held.pop(f"weights.{name}"))
    tokens, attend = held.pop("tokens"), held.pop("attend")
    assert held.keys() == {"float32", "bfloat16"}, "weights of the record found no place"
    recorded = held[str(dtype).removeprefix("torch.")]
    return network.project(network(tokens, attend)).float(), recorded, attend


def difference(dtype: torch.dtype) -> float:
    """Return the largest difference; the reference has the logits of token i in row i - 1."""
    ours, recorded, attend = both(dtype)
    return (ours[:, 1:] - recorded[:, :-1])[attend[:, 1:]].abs().max().item()


def test_float32_logits_are_those_of_the_reference_one_row_on() -> None:
    assert difference(torch.float32) <= 1e-5


def test_rows_that_are_not_moved_are_other_logits() -> None:
    ours, recorded, attend = both(torch.float32)
    assert (ours - recorded)[attend].abs().max().item() > 1.0


def test_greedy_tokens_are_those_of_the_reference() -> None:
    ours, recorded, attend = both(torch.float32)
    agreed = ours[:, 1:].argmax(-1) == recorded[:, :-1].argmax(-1)
    assert agreed[attend[:, 1:]].all()


def test_bfloat16_logits_are_those_of_the_reference_to_the_last_bit() -> None:
    """In a process of its own: what oneDNN may use must be said before torch is imported."""
    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) == 0.0


if __name__ == "__main__":
    sys.stdout.write(str(difference(torch.bfloat16)))
