"""Rows as others write them: what is read, what is refused, what is left out and counted."""

import json
from pathlib import Path
from typing import Any

import ancestors
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.denoisers.tokenizer import Tokenizer
from remask.errors import InputError, RecordError
from remask.pretrain.adapt_rows import Pair, encode_rows, read_pairs

TEMPLATE = "<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
TEXTS = st.text(alphabet=st.characters(exclude_categories=("Cs",)), min_size=1).filter(str.strip)


def tokenizer(template: str = TEMPLATE, **changes: Any) -> Tokenizer:
    return Tokenizer(
        backend=ancestors.backend(), mask_id=ancestors.REPO, eos_ids=(ancestors.END,),
        pad_id=ancestors.END, template=template, **changes,
    )  # fmt: skip


def encoded(*pairs: tuple[str, str], canvas: int = 64, longest: int = 256, **changes: Any) -> Any:
    rows = [Pair(*pair, f"rows.jsonl line {i}") for i, pair in enumerate(pairs, 1)]
    return encode_rows(rows, tokenizer(**changes), canvas=canvas, longest=longest)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1))
def test_any_text_is_read_as_it_was_written(tmp_path_factory: Any, texts: list[Any]) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    rows = [{"prompt": p, "response": r, "other": None} for p, r in texts]
    path.write_text("".join(json.dumps(row) + "\n\n" for row in rows), encoding="utf-8")
    pairs = read_pairs([path, path])
    assert [pair[:2] for pair in pairs] == texts * 2
    assert pairs[0].where == f"{path} line 1"


def refusal(path: Path) -> str:
    with pytest.raises((InputError, RecordError)) as caught:
        read_pairs([path])
    return str(caught.value)


# Bytes that are two objects with both texts are not drawn by chance.
@given(st.binary())
def test_bytes_that_are_no_rows_are_one_sentence(tmp_path_factory: Any, content: bytes) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_bytes(content)
    sentence = refusal(path)
    assert sentence.startswith((str(path), f"rows {path}"))
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", r"rows .*rows\.jsonl holds no rows; name"),
        ("{", r"line 1 is not valid JSON"),
        ("[]", r"is a JSON array"),
        ('{"prompt": "a"}', r"line 1 has response None; it must be a text that is not empty\."),
        ('{"prompt": " ", "response": "b"}', r"line 1 has prompt ' '; it must be a text"),
        ('{"prompt": "a", "response": 3}', r"line 1 has response 3; it must be a text"),
    ],
)
def test_what_is_no_row_is_refused_with_its_line(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(line)
    with pytest.raises((InputError, RecordError), match=message):
        read_pairs([tmp_path / "rows.jsonl"])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"rows .*absent is no file; name one of JSON lines"):
        read_pairs([tmp_path / "absent"])


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4))
def test_a_row_is_the_rendered_prompt_and_the_response(texts: list[Any]) -> None:
    """The same ids as everywhere in the package, row by row."""
    one = tokenizer()
    rows = encoded(*texts, canvas=10_000, longest=100_000)
    for number, (prompt, response) in enumerate(texts):
        ids = rows.ids[rows.starts[number] : rows.starts[number + 1]].tolist()
        assert ids == one.render(prompt) + one.encode(response)
        assert rows.num_prompt[number] == len(one.render(prompt))
        assert rows.num_response[number] == len(one.encode(response))


def test_a_template_that_trims_trims() -> None:
    ids = encoded((" a ", "b"), trims=True).ids.tolist()
    assert ids == encoded(("a", "b")).ids.tolist() != encoded((" a ", "b")).ids.tolist()


def test_rows_without_room_are_counted_by_hand() -> None:
    """A response of 3 letters and an end fill a canvas of 4.

    Start, user and a line end are 6 tokens, the end of the turn 2, start, assistant and a line end
    11: 19, and the letter of the prompt.
    """
    fits, long, longer = ("q", "abc"), ("q", "abcd"), ("qqqqq", "abc")
    rows = encoded(fits, long, longer, canvas=4, longest=24)
    assert rows.num_prompt.tolist() == [20]
    assert rows.num_response.tolist() == [3]
    assert rows.num_dropped == 2
    with pytest.raises(InputError, match=r"all 1 rows are left out: none fits .* into canvas 4"):
        encoded(long, canvas=4)


def test_rows_are_laid_out_with_a_tail_of_ends() -> None:
    rows = encoded(("q", "ab"), ("q", "abcd"))
    batch = rows.lay_out(np.array([1, 0, 1]), 26, ancestors.END)
    assert batch.shape == (3, 26)
    assert batch[1, 22:].tolist() == [ancestors.END] * 4
    assert batch[0].tolist() == batch[2].tolist() == [*rows.ids[22:].tolist(), 2, 2]


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("a<|im_end|>", "b"), r"rows\.jsonl line 1: the prompt contains the special token"),
        (("a", "b<reponame>"), r"rows\.jsonl line 1: the response contains the mask token"),
        (("a", "\ud800"), r"rows\.jsonl line 1: the response is not valid unicode"),
    ],
)
def test_what_is_no_text_is_refused_with_its_line(pair: tuple[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        encoded(pair)


def test_other_rows_have_another_digest() -> None:
    assert encoded(("q", "ab")).digest() == encoded(("q", "ab")).digest()
    assert encoded(("q", "ab")).digest() != encoded(("q", "ac")).digest()
