"""Drift is laid along the text of an answer only where its tokens spell it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.collect.collect import collect
from remask.collect.settings import CollectSettings
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.tokenizer import Tokenizer
from remask.records.record import Record, read_records
from remask.report.drift_spans import CUT, END, cut, laid, painted, patterned, shown
from remask.sampling.settings import SamplerSettings

Make = Callable[..., Record]


def test_pieces_that_spell_the_text_carry_their_drift() -> None:
    spans = laid("1+1=3", ["1", "+", "1", "=", "3", "<eos>"], [0.0, 0.0, 0.5, None, 1.0, 0.0])
    assert spans == [("1", 0), ("+", 0), ("1", 0.5), ("=", None), ("3", 1), ("<eos>", 0)]


@pytest.mark.parametrize(
    ("pieces", "drift"),
    [(["1", "+"], [0.0]), (["1", "-"], [0.0, 0.0]), (["1"], [0.0]), (["1", "+", "2"], [0.0] * 3)],
)
def test_pieces_that_do_not_spell_the_text_paint_nothing(
    pieces: list[str], drift: list[float | None]
) -> None:
    assert laid("1+", pieces, drift) is None


def test_tokens_that_share_a_character_have_the_drift_of_the_worst() -> None:
    """The two bytes of é are two tokens, and each alone reads as U+FFFD."""
    pieces = ["caf", "\ufffd", "\ufffd", "!", "<eos>"]
    spans = laid("café!", pieces, [0.0, 0.25, None, 0.5, 0.0])
    assert spans == [("caf", 0), ("é", 0.25), ("!", 0.5), ("<eos>", 0)]
    assert laid("é", ["\ufffd", "\ufffd"], [None, None]) == [("é", None)]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_the_pieces_of_any_text_spell_it(tokenizer: Tokenizer, text: str) -> None:
    """One token per byte: the hardest case. Where characters look alike nothing may be painted."""
    ids = [*tokenizer.encode(text), tokenizer.eos_id]
    spans = laid(text, tokenizer.pieces(ids), [0.0] * len(ids))
    if text.isascii():
        assert spans is not None
    if spans is not None:
        assert "".join(piece for piece, _ in spans) == text + "<eos>"


def test_equal_neighbours_are_one_run_in_per_cent(make_record: Make) -> None:
    drift = [0, 0, 1 / 3, 1 / 3, None]
    row = replace(make_record(), text="1+1=3", pieces=list("1+1=3"), drift=drift)
    assert painted(row, by_pattern=False) == [("1+", 0), ("1=", 33), ("3", None)]


def test_older_records_are_painted_where_the_pattern_fits_their_file(make_record: Make) -> None:
    "The pieces are Ann, has, a blank, 1, 2 and the full stop; then comes the end token."
    row = replace(make_record(), text="Ann has 12.", drift=[0.0, 0, 0, 0.5, 0, 0, 0])
    assert painted(row, by_pattern=True) == [("Ann has ", 0), ("1", 50), (f"2.{END}", 0)]
    assert painted(row, by_pattern=False) is None
    other = replace(row, drift=[0.0, 0.0])
    assert painted(other, by_pattern=True) is None
    assert patterned([row] * 9 + [other])
    assert not patterned([row] * 8 + [other])
    assert not patterned([])


def test_an_answer_without_round_trips_has_nothing_to_paint(make_record: Make) -> None:
    row = replace(make_record(), drift=[])
    assert painted(row, by_pattern=True) is None


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\nb\tc", "a\nb\tc"),
        ("a\x00b\r", "a\\x00b\\r"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ud800", "\\ud800"),
        ("naïve 漢字 👩\u200d🔬 ❤\ufe0f", "naïve 漢字 👩\u200d🔬 ❤\ufe0f"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_would_not_be_seen_is_written_out(text: str, seen: str) -> None:
    assert shown(text) == seen


def test_a_long_text_is_cut_and_says_so(make_record: Make) -> None:
    assert cut("a" * CUT) == "a" * CUT
    assert cut("a" * 1_000_000) == "a" * CUT + " [... 980,000 more characters]"
    row = replace(make_record(), text="ab" * CUT, pieces=["ab"] * CUT, drift=[0.0] * CUT)
    runs = painted(row, by_pattern=False)
    assert runs == [("ab" * (CUT // 2), 0), (" [... 20,000 more characters]", None)]


def test_collected_records_can_be_painted(llada: NativeDenoiser, tmp_path: Path) -> None:
    sampler = SamplerSettings(length=12, steps=12, block=12)
    settings = CollectSettings(task="countdown", problems=2, sampler=sampler, metrics="core")
    for row in read_records(collect(llada, settings, tmp_path / "r.jsonl")):
        assert isinstance(row, Record)
        assert len(row.pieces or ()) == len(row.drift)
        runs = painted(row, by_pattern=False)
        if row.text.isascii():
            assert runs is not None
