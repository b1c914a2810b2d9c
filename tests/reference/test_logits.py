"""Every family against logits of its reference implementation, recorded by the scripts beside this.

python tests/reference/test_logits.py     the largest differences, as JSON
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from remask.denoisers import (
    a2d,
    dream,
    dreamreasoner,
    fast_dllm,
    illada,
    llada,
    llada2,
    llada_moe,
    sdar,
)
from remask.denoisers.native import stacked

HERE = Path(__file__).parent
FAMILIES = {
    "llada": llada.FAMILY,
    "dream": dream.FAMILY,
    "a2d": a2d.FAMILY,
    "llada_moe": llada_moe.FAMILY,
    "llada2": llada2.FAMILY,
    "illada": illada.FAMILY,
}
# Recorded in float32 alone, by record_blocks.py.
BLOCK_FAMILIES = {
    "sdar": sdar.FAMILY,
    "sdar_moe": sdar.MOE_FAMILY,
    "dreamreasoner": dreamreasoner.FAMILY,
    "a2d_qwen2": a2d.QWEN2_FAMILY,
    "a2d_llama": a2d.LLAMA_FAMILY,
    "a2d_block": a2d.FAMILY,
    "fast_dllm": fast_dllm.FAMILY,
}
ALL = FAMILIES | BLOCK_FAMILIES
# Recorded and computed on one machine they agree to the bit; one rounding in another place, of the
# rotary tables or of the sum over experts, costs 0.016 to 0.074.
LIMITS = {torch.float32: 1e-5, torch.bfloat16: 0.01}


@torch.no_grad()
def both(name: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return our logits and the recorded ones, each (tokens, V), padding left out."""
    with safe_open(HERE / f"{name}.safetensors", framework="pt") as file:
        config = json.loads(file.metadata()["config"])
        held = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    family = ALL[name]
    network = family.build(config).to(dtype)
    for key, place in stacked(network, family.tensor_map(network)).items():
        place.copy_(held.pop(f"weights.{key}"))
    tokens, attend = held.pop("tokens"), held.pop("attend")
    assert held.keys() <= {"float32", "bfloat16"}, "weights of the record found no place"
    ours = network.project(network(tokens, attend)).float()  # (2, L, V)
    recorded = held[str(dtype).removeprefix("torch.")]
    if network.shifted:  # the reference has the logits of token i in row i - 1
        ours, recorded, attend = ours[:, 1:], recorded[:, :-1], attend[:, 1:]
    return ours[attend], recorded[attend]


def difference(name: str, dtype: torch.dtype) -> float:
    """Return the largest difference of a logit."""
    ours, recorded = both(name, dtype)
    return (ours - recorded).abs().max().item()


def relative(name: str) -> float:
    """Return the largest difference of a float32 logit, in parts of the largest logit."""
    ours, recorded = both(name, torch.float32)
    return ((ours - recorded).abs().max() / recorded.abs().max()).item()


@pytest.mark.parametrize("name", BLOCK_FAMILIES)
def test_float32_logits_of_block_models_are_those_of_the_reference(name: str) -> None:
    assert relative(name) <= LIMITS[torch.float32]


@pytest.mark.parametrize("name", FAMILIES)
def test_float32_logits_are_those_of_the_reference(name: str) -> None:
    assert difference(name, torch.float32) <= LIMITS[torch.float32]


@pytest.mark.parametrize("name", ALL)
def test_greedy_tokens_are_those_of_the_reference(name: str) -> None:
    ours, recorded = both(name, torch.float32)
    assert recorded.abs().max() > 0.5, "the record says nothing"
    assert torch.equal(ours.argmax(-1), recorded.argmax(-1))


def test_bfloat16_logits_are_those_of_the_reference() -> None:
    """In a process of its own: what oneDNN may use must be said before torch is imported."""
    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
        capture_output=True,
        text=True,
        check=True,
    )
    for name, found in json.loads(done.stdout).items():
        assert found["bf16"] <= LIMITS[torch.bfloat16], name


if __name__ == "__main__":
    told = {
        name: {"fp32": difference(name, torch.float32), "bf16": difference(name, torch.bfloat16)}
        for name in FAMILIES
    }
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
