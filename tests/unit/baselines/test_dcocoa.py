"""D-CoCoA by hand: likelihood times dissimilarity, and what lacks a trace."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from remask.baselines.dcocoa import DCoCoA, dissimilarity
from remask.baselines.entropy import NO_TRACE
from remask.baselines.likelihood import Perplexity
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Counted
from remask.testing import check_scorer
from remask.values import Sample

Answer = Callable[..., Sample]
Drafted = Callable[..., Sample]  # of a canvas and its drafts
ByPlace = Callable[[Sequence[Mapping[str, float]]], Denoiser]


def test_dissimilarity_is_the_share_of_predicted_tokens_that_changed(
    drafted: Drafted,
) -> None:
    """`xb` of `ab.` is half, `ab.` nothing, `xyz` all, and the tail is not compared: 1/2 of 3."""
    sample = drafted("ab..", "xb~~", "ab.z", "xyz.")
    assert sample.trace is not None
    assert dissimilarity(sample, sample.trace) == pytest.approx((1 / 2 + 0 + 1) / 3)


def test_the_value_is_the_product(by_place: ByPlace, drafted: Drafted) -> None:
    """Log-probability log .5 wherever it looks; half of one of two drafts was changed: 1/4."""
    model = by_place([{"a": 0.5, "x": 0.5}, {"b": 0.5, "x": 0.5}])
    (score,) = DCoCoA(denoiser=model, draws=3).score([drafted("ab", "xb", "ab")])
    assert score.value == pytest.approx(math.log(0.5) / 4)
    assert score.by_metric == pytest.approx(
        {"masked_likelihood": math.log(0.5), "dissimilarity": 0.25}
    )
    assert score.forwards == 3


def test_a_likely_answer_and_a_steady_one_are_trusted_more(
    by_place: ByPlace, drafted: Drafted
) -> None:
    wavering, steady = drafted("ab", "xy", "ab"), drafted("ab", "xb", "ab")
    values = []
    for p in (0.5, 0.9):
        model = by_place([{"a": p, "x": 1 - p}, {"b": p, "x": 1 - p}])
        values += [score.rank for score in DCoCoA(denoiser=model).score([wavering, steady])]
    assert values[0] < values[1] < values[3]
    assert values[0] < values[2] < values[3]


def test_an_answer_without_a_trace_costs_nothing(
    llada: NativeDenoiser, drafted: Drafted, answer: Answer
) -> None:
    counted = Counted(llada)
    absent, present = DCoCoA(denoiser=counted, draws=4).score([answer("ab"), drafted("ab", "xb")])
    assert (absent.value, absent.reason, absent.forwards) == (None, NO_TRACE, 0)
    assert present.forwards == counted.forwards == 4
    assert DCoCoA(denoiser=counted).score([answer("ab")])[0].value is None
    unstepped = replace(drafted("."), text="a")  # it took no step
    assert DCoCoA(denoiser=counted).score([unstepped])[0].reason == NO_TRACE


def test_its_likelihood_is_that_of_the_perplexity(
    llada: NativeDenoiser, block_causal: NativeDenoiser, drafted: Drafted
) -> None:
    samples = [drafted("abcdefg.", "xbcdefg."), drafted("xy", "xx", prompt="longer")]
    for model in (llada, block_causal):
        scores = DCoCoA(denoiser=model, draws=3, seed=5).score(samples)
        plain = Perplexity(denoiser=model, draws=3, seed=5).score(samples)
        means = [score.by_metric["masked_likelihood"] for score in scores]
        assert means == pytest.approx([score.value for score in plain])
        check_scorer(DCoCoA(denoiser=model, draws=3), samples)
