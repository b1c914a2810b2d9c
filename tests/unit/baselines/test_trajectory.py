"""Votes of steps and their entropy, by hand.

The drafts of `9` were 8, 8, none (letters), 9: of 4 steps, weights 1, e, e^2, e^3 at alpha 4.
"""

import math
from collections.abc import Callable

import pytest

from remask.answers import extract_number
from remask.baselines.entropy import NO_TRACE
from remask.baselines.trajectory import NO_STEP, TemporalEntropy, TemporalVote
from remask.denoisers.tokenizer import Tokenizer
from remask.testing import check_scorer
from remask.values import Sample

Answer = Callable[..., Sample]
Drafted = Callable[..., Sample]  # of a canvas and its drafts


def number_of(sample: Sample) -> str | None:
    return extract_number(sample.text)


def test_a_step_is_read_as_the_text_it_would_have_been(
    drafted: Drafted, tokenizer: Tokenizer
) -> None:
    """What stands behind an end token is not read, nor a step that has not come to the end."""
    texts: list[str] = []

    def key(sample: Sample) -> str | None:
        texts.append(sample.text)
        return number_of(sample)

    one = drafted("a9..", "a7~~", "a8.7", "ab.7", "a8.~", "a9..")
    (score,) = TemporalVote(tokenizer=tokenizer, key=key, alpha=0).score([one])
    assert score.value == pytest.approx(1 / 3)  # of 8, 8 and 9
    assert texts == [one.text, "a8", "ab", "a9"]  # each text once


def test_the_vote_is_the_late_weighted_share_of_the_answer(
    drafted: Drafted, tokenizer: Tokenizer
) -> None:
    one = drafted("9", "8", "8", "x", "9")
    (score,) = TemporalVote(tokenizer=tokenizer, key=number_of, alpha=4).score([one])
    assert score.value == pytest.approx(math.exp(3) / (1 + math.e + math.exp(3)))
    (flat,) = TemporalVote(tokenizer=tokenizer, key=number_of, alpha=0).score([one])
    assert flat.value == pytest.approx(1 / 3)
    assert score.forwards == 0


def test_an_answer_nobody_can_read_has_no_vote(drafted: Drafted, tokenizer: Tokenizer) -> None:
    voting = TemporalVote(tokenizer=tokenizer, key=number_of)
    lost, never = voting.score([drafted("x", "8", "x"), drafted("x", "y", "x")])
    assert (lost.value, never.value) == (0, 0)
    (alone,) = voting.score([drafted("9", "~")])
    assert (alone.value, alone.reason) == (None, NO_STEP)


def test_the_entropy_is_over_the_answers_of_the_steps(
    drafted: Drafted, tokenizer: Tokenizer
) -> None:
    """Two of three readable steps say 8, one says 9; a single answer has entropy 0."""
    scorer = TemporalEntropy(tokenizer=tokenizer, key=number_of)
    mixed, steady, silent = scorer.score(
        [drafted("9", "8", "8", "x", "9"), drafted("9", "9", "9"), drafted("x", "y", "x")]
    )
    assert mixed.value == pytest.approx(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    assert steady.value == 0
    assert (silent.value, silent.reason) == (None, NO_STEP)
    assert mixed.forwards == 0


def test_both_keep_the_contract_and_say_what_they_lack(
    drafted: Drafted, tokenizer: Tokenizer, answer: Answer
) -> None:
    samples = [drafted("9", "8", "9"), answer("7"), drafted("a4.", "a3~", "a4.")]
    for scorer in (
        TemporalVote(tokenizer=tokenizer, key=number_of),
        TemporalEntropy(tokenizer=tokenizer, key=number_of),
    ):
        check_scorer(scorer, samples)
        absent = scorer.score(samples)[1]
        assert (absent.value, absent.reason) == (None, NO_TRACE)
