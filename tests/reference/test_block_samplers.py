"""Sampling block models against their published loops, recorded at temperature 0.

The record is made by record_blocks.py: the same tokens must come in the same passes.
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from remask import rng
from remask.denoisers import a2d, dreamreasoner, fast_dllm, sdar
from remask.denoisers.base import Preset
from remask.denoisers.native import NativeDenoiser, stacked
from remask.sampling import drafts, sampler
from remask.sampling.settings import SamplerSettings
from remask.testing import tiny_tokenizer

HERE = Path(__file__).parent
Case = dict[str, Any]
RECORD: dict[str, list[Case]] = json.loads((HERE / "block_samplers.json").read_text("utf-8"))
SHARPER = 8.0  # as in record_blocks.py
RARE = [127]  # the end token that all prompts of a batch can share
FAMILIES = {
    "sdar": sdar.FAMILY,
    "dreamreasoner": dreamreasoner.FAMILY,
    "a2d_block": a2d.FAMILY,
    "fast_dllm": fast_dllm.FAMILY,
}


def told(case: Case) -> str:
    return " ".join(f"{key}={value}" for key, value in case["settings"].items())


def of(name: str) -> Any:
    """Parametrize by the cases of a record."""
    return pytest.mark.parametrize("case", RECORD[name], ids=told)


@cache
def network(name: str, block: int) -> NativeDenoiser:
    """Return our network with the recorded weights, that sees blocks of so many."""
    family = FAMILIES[name]
    with safe_open(HERE / f"{name}.safetensors", framework="pt") as file:
        config = json.loads(file.metadata()["config"])
        sizes = {"bd_size" if name == "fast_dllm" else "block_size": block}
        built = family.build({**config, **sizes}).requires_grad_(False)
        for key, place in stacked(built, family.tensor_map(built)).items():
            place.copy_(file.get_tensor(f"weights.{key}"))
    # A power of two: nothing is rounded. A tied head is the embedding, so its norm is scaled.
    (built.norm if built.unembedding is None else built.unembedding).weight.mul_(SHARPER)
    tokenizer = replace(
        tiny_tokenizer(), mask_id=config["mask_token_id"], pad_id=config["pad_token_id"]
    )
    preset = Preset(schedule=family.schedule)
    return NativeDenoiser(name=name, model=built, tokenizer=tokenizer, preset=preset)


def denoiser(name: str, case: Case) -> NativeDenoiser:
    bare = network(name, case["settings"]["block"])
    return replace(bare, tokenizer=replace(bare.tokenizer, eos_ids=tuple(case["ends"])))


def settings(case: Case, **changes: Any) -> SamplerSettings:
    return SamplerSettings(**{"steps": case["settings"]["length"], **case["settings"], **changes})


def written(name: str, cases: list[Case], **changes: Any) -> list[Case]:
    """Return what we write in one batch for prompts with the same settings, as recorded."""
    model, how = denoiser(name, cases[0]), settings(cases[0], **changes)
    keys = rng.keys(0, ["item"] * len(cases), "sample", 0, model.device)
    prompts = [case["prompt"] for case in cases]
    rows = sampler._write(model, prompts, how, keys)
    return [compared(case, row, how) for case, row in zip(cases, rows, strict=True)]


def compared(case: Case, row: tuple[Any, ...], how: SamplerSettings) -> Case:
    """Return a row of ours with its passes counted through every block, as the record has them."""
    tokens, _, steps, forwards, _ = row
    start, num, size = first_place(case), len(case["tokens"]), how.block
    per_block = how.steps // (how.length // size)
    places = [start + i for i in range(num)]
    numbers = [place // size - start // size for place in places]
    # The passes that keep: over the whole blocks of the prompt, and all blocks but the last.
    kept = (start == 0 or start >= size) + numbers[-1]
    passes = [s - n * per_block for s, n in zip(steps, numbers, strict=False)]
    if how.sub_block is not None:
        passes = through(passes, places, how)
    whole = num == how.length  # else the end came, and theirs may stop inside a block
    return {"tokens": tokens[:num], "passes": passes, "forwards": forwards - kept if whole else 0}


def first_place(case: Case) -> int:
    """Return the place of an answer from where blocks are counted; A2D's count from the answer."""
    return 0 if "steps" in case["settings"] else len(case["prompt"])


def through(passes: list[int], places: list[int], how: SamplerSettings) -> list[int]:
    """Return passes that are counted through a block, where ours leave room for every sub-block."""
    assert how.sub_block is not None
    each = how.steps // (how.length // how.sub_block)
    used: dict[tuple[int, int], int] = {}  # by block and sub-block
    for passed, place in zip(passes, places, strict=True):
        where = place // how.block, place % how.block // how.sub_block
        used[where] = max(used.get(where, 0), passed - where[1] * each + 1)
    return [
        passed
        - place % how.block // how.sub_block * each
        + sum(
            used.get((place // how.block, k), 0) for k in range(place % how.block // how.sub_block)
        )
        for passed, place in zip(passes, places, strict=True)
    ]


def recorded(case: Case) -> Case:
    """Return what is compared; we do not go on after the block with the end token."""
    start, size = first_place(case), case["settings"]["block"]
    num_blocks = (start + len(case["tokens"]) - 1) // size - start // size + 1
    whole = len(case["tokens"]) == case["settings"]["length"]
    forwards = sum(case["forwards"][:num_blocks]) if whole else 0
    return {"tokens": case["tokens"], "passes": case["passes"], "forwards": forwards}


@pytest.mark.parametrize("name", ["sdar", "dreamreasoner"])
@of("sdar")
def test_a_threshold_writes_the_same_tokens_in_the_same_passes(case: Case, name: str) -> None:
    """DreamReasoner's loop is SDAR's, and with these weights so is its network."""
    assert written(name, [case]) == [recorded(case)]


@pytest.mark.parametrize("name", ["sdar", "a2d_block"])
def test_the_order_of_dream_keeps_the_schedule_of_the_model(name: str) -> None:
    """At temperature 0 without filters `maskgit_plus` is `low_confidence`, step for step."""
    for case in RECORD[name]:
        assert written(name, [case], order="maskgit_plus") == [recorded(case)]


@of("a2d_block")
def test_a2d_writes_the_same_tokens_in_the_same_passes(case: Case) -> None:
    """Its blocks begin with the answer, wherever the prompt ends."""
    assert written("a2d_block", [case]) == [recorded(case)]


@of("fast_dllm")
def test_fast_dllm_writes_the_same_tokens_in_the_same_passes(case: Case) -> None:
    assert written("fast_dllm", [case]) == [recorded(case)]


@pytest.mark.parametrize("name", RECORD)
def test_a_batch_writes_what_each_row_was_written_alone(name: str) -> None:
    shared: dict[str, list[Case]] = {}
    for case in RECORD[name]:
        if case["ends"] == RARE:
            shared.setdefault(told(case), []).append(case)
    assert sum(len(cases) > 1 for cases in shared.values()) >= 2
    for cases in shared.values():
        assert written(name, cases) == [recorded(case) for case in cases]


@of("fast_dllm")
def test_drafts_that_advance_block_by_block_write_the_same(case: Case) -> None:
    """A server keeps no cache between two blocks: what tells the first token is read again."""
    model, how = denoiser("fast_dllm", case), settings(case)
    draft = drafts.begin(model, case["prompt"], how, item="item")
    while not draft.ended:
        (draft,) = drafts.advance(model, [draft])
    num = len(case["tokens"])
    assert list(draft.canvas[:num]) == case["tokens"]
    (tokens, _, steps, forwards, _), *_ = sampler._write(
        model, [case["prompt"]], how, rng.keys(0, ["item"], "sample", 0, model.device)
    )
    assert (list(draft.canvas[:num]), list(draft.steps[:num])) == (tokens[:num], steps[:num])
    assert draft.forwards == forwards


def test_the_record_puts_the_rules_to_the_test() -> None:
    """Thresholds never met, ends that never come, prompts of whole blocks would prove nothing."""
    for name, cases in RECORD.items():
        assert sum(len(c["tokens"]) < c["settings"]["length"] for c in cases) >= 6, name
        assert any(len(c["prompt"]) % c["settings"]["block"] for c in cases), name
    for name in ("sdar", "fast_dllm"):
        official = [c for c in RECORD[name] if c["settings"]["reveal_threshold"] == 0.9]
        assert any(1 < n < c["settings"]["block"] - 1 for c in official for n in c["forwards"])
    # A first token is written before its block's passes: fewer are needed than there are tokens.
    patient = [c for c in RECORD["fast_dllm"] if c["settings"]["reveal_threshold"] is None]
    assert any(n == c["settings"]["block"] - 1 for c in patient for n in c["forwards"][1:])
