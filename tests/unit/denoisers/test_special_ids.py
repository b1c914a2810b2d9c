"""Special ids: the order of sources, on what the authors' files name and leave out."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.denoisers import a2d, dream, illada, llada, llada2, llada_moe
from remask.denoisers.special_ids import Sources, SpecialIds, TokenSpelling, find_special_ids
from remask.errors import CheckpointError

QWEN = {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645, "<|mask|>": 151666}
ROLE = {"<|endoftext|>": 156892, "<|role_end|>": 156893, "<|mask|>": 156895}
LLADA = {"<|endoftext|>": 126081, "<|mdm_mask|>": 126336, "<|eot_id|>": 126348}
ILLADA = {"<[PAD]>": 1, "<[end▁of▁sentence]>": 2, "<[MASK]>": 5}


def sources(
    vocab: dict[str, int],
    size: int,
    config: dict[str, Any] | None = None,
    generation: dict[str, Any] | None = None,
    tokenizer: dict[str, Any] | None = None,
    tokens: dict[str, Any] | None = None,
) -> Sources:
    return Sources(
        config={"vocab_size": size, **(config or {})},
        generation=generation or {},
        tokenizer=tokenizer or {},
        tokens=tokens or {},
        token_id=vocab.get,
    )


DREAM_IDS = {"mask_token_id": 151666, "pad_token_id": 151643, "eos_token_id": 151643}
# What the authors' files hold, as far as they are known, with the keys that are missing missing.
PUBLISHED: dict[str, tuple[TokenSpelling, Sources, SpecialIds]] = {
    "LLaDA: config.json has all, the tokenizer declares no mask token": (
        llada.FAMILY,
        sources(
            LLADA, 126464,
            {"mask_token_id": 126336, "eos_token_id": 126081, "pad_token_id": 126081},
            tokenizer={"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"},
        ),
        SpecialIds(mask=126336, ends=(126081, 126348), pad=126081),
    ),
    "LLaDA Base: a tokenizer without turns": (
        llada.FAMILY,
        sources(
            {"<|endoftext|>": 126081}, 126464, {"mask_token_id": 126336, "eos_token_id": 126081}
        ),
        SpecialIds(mask=126336, ends=(126081,), pad=126081),
    ),
    "iLLaDA: no file names the mask token": (
        illada.FAMILY,
        sources(ILLADA, 155136, {"eos_token_id": 2, "pad_token_id": 1, "bos_token_id": 0}),
        SpecialIds(mask=5, ends=(2,), pad=1),
    ),
    "iLLaDA: nor does the tokenizer spell it": (
        illada.FAMILY,
        sources({}, 155136, {"eos_token_id": 2, "pad_token_id": 1}),
        SpecialIds(mask=5, ends=(2,), pad=1),
    ),
    "Dream: config.json has all, generation_config.json a null": (
        dream.FAMILY,
        sources(
            QWEN, 152064, DREAM_IDS,
            {"mask_token_id": None, "eos_token_id": 151643, "pad_token_id": 151643},
        ),
        SpecialIds(mask=151666, ends=(151643, 151645), pad=151643),
    ),
    "Dream: the end in generation_config.json alone": (
        dream.FAMILY,
        sources(QWEN, 152064, {"mask_token_id": 151666}, {"eos_token_id": 151643}),
        SpecialIds(mask=151666, ends=(151643, 151645), pad=151643),
    ),
    "DiffuCoder: padding of its own fills the tail": (
        dream.FAMILY,
        sources(
            {**QWEN, "<|dlm_pad|>": 151667}, 152064, DREAM_IDS,
            tokenizer={"pad_token": "<|dlm_pad|>"},
        ),
        SpecialIds(mask=151666, ends=(151667, 151643, 151645), pad=151643),
    ),
    "LLaDA-MoE: the tokenizer alone knows": (
        llada_moe.FAMILY,
        sources(ROLE, 157184, tokenizer={"eos_token": "<|endoftext|>"}),
        SpecialIds(mask=156895, ends=(156892, 156893), pad=156892),
    ),
    "LLaDA2: config.json has padding, and nothing names an end": (
        llada2.FAMILY,
        sources(ROLE, 157184, {"pad_token_id": 156892}),
        SpecialIds(mask=156895, ends=(156892, 156893), pad=156892),
    ),
    "LLaDA2: the tokenizer's end is that of a turn": (
        llada2.FAMILY,
        sources(ROLE, 157184, {"pad_token_id": 156892}, tokenizer={"eos_token": "<|role_end|>"}),
        SpecialIds(mask=156895, ends=(156892, 156893), pad=156892),
    ),
    "A2D: two ends, of the ancestor's generation_config.json": (
        a2d.FAMILY,
        sources(
            QWEN, 151936,
            generation={"eos_token_id": [151645, 151643], "pad_token_id": 151643},
        ),
        SpecialIds(mask=151666, ends=(151643, 151645), pad=151643),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_checkpoints_are_understood_with_the_keys_they_have(name: str) -> None:
    spelling, given_sources, expected = PUBLISHED[name]
    assert find_special_ids(given_sources, spelling) == expected


PLAIN = TokenSpelling(template="{prompt}", ends=("<turn>",))
VOCAB = {f"<{i}>": i for i in range(10, 20)} | {"<|mask|>": 9, "<turn>": 8}
# The order of sources, each with an end of its own.
SPEAKING: list[dict[str, dict[str, Any]]] = [
    {"config": {"eos_token_id": 10}},
    {"generation": {"eos_token_id": 11}},
    {"tokenizer": {"eos_token": {"content": "<12>", "special": True}}},
    {"tokens": {"eos_token": "<13>"}},
    {"config": {"pad_token_id": 14}},
    {"tokenizer": {"pad_token": "<15>"}},
]


@pytest.mark.parametrize("number", range(len(SPEAKING)))
def test_the_first_source_that_names_an_end_is_believed(number: int) -> None:
    """Those before it are silent, all behind it speak: 10 to 13 by name, then padding."""
    said: dict[str, dict[str, Any]] = {}
    for entry in SPEAKING[number:]:
        for where, keys in entry.items():
            said[where] = {**said.get(where, {}), **keys}
    ids = find_special_ids(sources(VOCAB, 20, **said), PLAIN)
    assert ids.ends == (10 + number, 8)
    assert ids.pad == (15 if number == 5 else 14)
    assert ids.mask == 9


def test_a_list_of_ends_all_end_and_the_first_fills_the_tail() -> None:
    ids = find_special_ids(sources(VOCAB, 20, {"eos_token_id": [12, 11, 12]}), PLAIN)
    assert (ids.ends, ids.pad) == ((12, 11, 8), 12)


def test_without_an_end_padding_ends() -> None:
    ids = find_special_ids(sources(VOCAB, 20, {"pad_token_id": 15}), PLAIN)
    assert (ids.ends, ids.pad) == ((15, 8), 15)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            {"config": {"mask_token_id": 9}, "generation": {"mask_token_id": 10}},
            "the mask token is 9 by config.json and 10 by generation_config.json",
        ),
        (
            {"tokenizer": {"mask_token": "<10>"}},
            "the mask token is 10 by tokenizer_config.json and 9 by the tokenizer",
        ),
        (
            {"tokens": {"mask_token": {"content": "<11>"}, "pad_token": "<15>"}},
            "the mask token is 11 by special_tokens_map.json and 9 by the tokenizer",
        ),
        ({"tokenizer": {"mask_token": "<no>"}}, "mask_token as '<no>', which the tokenizer does"),
        ({"tokenizer": {"mask_token": 7}}, "mask_token as 7, which the tokenizer does not have"),
        ({"config": {"mask_token_id": 8}}, "gives 8 as mask_token_id, which is EOS too"),
        ({"config": {"eos_token_id": 20}}, "gives eos_token_id as 20; it must be an id below 20"),
        ({"generation": {"eos_token_id": True}}, "generation_config.json gives eos_token_id as T"),
    ],
)
def test_what_contradicts_itself_is_one_sentence(said: dict[str, Any], told: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        find_special_ids(sources(VOCAB, 20, **{"tokens": {"pad_token": "<15>"}, **said}), PLAIN)
    assert told in str(caught.value)


ANY = st.none() | st.booleans() | st.integers(-2, 22) | st.floats() | st.text(max_size=3)
KEYS = st.sampled_from([f"{r}_token{e}" for r in ("mask", "eos", "pad") for e in ("", "_id")])
FILE = st.dictionaries(KEYS, ANY | st.lists(ANY, max_size=3) | st.just({"content": "<11>"}))


@given(FILE, FILE, FILE, FILE)
def test_whatever_the_files_hold_is_understood_or_refused(
    config: dict[str, Any],
    generation: dict[str, Any],
    tokenizer: dict[str, Any],
    tokens: dict[str, Any],
) -> None:
    ids = SpecialIds(mask=0, ends=(1,), pad=1)
    with suppress(CheckpointError):
        ids = find_special_ids(sources(VOCAB, 20, config, generation, tokenizer, tokens), PLAIN)
    assert all(0 <= i < 20 for i in (ids.mask, ids.pad, *ids.ends))
    assert ids.mask not in (ids.pad, *ids.ends)
