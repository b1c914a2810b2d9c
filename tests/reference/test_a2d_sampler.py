"""Sampling against the loop of A2D's authors, recorded at temperature 0 by record_a2d_sampler.py.

The tokens must be the same and come in the same passes, also where the steps do not divide the
block: its authors round, LLaDA's give the first steps what is left over.
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from remask import rng
from remask.denoisers import a2d
from remask.denoisers.base import Preset
from remask.denoisers.native import NativeDenoiser, stacked
from remask.sampling import sampler
from remask.sampling.schedule import even_schedule, rounded_schedule
from remask.sampling.settings import SamplerSettings
from remask.testing import tiny_tokenizer

HERE = Path(__file__).parent
RECORD: dict[str, list[Any]] = json.loads((HERE / "a2d_sampler.json").read_text("utf-8"))


@cache
def network() -> NativeDenoiser:
    """Return our network with the recorded weights, and the schedule of its family."""
    with safe_open(HERE / "a2d.safetensors", framework="pt") as file:
        config = json.loads(file.metadata()["config"])
        built = a2d.FAMILY.build(config).requires_grad_(False)
        for key, place in stacked(built, a2d.FAMILY.tensor_map(built)).items():
            place.copy_(file.get_tensor(f"weights.{key}"))
    tokenizer = replace(
        tiny_tokenizer(), mask_id=config["mask_token_id"], pad_id=config["pad_token_id"],
        eos_ids=(config["pad_token_id"],),
    )  # fmt: skip
    preset = Preset(schedule=a2d.FAMILY.schedule)
    return NativeDenoiser(name="a2d", model=built, tokenizer=tokenizer, preset=preset)


def write(case: dict[str, Any], model: NativeDenoiser) -> tuple[list[int], list[int], int]:
    """Return what we write: tokens, the pass of each, and the number of passes."""
    keys = rng.keys(0, ["item"], "sample", 0, model.device)
    how = SamplerSettings(**case["settings"])
    ((tokens, _, steps, forwards, _),) = sampler._write(model, [case["prompt"]], how, keys)
    numbers = {step: number for number, step in enumerate(sorted(set(steps)))}
    return tokens, [numbers[step] for step in steps], forwards


@pytest.mark.parametrize("case", RECORD["a2d"], ids=lambda c: str(c["settings"]))
def test_a2d_writes_the_same_tokens_in_the_same_passes(case: dict[str, Any]) -> None:
    assert write(case, network()) == (case["tokens"], case["passes"], case["forwards"])


def test_the_record_tells_the_two_schedules_apart() -> None:
    even = replace(network(), preset=Preset())
    differ = [case for case in RECORD["a2d"] if write(case, even)[1] != case["passes"]]
    assert len(differ) >= 6
    assert all(case["settings"]["length"] != case["settings"]["steps"] for case in differ)


def test_counts_are_those_of_the_authors_for_every_block_and_number_of_steps() -> None:
    """Steps that reveal nothing are left out there, and come last here."""
    unlike = 0
    for num_masked, listed in enumerate(RECORD["counts"], 1):
        for steps, expected in enumerate(listed, 1):
            counts = rounded_schedule(torch.tensor([num_masked]), steps)[:, 0].tolist()
            assert counts == expected + [0] * (steps - len(expected)), (num_masked, steps)
            unlike += counts != even_schedule(torch.tensor([num_masked]), steps)[:, 0].tolist()
    assert unlike > 100
