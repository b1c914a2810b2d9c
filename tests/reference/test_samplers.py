"""Sampling against the published loops of LLaDA, Dream and Fast-dLLM, recorded at temperature 0.

The record is made by record_samplers.py, on the networks whose weights the other records hold: the
tokens must be the same, and every one must be written in the same step.
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from remask import rng
from remask.denoisers import dream, llada
from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.native import NativeDenoiser, stacked
from remask.denoisers.wrap import Suppressed
from remask.sampling import sampler
from remask.sampling.settings import SamplerSettings
from remask.testing import tiny_tokenizer

HERE = Path(__file__).parent
RECORD: dict[str, list[dict[str, Any]]] = json.loads((HERE / "samplers.json").read_text("utf-8"))
Case = dict[str, Any]


def of(name: str) -> Any:
    """Parametrize by the cases of a record."""
    return pytest.mark.parametrize("case", RECORD[name], ids=lambda c: told(c["settings"]))


def told(settings: Case) -> str:
    return " ".join(f"{key}={value}" for key, value in settings.items())


@cache
def network(name: str) -> NativeDenoiser:
    """Return our network with the recorded weights."""
    family = {"llada": llada.FAMILY, "dream": dream.FAMILY}[name]
    with safe_open(HERE / f"{name}.safetensors", framework="pt") as file:
        config = json.loads(file.metadata()["config"])
        built = family.build(config).requires_grad_(False)
        for key, place in stacked(built, family.tensor_map(built)).items():
            place.copy_(file.get_tensor(f"weights.{key}"))
    tokenizer = replace(
        tiny_tokenizer(), mask_id=config["mask_token_id"], pad_id=config["pad_token_id"]
    )
    return NativeDenoiser(name=name, model=built, tokenizer=tokenizer, preset=Preset())


def denoiser(name: str, case: Case) -> Denoiser:
    """Return the model with the end tokens and the options of a case."""
    bare = network(name)
    model: Denoiser = replace(bare, tokenizer=replace(bare.tokenizer, eos_ids=tuple(case["ends"])))
    if case["settings"].get("suppressed"):
        model = Suppressed(model, ids=(case["ends"][0],))
    return model


def settings(case: Case) -> SamplerSettings:
    return SamplerSettings(**{k: v for k, v in case["settings"].items() if k != "suppressed"})


def write(name: str, case: Case) -> tuple[list[int], list[int], int]:
    """Return what we write: tokens, the step of each, and the forward passes.

    Not through `sample`, which throws away what follows an end token.
    """
    model = denoiser(name, case)
    keys = rng.keys(0, ["item"], "sample", 0, model.device)
    ((tokens, _, steps, forwards, _),) = sampler._write(
        model, [case["prompt"]], settings(case), keys
    )
    return tokens, steps, forwards


def num_comparable(case: Case) -> int:
    """Return the tokens up to the end of the block that has an end token: there we stop."""
    ends = [i for i, token in enumerate(case["tokens"]) if token in case["ends"]]
    block: int = case["settings"]["block"]
    return (ends[0] // block + 1) * block if ends else len(case["tokens"])


@of("llada")
def test_llada_writes_the_same_tokens_in_the_same_steps(case: Case) -> None:
    tokens, steps, _ = write("llada", case)
    same = num_comparable(case)
    assert tokens[:same] == case["tokens"][:same]
    assert steps[:same] == case["passes"][:same]


@of("dream")
def test_dream_writes_the_same_tokens_in_the_same_steps(case: Case) -> None:
    assert write("dream", case)[:2] == (case["tokens"], case["passes"])


@of("fast")
def test_a_threshold_writes_the_same_tokens_in_the_same_passes(case: Case) -> None:
    """Our steps start anew with every block; the record counts passes through."""
    tokens, steps, forwards = write("llada", case)
    assert (tokens, forwards) == (case["tokens"], case["forwards"])
    block = case["settings"]["block"]
    for start in range(0, len(tokens), block):
        here = slice(start, start + block)
        first = min(case["passes"][here])
        assert [s - start for s in steps[here]] == [p - first for p in case["passes"][here]]


def test_the_record_puts_the_rules_to_the_test() -> None:
    """Orders that agree, ends that never come, thresholds never met would prove nothing."""
    ways = [tuple(c["passes"]) for c in RECORD["dream"]]
    assert len(set(ways)) > 0.9 * len(ways)
    late = [c for c in RECORD["llada"] if c["settings"].get("ends_last")]
    assert sum(bool(set(c["tokens"]) & set(c["ends"])) for c in late) >= 3
    assert min(c["forwards"] for c in RECORD["fast"]) <= 16
