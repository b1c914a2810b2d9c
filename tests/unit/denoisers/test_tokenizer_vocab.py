"""Tokenizers that come as vocab.json and merges.txt, and ids that only the tokenizer knows."""

import json
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from remask.denoisers.special_ids import TokenSpelling
from remask.denoisers.tokenizer import Tokenizer
from remask.errors import CheckpointError

MERGES = ["h e", "l l", "he ll", "Ġ t", "Ġt he", "1 2", "Ċ Ċ", "' t", "hell o"]
MERGED = ["".join(line.split()) for line in MERGES]
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
NUM = len(BYTES) + len(MERGED)
# With a gap, as after tokens that were removed: ids are those declared, not the next in line.
SPECIAL = {NUM: "<|endoftext|>", NUM + 1: "<|im_end|>", NUM + 5: "<|mask|>"}
TOOL = NUM + 3
CONFIG = {"eos_token_id": NUM, "vocab_size": NUM + 8}


def declared() -> dict[str, Any]:
    added: dict[int, Any] = {i: {"content": name, "special": True} for i, name in SPECIAL.items()}
    added[TOOL] = {"content": "<tool>", "special": False, "normalized": False}
    return {"added_tokens_decoder": {str(i): entry for i, entry in added.items()}}


def write(folder: Path, **files: Any) -> Path:
    vocab = {token: i for i, token in enumerate([*BYTES, *MERGED])}
    merges = "#version: 0.2\n" + "\n".join(MERGES) + "\n"
    contents = {"vocab": vocab, "merges": merges, "tokenizer_config": declared(), **files}
    for name, value in contents.items():
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            (folder / f"{name}.{'txt' if name == 'merges' else 'json'}").write_text(text, "utf-8")
    return folder


def read(folder: Path, **changes: Any) -> Tokenizer:
    spelling = TokenSpelling(template="{prompt}", ends=("<|im_end|>",))
    return Tokenizer.read(folder, {**CONFIG, **changes}, spelling)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return read(write(tmp_path_factory.mktemp("vocab")))


def names(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.backend.id_to_token(i) for i in tokenizer.encode(text)]


@given(st.text().filter(lambda text: "<" not in text))
def test_any_text_comes_back_composed(tokenizer: Tokenizer, text: str) -> None:
    """NFC: an e with a combining accent comes back as one é; nothing else changes."""
    ids = tokenizer.encode(text)
    assert not tokenizer.special_ids & set(ids)
    assert tokenizer.decode(ids) == unicodedata.normalize("NFC", text)


@given(st.lists(st.sampled_from([*"hel ot12'\n\r!A", "the", "hello", "é"])).map("".join))
def test_merged_text_has_no_more_tokens_than_bytes(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert len(ids) <= len(text.encode())
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", ["hello"]),
        (" the hell", ["Ġthe", "Ġ", "hell"]),
        ("shell", ["s", "hell"]),
        ("e\u0301", ["Ã", "©"]),
    ],
)
def test_merges_apply_in_their_order(tokenizer: Tokenizer, text: str, expected: list[str]) -> None:
    """he, ll, hell, then hello; "é" is composed before it is cut into two bytes."""
    assert names(tokenizer, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", ["1", "2"]),
        ("don't", ["d", "o", "n", "'t"]),
        ("h e", ["h", "Ġ", "e"]),
        ("!\n\n", ["!", "ĊĊ"]),
        ("h\n\ne", ["h", "ĊĊ", "e"]),
    ],
)
def test_text_is_cut_as_qwens_tokenizer_cuts_it_before_merging(
    tokenizer: Tokenizer, text: str, expected: list[str]
) -> None:
    """Digits stand alone, so "1 2" is never merged; a contraction is one piece."""
    assert names(tokenizer, text) == expected


def test_added_tokens_keep_their_declared_ids_and_flags(tokenizer: Tokenizer) -> None:
    assert tokenizer.special_ids == set(SPECIAL)
    assert [tokenizer.backend.id_to_token(i) for i in SPECIAL] == list(SPECIAL.values())
    assert tokenizer.encode("a<tool>b")[1] == TOOL
    assert tokenizer.decode([TOOL]) == "<tool>"


def test_special_ids_come_from_the_tokenizer_where_config_lacks_them(tokenizer: Tokenizer) -> None:
    assert (tokenizer.mask_id, tokenizer.eos_ids, tokenizer.pad_id) == (
        NUM + 5,
        (NUM, NUM + 1),
        NUM,
    )


def test_the_configuration_is_heard_before_the_tokenizer(tmp_path: Path) -> None:
    """The end and padding may be other tokens than the tokenizer's; two mask tokens may not be."""
    found = read(write(tmp_path), mask_token_id=NUM + 5, pad_token_id=8, eos_token_id=9)
    assert (found.mask_id, found.pad_id, found.eos_ids) == (NUM + 5, 8, (9, NUM + 1))
    with pytest.raises(CheckpointError, match=rf"is 7 by config\.json and {NUM + 5} by the token"):
        read(tmp_path, mask_token_id=7)


@pytest.mark.parametrize("pad", ["<|im_end|>", {"content": "<|im_end|>", "special": True}])
def test_the_padding_token_is_read_by_name(tmp_path: Path, pad: object) -> None:
    found = read(write(tmp_path, tokenizer_config={**declared(), "pad_token": pad}))
    assert found.pad_id == NUM + 1


def test_tokens_known_by_name_alone_are_special(tmp_path: Path) -> None:
    """added_tokens.json gives ids; where tokenizer_config.json has flags, those count."""
    plain = {**{name: i for i, name in SPECIAL.items()}, "<tool>": TOOL}
    bare = read(write(tmp_path, tokenizer_config=None, added_tokens=plain))
    assert bare.special_ids == {*SPECIAL, TOOL}
    both = read(write(tmp_path, tokenizer_config=declared(), added_tokens=plain))
    assert both.special_ids == set(SPECIAL)


def test_a_missing_mask_token_is_told(tmp_path: Path) -> None:
    entries = {"added_tokens_decoder": {str(NUM): {"content": "<|endoftext|>"}}}
    with pytest.raises(CheckpointError) as caught:
        read(write(tmp_path, tokenizer_config=entries))
    assert str(caught.value) == (
        "config.json gives mask_token_id as None and the tokenizer has no <|mask|>; "
        "remask needs a model with a mask token, so name its id in config.json."
    )


def test_a_mask_token_without_a_logit_is_refused(tmp_path: Path) -> None:
    told = f"has ids up to {NUM + 5}, config.json gives the model {NUM + 5}; the two do not"
    with pytest.raises(CheckpointError, match=told):
        read(write(tmp_path), vocab_size=NUM + 5)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"vocab": None}, r"has no tokenizer\.json, nor vocab\.json with merges\.txt"),
        ({"merges": None}, r"^\S+merges\.txt does not exist"),
        ({"vocab": "{"}, r"vocab\.json is not valid JSON"),
        ({"vocab": {"a": "b"}}, r"vocab\.json and merges\.txt do not fit each other"),
        ({"vocab": {"a": 0, "b": 0}}, r"vocab\.json and the added tokens give two tokens one id"),
        ({"merges": "h e\nhe y"}, r"vocab\.json and merges\.txt do not fit each other"),
        ({"merges": "h e\nhell"}, r"^\S+merges\.txt has 'hell' in line 2, not two tokens"),
        ({"merges": "h e l"}, r"^\S+merges\.txt has 'h e l' in line 1, not two tokens"),
        ({"tokenizer_config": {"added_tokens_decoder": []}}, "added tokens of .* cannot be read"),
        ({"tokenizer_config": {"added_tokens_decoder": {"x": {}}}}, "added tokens of .* cannot be"),
        ({"tokenizer_config": {"added_tokens_decoder": {"1": {}}}}, "added tokens of .* cannot be"),
        ({"added_tokens": {"<|mask|>": "no"}}, "added tokens of .* cannot be read"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    tmp_path: Path, files: dict[str, Any], told: str
) -> None:
    with pytest.raises(CheckpointError, match=told):
        read(write(tmp_path, **files))


@given(st.text())
def test_whatever_merges_holds_is_read_or_refused_as_a_broken_checkpoint(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = write(tmp_path_factory.mktemp("noise"), merges=None)
    (folder / "merges.txt").write_bytes(text.encode("utf-8", "surrogatepass"))
    with suppress(CheckpointError):
        found = read(folder)
        assert found.decode(found.encode("the hello")) == "the hello"
