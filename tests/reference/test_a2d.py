"""A2D against logits of the reference implementation, recorded by record_dream.py."""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from safetensors import safe_open

from remask.denoisers.a2d import FAMILY
from remask.denoisers.native import stacked

RECORD = Path(__file__).parent / "a2d.safetensors"


@torch.no_grad()
def difference(dtype: torch.dtype) -> float:
    """Return the largest difference of our logits from the recorded ones, padding left out."""
    with safe_open(RECORD, framework="pt") as file:
        config = json.loads(file.metadata()["config"])
        held = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    network = FAMILY.build(config).to(dtype)
    for name, place in stacked(network, FAMILY.tensor_map(network)).items():
        place.copy_(held.pop(f"weights.{name}"))
    tokens, attend = held.pop("tokens"), held.pop("attend")
    assert held.keys() == {"float32", "bfloat16"}, "weights of the record found no place"
    logits = network.project(network(tokens, attend)).float()
    recorded = held[str(dtype).removeprefix("torch.")]
    return (logits - recorded)[attend].abs().max().item()


def test_float32_logits_are_those_of_the_reference() -> None:
    assert difference(torch.float32) <= 1e-5


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
