"""What the terminal shows: nothing that steers it, and marks that line up."""

import io
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from remask.cli import json_output, terminal
from remask.testing import tiny_tokenizer
from remask.values import Score
from remask.verifier.threshold import ScoreThreshold

SPANS = st.lists(st.tuples(st.text(max_size=30), st.none() | st.floats(0, 1)), max_size=8)


@given(st.text())
def test_escaped_text_is_printable_and_printable_text_is_left_alone(text: str) -> None:
    assert terminal.escape(text).isprintable()
    if text.isprintable():
        assert terminal.escape(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [("\x1b[2J", "\\x1b[2J"), ("a\tb", "a\\tb"), ("\u202e", "\\u202e"), ("\x9b", "\\x9b")],
)
def test_what_a_terminal_obeys_is_written_out(text: str, shown: str) -> None:
    assert terminal.escape(text) == shown


def test_a_paragraph_keeps_its_lines() -> None:
    assert terminal.paragraph("a\nb\r\x1b\n") == "a\nb\\r\\x1b\n"


@given(SPANS, st.integers(20, 60))
def test_marks_are_as_wide_as_their_line_and_fit(
    tokens: list[tuple[str, float | None]], width: int
) -> None:
    for words, marks in terminal.drift_lines(tokens, width):
        assert words.cell_len == marks.cell_len <= width
        assert words.plain.isprintable()


def test_each_share_has_its_mark() -> None:
    """Of 4 trips that masked a token, 0 to 4 lost it: 0, .25, .5, .75, 1; of 3, one: .33."""
    tokens = [
        ("a", 0.0),
        ("b", 0.25),
        ("c", 1 / 3),
        ("d", 0.5),
        ("e", 0.75),
        ("f", 1.0),
        ("g", None),
    ]
    ((words, marks),) = terminal.drift_lines(tokens, 80)
    assert (words.plain, marks.plain) == ("abcdefg", " .--=#?")


def test_a_token_that_was_read_is_marked_by_the_chance_of_another() -> None:
    """Chances of .999, .8, .4 and .01 leave 0, .2, .6 and .99 to others, in whole percents."""
    chances = [0.999, 0.8, 0.4, 0.01]
    doubts = terminal.doubts([*map(math.log, chances), None])
    assert doubts == [0.0, 0.2, 0.6, 0.99, None]
    ((_, marks),) = terminal.drift_lines(zip("abcde", doubts, strict=True), 80)
    assert marks.plain == " .=#?"


def test_lines_break_where_the_answer_does_and_before_a_token_that_does_not_fit() -> None:
    tokens = [("one\ntwo", 1.0), (" three" * 2, 0.0), ("漢" * 5, 1.0)]
    lines = [(words.plain, marks.plain) for words, marks in terminal.drift_lines(tokens, 20)]
    assert lines == [
        ("one↵", "####"),
        ("two three three", "###" + " " * 12),  # 漢 is two columns wide: 10 more do not fit
        ("漢" * 5, "#" * 10),
    ]


def test_tokens_of_one_character_are_joined_under_their_largest_drift() -> None:
    tokenizer = tiny_tokenizer()
    ids = tokenizer.encode("aé漢🦆")
    assert len(ids) == 1 + 2 + 3 + 4
    drift = [0.0, 0.25, 0.5, None, 1.0, None, None, None, None, None]
    assert terminal.spans(tokenizer, ids, drift) == [
        ("a", 0.0),
        ("é", 0.5),
        ("漢", 1.0),
        ("🦆", None),
    ]


def test_a_byte_that_completes_no_character_is_shown_as_such() -> None:
    tokenizer = tiny_tokenizer()
    (first, _) = tokenizer.encode("é")
    (letter,) = tokenizer.encode("a")
    assert terminal.spans(tokenizer, [first, letter], [1.0, 0.0]) == [("\ufffd", 1.0), ("a", 0.0)]


def test_the_end_of_the_answer_is_shown_by_its_name() -> None:
    assert terminal.spans(tiny_tokenizer(), [0], [0.5]) == [("<|endoftext|>", 0.5)]


@pytest.mark.parametrize(("value", "full"), [(0.0, 0), (0.5, 10), (1.0, 20), (-0.3, 0), (1.7, 20)])
def test_a_bar_is_as_long_as_its_value(value: float, full: int) -> None:
    console = Console(file=io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert terminal.bar(console, value) == "#" * full + "." * (20 - full)


def test_a_score_is_told_with_its_error_or_its_reason() -> None:
    assert terminal.score_text(Score(value=0.8125, stderr=0.0312)) == "0.812 ± 0.031"
    assert terminal.score_text(Score(value=0.8125)) == "0.812"
    assert terminal.score_text(Score(value=None, reason="nothing")) == "no score (nothing)"


@pytest.mark.parametrize(
    ("score", "threshold", "line"),
    [
        (
            Score(value=0.9, stderr=0.01),
            0.82,
            "score 0.900 ± 0.010: trust, above the threshold 0.82 (given)",
        ),
        (Score(value=0.5), 0.82, "score 0.500: doubt, not above the threshold 0.82 (given)"),
        (
            Score(value=0.812, stderr=0.056),
            0.82,
            "score 0.812 ± 0.056: undecided, within one standard error of the threshold 0.82 "
            "(given)",
        ),
        (
            Score(value=None, reason="no text"),
            0.82,
            "no score (no text): unknown",
        ),
    ],
)
def test_a_verdict_is_one_of_four_words(
    score: Score, threshold: float, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = ScoreThreshold(value=threshold, source="given")
    terminal.show_verdict(score, limit, [("7", 0.0)], "7", {})
    assert line in capsys.readouterr().out.splitlines()
    document = json_output.scored("7", score, limit, lambda text: text)
    assert document["verdict"] == score.verdict(threshold)


def test_the_stage_that_settled_an_answer_stands_with_its_cost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    score = Score(value=0.9, logp=(-0.1,), forwards=1, stage="critical", scorer="verifier")
    terminal.show_verdict(score, ScoreThreshold(), [("7", 0.1)], "7", {})
    assert capsys.readouterr().out.endswith("cost: 1 forward, settled at stage critical\n")
    assert (
        json_output.scored("7", score, ScoreThreshold(), lambda text: text)["stage"] == "critical"
    )
    assert "stage" not in json_output.scored(
        "7", replace(score, stage=""), ScoreThreshold(), lambda text: text
    )


def test_a_score_that_is_no_probability_for_want_of_labels_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    score = Score(value=0.9, reason="4 are too few", scorer="verifier")
    terminal.show_verdict(score, ScoreThreshold(), [("7", 0.1)], "7", {})
    assert "no probability: 4 are too few" in capsys.readouterr().out.splitlines()
    document = json_output.scored("7", score, ScoreThreshold(), lambda text: text)
    assert (document["reason"], "error" in document) == ("4 are too few", False)
