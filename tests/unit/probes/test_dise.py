"""DiSE by hand, against the contract, and block by block."""

import math
from collections.abc import Callable, Mapping, Sequence

import pytest
from wrapped import Twice

from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Counted
from remask.probes.scorer import DiSE
from remask.testing import check_scorer
from remask.values import Canvas, Sample

Answer = Callable[..., Sample]
ByPlace = Callable[[Sequence[Mapping[str, float]]], Denoiser]


def test_the_value_is_the_mean_log_probability_of_the_response(
    by_place: ByPlace, answer: Answer
) -> None:
    """Of `ab` and its end: (log .5 + log .25 + log .125) / 3 = -2 log 2; the tail is not read."""
    model = by_place([{"a": 0.5, "x": 0.5}, {"b": 0.25, "x": 0.75}, {".": 0.125, "x": 0.875}])
    (score,) = DiSE(denoiser=model).score([answer("ab..")])
    assert score.value == pytest.approx(-2 * math.log(2))


def test_the_mask_token_is_no_rival(by_place: ByPlace, answer: Answer) -> None:
    """Without `_` the token `a` has .3 / .5."""
    model = by_place([{"_": 0.5, "a": 0.3, "x": 0.2}])
    (score,) = DiSE(denoiser=model).score([answer("a")])
    assert score.value == pytest.approx(math.log(0.6))


def test_an_answer_costs_one_forward_pass(llada: NativeDenoiser, answer: Answer) -> None:
    counted = Counted(llada)
    scores = DiSE(denoiser=counted).score([answer("abc"), answer("d")])
    assert [score.forwards for score in scores] == [1, 1]
    assert counted.forwards == 2
    (dear,) = DiSE(denoiser=Twice(llada)).score([answer("abc")])
    assert dear.forwards == 2


def test_dise_keeps_the_contract(
    llada: NativeDenoiser, block_causal: NativeDenoiser, answer: Answer
) -> None:
    samples = [answer("abcdefg."), answer("xy", prompt="longer"), answer("1234567", prompt="pp")]
    for model in (llada, block_causal):
        check_scorer(DiSE(denoiser=model), samples)


def test_a_block_is_read_without_the_blocks_behind_it(
    block_causal: NativeDenoiser, answer: Answer
) -> None:
    """Prompt and answer fill blocks of 4: the first 8 columns alone say the same of themselves."""
    sample = answer("abcdefgh", prompt="pqrs")
    tokens = (*sample.prompt, *sample.canvas)
    expected = []
    for end in (8, 12):
        canvas = Canvas.of([tokens[:4]], [tokens[4:end]], 0, block_causal.device)
        logits = block_causal.head(block_causal.hidden(canvas)[0, -4:])
        logits[:, block_causal.tokenizer.mask_id] = -math.inf
        logp = logits.log_softmax(1)
        expected += [float(logp[i, tokens[end - 4 + i]]) for i in range(4)]
    (score,) = DiSE(denoiser=block_causal).score([sample])
    assert score.value == pytest.approx(sum(expected) / 8, abs=1e-5)
