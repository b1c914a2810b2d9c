"""Text to ids and back, on the tokenizer of single bytes."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.denoisers.special_ids import TokenSpelling
from remask.denoisers.tokenizer import Tokenizer, read_json
from remask.errors import CheckpointError, InputError
from remask.testing import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
EOS, MASK, BOS, START, END, EOT = range(6)
MASK_TOKEN = "<|mdm_mask|>"
# Text that spells a special token is read as that token, as the models' own tokenizers do.
PLAIN = st.text().filter(lambda text: "<|" not in text)


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text)


@given(PLAIN)
def test_any_text_encodes_and_comes_back(text: str) -> None:
    assert len(ids(text)) == len(text.encode())
    assert TOKENIZER.decode(ids(text)) == text


@given(PLAIN)
def test_plain_text_never_becomes_a_special_token(text: str) -> None:
    assert not TOKENIZER.special_ids & set(ids(text))


@given(before=st.text(max_size=20), after=st.text(max_size=20))
def test_the_mask_token_inside_a_text_is_refused_wherever_it_stands(
    before: str, after: str
) -> None:
    with pytest.raises(InputError, match=r"the answer contains the mask token '<\|mdm_mask\|>'"):
        TOKENIZER.encode(before + MASK_TOKEN + after, "answer")


def test_the_mask_token_inside_a_prompt_is_refused() -> None:
    with pytest.raises(InputError, match="the prompt contains the mask token"):
        TOKENIZER.render(f"What is {MASK_TOKEN}?")


@pytest.mark.parametrize("token", [EOS, BOS, START, END, EOT])
def test_a_special_token_in_a_prompt_or_an_answer_is_refused_by_name(token: int) -> None:
    name = TOKENIZER.backend.id_to_token(token)
    told = re.escape(f"contains the special token {name!r}; remove it.")
    with pytest.raises(InputError, match=f"^the answer {told}$"):
        TOKENIZER.encode(f"4{name}5", "answer")
    with pytest.raises(InputError, match=f"^the prompt {told}$"):
        TOKENIZER.render(f"What is {name}?")
    with pytest.raises(InputError, match=f"^the prompt {told}$"):
        TOKENIZER.render("What?", beginning=f"It {name}")
    assert TOKENIZER.encode_whole(f"4{name}5") == [*ids("4"), token, *ids("5")]


def test_a_whole_text_may_hold_any_special_token_but_the_mask() -> None:
    with pytest.raises(InputError, match=r"^the prompt contains the mask token .*; remove it\.$"):
        TOKENIZER.encode_whole(f"<|eot_id|>{MASK_TOKEN}", "prompt")
    with pytest.raises(InputError, match="the prompt is not valid unicode"):
        TOKENIZER.encode_whole("\ud800", "prompt")


@pytest.mark.parametrize("text", ["\ud800", "fine \udfff not"])
def test_half_a_surrogate_pair_is_refused_as_bad_unicode(text: str) -> None:
    with pytest.raises(InputError, match="the row is not valid unicode"):
        TOKENIZER.encode(text, "row")


def test_a_megabyte_of_noise_is_encoded_byte_by_byte() -> None:
    noise = "é∂漢🦆٣ " * 62_500
    assert len(ids(noise)) == len(noise.encode()) == 937_500


@pytest.mark.parametrize("prompt", ["", " ", "\n\t ", "\u3000"])
def test_an_empty_prompt_is_refused(prompt: str) -> None:
    with pytest.raises(InputError, match="the prompt is empty"):
        TOKENIZER.render(prompt)
    with pytest.raises(InputError, match="the prompt is empty"):
        TOKENIZER.render("2+2?", [(prompt, "4")])


def test_an_earlier_reply_may_be_empty() -> None:
    whole, empty = (TOKENIZER.chat("2+2?", [("1+1?", reply)]) for reply in ("2", ""))
    assert empty == whole.replace("\n\n2<", "\n\n<")


def test_a_rendered_prompt_is_lladas_template_token_by_token() -> None:
    """bos, user header, blank line, the trimmed prompt, turn end, assistant header, blank line."""
    assert TOKENIZER.render("  2+2?\n") == [
        *(BOS, START, *ids("user"), END, *ids("\n\n")),
        *(*ids("2+2?"), EOT),
        *(START, *ids("assistant"), END, *ids("\n\n")),
    ]


def test_a_rendered_prompt_is_lladas_template_as_text() -> None:
    text = TOKENIZER.backend.decode(TOKENIZER.render("Hi"), skip_special_tokens=False)
    assert text == (
        "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )


@given(PLAIN)
def test_braces_and_all_else_in_a_prompt_are_text(prompt: str) -> None:
    rendered = TOKENIZER.render(prompt + "{prompt}{0}")
    expected = ids((prompt + "{prompt}{0}").strip())
    start = len([BOS, START, *ids("user"), END, *ids("\n\n")])
    assert rendered[start : start + len(expected)] == expected
    assert rendered[start + len(expected)] == EOT


@pytest.mark.parametrize(
    ("canvas", "expected"),
    [
        ([70, 71, EOS, EOS, EOS], 3),
        ([70, 71, EOT, 72, EOS], 3),
        ([70, 71, 72], 3),
        ([EOS, EOS], 1),
        ([EOT], 1),
        ([], 0),
    ],
)
def test_a_response_reaches_up_to_and_with_its_first_end(canvas: list[int], expected: int) -> None:
    assert TOKENIZER.num_response(canvas) == expected


@pytest.mark.parametrize("end", [EOS, EOT])
def test_decoding_stops_at_the_first_end(end: int) -> None:
    assert TOKENIZER.decode([*ids("four"), end, *ids(" five"), EOS]) == "four"


def test_decoding_without_an_end_reads_everything() -> None:
    assert TOKENIZER.decode(ids("four five")) == "four five"


def test_special_tokens_are_left_out_of_decoded_text() -> None:
    assert TOKENIZER.decode([BOS, *ids("a"), MASK, *ids("b"), START]) == "ab"


def test_pieces_name_special_tokens_and_read_the_others_alone() -> None:
    assert TOKENIZER.pieces([*ids("a "), MASK, EOS]) == ["a", " ", MASK_TOKEN, "<|endoftext|>"]


def test_the_first_end_token_fills_the_tail() -> None:
    assert TOKENIZER.eos_id == TOKENIZER.eos_ids[0] == EOS


def test_special_ids_are_the_six_tokens_that_are_not_bytes() -> None:
    assert frozenset(range(6)) == TOKENIZER.special_ids


def test_an_end_token_the_vocabulary_lacks_is_left_out(tmp_path: Path) -> None:
    """Base models have no turn-end token; padding defaults to EOS."""
    TOKENIZER.backend.save(str(tmp_path / "tokenizer.json"))
    config = {"mask_token_id": MASK, "eos_token_id": EOS, "vocab_size": 262}
    ends = ("<|eot_id|>", "<|no_such|>")
    read = Tokenizer.read(tmp_path, config, TokenSpelling(template="{prompt}", ends=ends))
    assert (read.eos_ids, read.pad_id) == ((EOS, EOT), EOS)
    assert read.render("Hi") == ids("Hi")


def test_read_json_gives_the_object(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": [1, "é"]}', encoding="utf-8")
    assert read_json(tmp_path / "a.json") == {"a": [1, "é"]}
    with pytest.raises(CheckpointError, match=r"b\.json does not exist"):
        read_json(tmp_path / "b.json")


@given(PLAIN.filter(lambda text: "\ufffd" not in text))
def test_the_texts_of_the_tokens_are_the_text(text: str) -> None:
    """One token per byte: a character of several bytes stands with its first one.

    U+FFFD itself cannot be told from bytes that make no character.
    """
    texts = TOKENIZER.texts(ids(text))
    assert len(texts) == len(ids(text))
    assert "".join(texts) == text


def test_a_character_stands_with_the_first_of_its_bytes() -> None:
    """é has two bytes and the sign for euro three; an end token reads as its name."""
    assert TOKENIZER.texts([*ids("aé€"), EOS]) == ["a", "é", "", "€", "", "", "<|endoftext|>"]


def test_bytes_that_make_no_character_stay_unreadable() -> None:
    """The first byte of é, then an a; or both bytes with an end token between them."""
    first, second = ids("é")
    assert TOKENIZER.texts([first, *ids("a")]) == ["\ufffd", "a"]
    assert TOKENIZER.texts([first, EOS, second]) == ["\ufffd", "<|endoftext|>", "\ufffd"]
