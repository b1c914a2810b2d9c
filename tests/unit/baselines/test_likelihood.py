"""Perplexity under random masks: by hand, by listing every mask, and block by block."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import fmean

import pytest
import torch
from torch import Tensor
from wrapped import Twice

from remask import rng
from remask.baselines.likelihood import Perplexity, masked_log_likelihood, random_masks
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Counted
from remask.errors import DenoiserError, InputError
from remask.sampling.batches import finished_rows
from remask.testing import check_scorer
from remask.values import Canvas, Sample

Answer = Callable[..., Sample]
ByPlace = Callable[[Sequence[Mapping[str, float]]], Denoiser]
CPU = torch.device("cpu")


def masks(canvas: Canvas, response: Tensor, number: int) -> list[tuple[int, ...]]:
    """Return the masked columns of `number` draws for the first row of a batch."""
    rows = Canvas(
        tokens=canvas.tokens[:1].expand(number, -1),
        canvas=canvas.canvas[:1].expand(number, -1),
        attend=None,
    )
    keys = rng.keys(0, ["item"] * number, "perplexity/0", range(number), CPU)
    drawn = random_masks(rows, response[:1].expand(number, -1), keys)
    return [tuple(row.nonzero()[:, 0].tolist()) for row in drawn]


def test_one_token_is_masked_in_every_draw(by_place: ByPlace, answer: Answer) -> None:
    (score,) = Perplexity(denoiser=by_place([{"a": 0.3, "x": 0.7}]), draws=3).score([answer("a")])
    assert score.value == pytest.approx(math.log(0.3))
    assert score.forwards == 3


def test_a_draw_is_the_mean_over_what_it_masks(by_place: ByPlace, answer: Answer) -> None:
    """Of .5 and .125 a draw sees the one, the other or both: -1, -3 or -2 times log 2."""
    model = by_place([{"a": 0.5, "x": 0.5}, {"b": 0.125, "x": 0.875}])
    sample = answer("ab")
    canvas, response = finished_rows(model, [sample])
    draws = masks(canvas, response, 20)
    assert {len(draw) for draw in draws} == {1, 2}
    by_draw = {(1,): -1.0, (2,): -3.0, (1, 2): -2.0}
    (mean,) = masked_log_likelihood(model, [sample], draws=20)
    assert mean == pytest.approx(fmean(by_draw[draw] for draw in draws) * math.log(2), rel=1e-5)


def test_every_number_of_masks_is_equally_likely_and_so_is_every_place(answer: Answer) -> None:
    """1,200 draws of 3 places: 400 of each size, and of one or two masks every choice alike."""
    canvas = Canvas.of([(5, 6)], [answer("ab.").canvas], 0, CPU)
    seen = Counter(masks(canvas, canvas.canvas, 1200))
    assert sum(seen.values()) == 1200
    assert abs(seen[(2, 3, 4)] - 400) < 70  # sd 16
    for size in (1, 2):
        for places in combinations((2, 3, 4), size):
            assert abs(seen[places] - 400 / 3) < 50  # sd 11


def test_the_tail_is_never_masked(llada: NativeDenoiser, answer: Answer) -> None:
    canvas, response = finished_rows(llada, [answer("ab....")])
    assert {place for draw in masks(canvas, response, 50) for place in draw} == {1, 2, 3}


def test_many_draws_come_to_the_mean_over_all_masks(
    enumerable_llada: NativeDenoiser, answer: Answer
) -> None:
    """The 7 masks of three tokens, weighed 1/9 (one or two masked) and 1/3 (all three)."""
    model = enumerable_llada
    ids = model.tokenizer.encode("abc")
    sample = replace(answer("abc"), prompt=(ids[0],), canvas=tuple(ids))
    expected = 0.0
    for size in (1, 2, 3):
        chosen = list(combinations((1, 2, 3), size))
        for places in chosen:
            tokens = torch.tensor([[ids[0], *ids]])
            tokens[0, list(places)] = model.tokenizer.mask_id
            canvas = Canvas(tokens=tokens, canvas=torch.arange(4)[None] > 0, attend=None)
            logits = model.head(model.hidden(canvas)[0])
            logits[:, model.tokenizer.mask_id] = -torch.inf
            logp = logits.log_softmax(1)
            mean = fmean(float(logp[place, ids[place - 1]]) for place in places)
            expected += mean / 3 / len(chosen)
    (drawn,) = masked_log_likelihood(model, [sample], draws=4000)
    assert drawn == pytest.approx(expected, abs=0.02)


def test_a_block_is_noisy_behind_clean_ones(block_causal: NativeDenoiser, answer: Answer) -> None:
    sample = answer("abcdefgh", prompt="pqrs")
    canvas, response = finished_rows(block_causal, [sample])
    draws = [list(draw) for draw in masks(canvas, response, 6)]
    assert any(min(draw) < 8 <= max(draw) for draw in draws)
    by_draw = []
    for draw in draws:
        logp = []
        for start in (4, 8):
            places = [place for place in draw if start <= place < start + 4]
            tokens = canvas.tokens[:, : start + 4].clone()
            tokens[0, places] = block_causal.tokenizer.mask_id
            part = Canvas(tokens=tokens, canvas=canvas.canvas[:, : start + 4], attend=None)
            logits = block_causal.head(block_causal.hidden(part)[0])
            logits[:, block_causal.tokenizer.mask_id] = -torch.inf
            table = logits.log_softmax(1)
            logp += [float(table[place, canvas.tokens[0, place]]) for place in places]
        by_draw.append(fmean(logp))
    (mean,) = masked_log_likelihood(block_causal, [sample], draws=6)
    assert mean == pytest.approx(fmean(by_draw), abs=1e-5)


def test_masks_belong_to_the_answer_and_the_seed(llada: NativeDenoiser, answer: Answer) -> None:
    one = answer("abcdefgh")
    others = [answer("abcdefgh", item="other"), answer("abcdefgh", number=1)]
    first, *rest = masked_log_likelihood(llada, [one, *others], draws=2)
    assert len({first, *rest}) == 3
    assert masked_log_likelihood(llada, [one], draws=2, seed=1) != [first]
    assert masked_log_likelihood(llada, [one], draws=2) == pytest.approx([first])


def test_the_cost_is_counted(
    llada: NativeDenoiser, block_causal: NativeDenoiser, answer: Answer
) -> None:
    """A model with blocks is shown the clean row beside the noisy one: such a pass is two."""
    for model, price in ((llada, 1), (block_causal, 2)):
        counted = Counted(model)
        scores = Perplexity(denoiser=counted, draws=3).score([answer("abc"), answer("defgh")])
        assert counted.forwards == 6
        assert sum(score.forwards for score in scores) == 6 * price
    (dear,) = Perplexity(denoiser=Twice(llada), draws=3).score([answer("abc")])
    assert dear.forwards == 6


def test_perplexity_keeps_the_contract(
    llada: NativeDenoiser, block_causal: NativeDenoiser, answer: Answer
) -> None:
    samples = [answer("abcdefg."), answer("xy", prompt="longer"), answer("1234567", prompt="pp")]
    for model in (llada, block_causal):
        check_scorer(Perplexity(denoiser=model, draws=3), samples)


def test_what_cannot_be_read_is_refused(
    scripted: Callable[..., Denoiser], block_causal: NativeDenoiser, answer: Answer
) -> None:
    broken = scripted(lambda canvas: torch.full((*canvas.tokens.shape, 259), torch.nan))
    with pytest.raises(DenoiserError, match="finite, got NaN"):
        masked_log_likelihood(broken, [answer("ab")])
    with pytest.raises(InputError, match="more than the 64"):
        masked_log_likelihood(block_causal, [answer("a" * 64)])
