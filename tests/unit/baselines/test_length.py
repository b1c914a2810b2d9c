"""Length and the count of critical tokens: what they count, and that fewer is more."""

from collections.abc import Callable

from remask.baselines.length import CriticalCount, Length
from remask.testing import check_scorer
from remask.values import Sample

Answer = Callable[..., Sample]


def digits(sample: Sample) -> list[bool]:
    return [letter.isdigit() for letter in sample.text]


def test_length_counts_the_end_token_and_not_the_tail(answer: Answer) -> None:
    """`ab` and its end are 3 tokens; without an end token the whole canvas is the response."""
    scores = Length().score([answer("ab..."), answer("abcd")])
    assert [score.value for score in scores] == [-3, -4]
    assert [score.forwards for score in scores] == [0, 0]


def test_the_count_is_of_critical_tokens_alone(answer: Answer) -> None:
    scores = CriticalCount(critical=digits).score([answer("a12b3."), answer("abc"), answer("7")])
    assert [score.value for score in scores] == [-3, 0, -1]


def test_both_keep_the_contract(answer: Answer) -> None:
    samples = [answer("a12b3."), answer("xy", prompt="longer")]
    check_scorer(Length(), samples)
    check_scorer(CriticalCount(critical=digits), samples)
    assert (Length().name, CriticalCount(critical=digits).name) == ("length", "critical_count")
