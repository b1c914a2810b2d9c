"""Critical tokens of samples: the text's critical places, token by token."""

from dataclasses import replace

import pytest

from remask import api
from remask.answers import extract_choice, extract_number
from remask.denoisers.native import NativeDenoiser
from remask.probes.marks import mark_critical
from remask.testing import tiny_tokenizer
from remask.values import Sample

QUESTION = "Which floats?\nA) iron nail\nB) dry cork"


@pytest.fixture
def sample() -> Sample:
    """One byte is one token; the end token is the last of the response."""
    tokenizer, text = tiny_tokenizer(), "Cork. Answer: B"
    ids = tokenizer.encode(text)
    return Sample(
        item="q", prompt=(), canvas=(*ids, tokenizer.eos_id, tokenizer.eos_id),
        num_response=len(ids) + 1, text=text,
    )  # fmt: skip


def marked(sample: Sample, marks: list[bool]) -> str:
    return "".join(c if hit else "." for c, hit in zip(sample.text + "|", marks, strict=True))


def test_the_words_of_an_option_count_where_the_question_is_known(sample: Sample) -> None:
    for item, shown in (("q", "Cork..........B."), ("other", "..............B.")):
        questions = {item: QUESTION}
        mark = mark_critical(tiny_tokenizer(), questions, extract=extract_choice, kind="choice")
        assert marked(sample, list(mark(sample))) == shown


def test_the_name_of_an_end_token_is_no_part_of_the_text(sample: Sample) -> None:
    """Its digits, had it any, would decide nothing: only the 7 of the text does."""
    tokenizer = tiny_tokenizer()
    ids = tokenizer.encode("so 7")
    seven = replace(sample, canvas=(*ids, tokenizer.eos_id), num_response=5, text="so 7")
    mark = mark_critical(tokenizer, {}, extract=extract_number)
    assert marked(seven, list(mark(seven))) == "...7."


def test_the_public_way_reads_answers_as_their_kind_is_read(
    llada: NativeDenoiser, sample: Sample
) -> None:
    tokenizer = llada.tokenizer
    ids = tokenizer.encode("Answer: B")
    own = replace(sample, canvas=(*ids, tokenizer.eos_id), num_response=10, text="Answer: B")
    public = api.critical_tokens(llada, {"q": QUESTION}, kind="choice")
    assert marked(own, list(public(own))) == "........B."
