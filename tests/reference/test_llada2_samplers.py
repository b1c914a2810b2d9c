"""Sampling against the published loops of LLaDA2.0 and LLaDA2.1, recorded at temperature 0.

The record is made by record_llada2.py, on the network whose weights llada2.safetensors holds, its
logits sharpened. The tokens must be the same up to the first end token, or to where the answer is
cut: every one written by the same pass over its block, and every block by as many passes.
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from remask import rng
from remask.denoisers import llada2
from remask.denoisers.base import Preset
from remask.denoisers.native import NativeDenoiser, stacked
from remask.sampling import sampler
from remask.sampling.settings import SamplerSettings
from remask.testing import tiny_tokenizer

HERE = Path(__file__).parent
Case = dict[str, Any]
RECORD: dict[str, list[Case]] = json.loads((HERE / "llada2_samplers.json").read_text("utf-8"))
SHARPER = 8.0  # as in record_llada2.py
RARE = [127]  # the end token that all prompts of a batch can share


def of(name: str) -> Any:
    """Parametrize by the cases of a record."""
    return pytest.mark.parametrize("case", RECORD[name], ids=told)


def told(case: Case) -> str:
    return " ".join(f"{key}={value}" for key, value in case["settings"].items())


@cache
def network(block: int) -> NativeDenoiser:
    """Return our network with the recorded weights, that sees blocks of so many."""
    with safe_open(HERE / "llada2.safetensors", framework="pt") as file:
        config = json.loads(file.metadata()["config"])
        built = llada2.FAMILY.build({**config, "block_size": block}).requires_grad_(False)
        for key, place in stacked(built, llada2.FAMILY.tensor_map(built)).items():
            place.copy_(file.get_tensor(f"weights.{key}"))
    assert built.unembedding is not None
    built.unembedding.weight.mul_(SHARPER)  # a power of two: nothing is rounded
    tokenizer = replace(
        tiny_tokenizer(), mask_id=config["mask_token_id"], pad_id=config["pad_token_id"]
    )
    return NativeDenoiser(name="llada2", model=built, tokenizer=tokenizer, preset=Preset())


def denoiser(case: Case) -> NativeDenoiser:
    bare = network(case["settings"]["block"])
    return replace(bare, tokenizer=replace(bare.tokenizer, eos_ids=tuple(case["ends"])))


def written(cases: list[Case]) -> list[Case]:
    """Return what we write in one batch for prompts with the same settings, as the record has it.

    Our steps of a block start at as many steps as the blocks before it may have needed.
    """
    model, told = denoiser(cases[0]), cases[0]["settings"]
    how = SamplerSettings(**told, steps=told["length"])
    size, per_block = how.block, how.block + told.get("post_steps", 0)
    keys = rng.keys(0, ["item"] * len(cases), "sample", 0, model.device)
    prompts = [case["prompt"] for case in cases]
    found = []
    for case, (tokens, _, steps, forwards, _) in zip(
        cases, sampler._write(model, prompts, how, keys), strict=True
    ):
        start, num = len(case["prompt"]), len(case["tokens"])
        numbers = [(start + i) // size - start // size for i in range(num)]
        passes = [step - number * per_block for step, number in zip(steps, numbers, strict=False)]
        # The passes that keep: over the whole blocks of the prompt, and all blocks but the last.
        kept = (start >= size) + numbers[-1]
        found.append({"tokens": tokens[:num], "passes": passes, "forwards": forwards - kept})
    return found


def recorded(case: Case) -> Case:
    """Return what is compared; we do not go on after the block with the end token."""
    start, size = len(case["prompt"]), case["settings"]["block"]
    num_blocks = (start + len(case["tokens"]) - 1) // size - start // size + 1
    forwards = sum(case["forwards"][:num_blocks])
    return {"tokens": case["tokens"], "passes": case["passes"], "forwards": forwards}


@of("llada2")
def test_a_threshold_writes_the_same_tokens_in_the_same_passes(case: Case) -> None:
    assert written([case]) == [recorded(case)]


@of("llada21")
def test_editing_writes_the_same_tokens_in_the_same_passes(case: Case) -> None:
    assert written([case]) == [recorded(case)]


@pytest.mark.parametrize("name", RECORD)
def test_a_batch_writes_what_each_row_was_written_alone(name: str) -> None:
    """Three prompts for each of the settings: lengths, blocks and thresholds."""
    shared: dict[str, list[Case]] = {}
    for case in RECORD[name]:
        if case["ends"] == RARE:
            shared.setdefault(told(case), []).append(case)
    assert len(shared) == (15 if name == "llada21" else 9)
    for cases in shared.values():
        assert len(cases) == 3
        assert written(cases) == [recorded(case) for case in cases]


def test_the_record_puts_the_rules_to_the_test() -> None:
    """Thresholds never met, ends that never come, edits never made would prove nothing."""
    older, newer = RECORD["llada2"], RECORD["llada21"]
    for cases in (older, newer):
        assert sum(len(c["tokens"]) < c["settings"]["length"] for c in cases) >= 9
        assert any(len(c["prompt"]) % c["settings"]["block"] for c in cases)
    official = [c for c in older if c["settings"]["reveal_threshold"] == 0.95]
    assert any(1 < n < c["settings"]["block"] for c in official for n in c["forwards"])
    assert sum(c["edits"] > 0 for c in newer) > 0.8 * len(newer)
    # Some blocks come to rest before their passes are used up, some never do.
    patient = [c for c in newer if c["settings"]["post_steps"] == 16]
    lasting = [n for c in patient for n in c["forwards"]]
    assert min(lasting) < 16 <= max(lasting)
