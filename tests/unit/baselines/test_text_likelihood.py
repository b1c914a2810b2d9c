"""How probable a text is: by hand, against every order of writing, and as greedy decoding."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from statistics import fmean

import pytest
import torch

from remask.baselines.likelihood import masked_log_likelihood
from remask.baselines.text_likelihood import log_likelihood
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Counted
from remask.sampling.likelihood import log_likelihood as log_p
from remask.values import Canvas, Sample

Answer = Callable[..., Sample]
ByPlace = Callable[[Sequence[Mapping[str, float]]], Denoiser]


def test_one_token_takes_one_pass_and_no_token_none(by_place: ByPlace, answer: Answer) -> None:
    model = by_place([{"a": 0.3, "x": 0.7}])
    counted = Counted(model)
    one, none = log_likelihood(counted, [answer("a"), answer("")], draws=9)
    assert one.logp == pytest.approx(math.log(0.3))
    assert (one.forwards, one.is_greedy) == (1, None)
    assert (none.logp, none.forwards) == (0.0, 0)
    assert log_likelihood(counted, [answer("")], greedy=True)[0].is_greedy is True


def test_it_is_the_mean_of_the_masks_times_the_length(by_place: ByPlace, answer: Answer) -> None:
    """Independent places: every mask of them all, and so the sum of their logarithms."""
    model = by_place([{"a": 0.5, "x": 0.5}, {"b": 0.5, "x": 0.5}, {"c": 0.5, "x": 0.5}])
    (found,) = log_likelihood(model, [answer("abc")], draws=7)
    assert found.logp == pytest.approx(3 * math.log(0.5))
    assert found.forwards == 7
    other = by_place([{"a": 0.5, "x": 0.5}, {"b": 0.125, "x": 0.875}])
    (mean,) = masked_log_likelihood(other, [answer("ab")], draws=20)
    assert log_likelihood(other, [answer("ab")], draws=20)[0].logp == pytest.approx(2 * mean)


def test_it_comes_to_the_mean_log_probability_over_all_orders_of_writing(
    enumerable_llada: NativeDenoiser,
) -> None:
    """The bound is what an any-order model gives a text, averaged over the six orders."""
    model = enumerable_llada
    ids = tuple(model.tokenizer.encode("acb"))
    sample = Sample(item="x", prompt=(4, 3), canvas=ids, num_response=3, text="acb")

    def along(order: Sequence[int]) -> float:
        total = 0.0
        for done in range(3):
            canvas = Canvas.of([(4, 3)], [ids], 0, torch.device("cpu"))
            masked = torch.tensor([[False, False, *(k in order[done:] for k in range(3))]])
            total += float(log_p(model, canvas, masked)[0, 2 + order[done]])
        return total

    exact = fmean(along(order) for order in permutations(range(3)))
    (found,) = log_likelihood(model, [sample], draws=3000)
    assert found.logp == pytest.approx(exact, abs=0.15)


def test_greedy_is_what_greedy_decoding_writes(by_place: ByPlace, answer: Answer) -> None:
    model = by_place([{"a": 0.6, "b": 0.4}, {"b": 0.9, "a": 0.1}])
    samples = [answer(text) for text in ("ab", "bb", "a", "b", "")]
    found = log_likelihood(model, samples, draws=2, greedy=True)
    assert [one.is_greedy for one in found] == [True, False, True, False, True]
    assert [one.forwards for one in found] == [4, 4, 2, 2, 0]


def test_alone_and_together_are_the_same_and_a_seed_is_another_estimate(
    llada: NativeDenoiser, block_causal: NativeDenoiser, answer: Answer
) -> None:
    for model in (llada, block_causal):
        samples = [answer("abc"), answer("abd"), answer("a", item="other"), answer("abcdef")]
        together = log_likelihood(model, samples, draws=4, greedy=True)
        for sample, found in zip(samples, together, strict=True):
            (alone,) = log_likelihood(model, [sample], draws=4, greedy=True)
            assert alone.logp == pytest.approx(found.logp, abs=1e-4)
            assert (alone.is_greedy, alone.forwards) == (found.is_greedy, found.forwards)
    values = [log_likelihood(llada, [answer("abc")], draws=4, seed=k)[0].logp for k in range(2)]
    assert abs(values[0] - values[1]) > 1e-6
