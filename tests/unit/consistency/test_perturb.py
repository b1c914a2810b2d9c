"""Which tokens are masked again: shares, guarantees, and what the draw does not depend on."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest
from torch import Tensor

from remask import rng
from remask.consistency.roundtrips import independent_masks, stratified_masks, uniform_ratio
from remask.values import Canvas

CPU = torch.device("cpu")


def rows(shapes: Sequence[tuple[int, int, int]]) -> tuple[Canvas, Tensor]:
    """Return rows of (prompt, response, tail) tokens, and where their responses are."""
    canvas = Canvas.of(
        [[5] * p for p, _, _ in shapes], [[6] * (r + t) for _, r, t in shapes], 0, CPU
    )
    ends = torch.tensor([r for _, r, _ in shapes])
    return canvas, canvas.canvas & (canvas.offsets < ends[:, None])


def keys(num: int, purpose: str = "perturb", start: int = 0) -> Tensor:
    return rng.keys(0, [f"item{i}" for i in range(start, start + num)], purpose, 0, CPU)


def test_each_position_is_masked_with_the_ratio() -> None:
    """400 rows of 50 places at 0.3: the share has a standard error of sqrt(.21 / 20000) = 0.0032.

    Response and tail have the same share, and so has each place: 120 of 400, give or take 9.2.
    """
    canvas, response = rows([(3, 30, 20)] * 400)
    masked = independent_masks(canvas, response, torch.full((400,), 0.3), keys(400))
    by_place = masked[:, 3:].double().mean(0)  # (50,)
    assert by_place.mean().item() == pytest.approx(0.3, abs=0.013)
    assert by_place[30:].mean().item() == pytest.approx(0.3, abs=0.021)
    assert (by_place - 0.3).abs().max() < 4 * 9.2 / 400


def test_places_are_masked_independently_of_each_other() -> None:
    """At 0.5 two neighbours are both masked in a quarter of 19600 cases: sigma = 0.0031."""
    canvas, response = rows([(0, 50, 0)] * 400)
    masked = independent_masks(canvas, response, torch.full((400,), 0.5), keys(400))
    both = (masked[:, 1:] & masked[:, :-1]).double().mean().item()
    assert both == pytest.approx(0.25, abs=4 * 0.0031)


@given(
    shapes=st.lists(
        st.tuples(st.integers(0, 6), st.integers(1, 8), st.integers(0, 6)), min_size=1, max_size=5
    ),
    ratio=st.floats(0.001, 1),
    trips=st.integers(1, 5),
)
def test_only_the_canvas_is_masked_and_the_response_never_goes_free(
    shapes: list[tuple[int, int, int]], ratio: float, trips: int
) -> None:
    canvas, response = rows(shapes)
    ratios, streams = torch.full((len(shapes),), ratio), keys(len(shapes))
    designs = [independent_masks(canvas, response, ratios, streams)]
    for n in range(trips):
        phase = torch.full((len(shapes),), n / trips)
        designs.append(stratified_masks(canvas, response, ratios, streams, streams, phase))
    for masked in designs:
        assert not (masked & ~canvas.canvas).any()
        assert (masked & response).any(1).all()


def test_the_token_masked_for_want_of_another_is_drawn_fairly() -> None:
    """At a ratio of 1e-9 each of 800 rows has exactly one token masked, 200 times each of the four.

    Chi-square with 3 degrees of freedom is below 16.3 in 999 of 1000. The tail is never chosen.
    """
    canvas, response = rows([(2, 4, 6)] * 800)
    masked = independent_masks(canvas, response, torch.full((800,), 1e-9), keys(800))
    assert masked.sum(1).tolist() == [1] * 800
    assert masked[:, 6:].sum() == 0
    assert chisquare(masked[:, 2:6].sum(0).tolist()).statistic < 16.3


def test_ratio_zero_masks_nothing_and_ratio_one_everything() -> None:
    canvas, response = rows([(2, 4, 6), (3, 2, 1)])
    for ratio, expected in ((0.0, torch.zeros_like(canvas.canvas)), (1.0, canvas.canvas)):
        ratios = torch.full((2,), ratio)
        independent = independent_masks(canvas, response, ratios, keys(2))
        stratified = stratified_masks(canvas, response, ratios, keys(2), keys(2), torch.zeros(2))
        assert independent.equal(expected)
        assert stratified.equal(expected)


def stratify(ratio: float, trips: int) -> Tensor:
    """Return all trips of one answer of 40 + 24 tokens, (N, 64)."""
    canvas, response = rows([(0, 40, 24)] * trips)
    shared = keys(1).expand(trips)
    return stratified_masks(
        canvas,
        response,
        torch.full((trips,), ratio),
        keys(trips),
        shared,
        torch.arange(trips) / trips,
    )


def test_stratified_trips_mask_each_position_in_its_fair_share() -> None:
    """0.75 of 4 trips are 3, 0.5 are 2; 0.9 of 4 are 3.6: each place 3 or 4 times."""
    assert set(stratify(0.75, 4).sum(0).tolist()) == {3}
    assert set(stratify(0.5, 4).sum(0).tolist()) == {2}
    assert set(stratify(0.9, 4).sum(0).tolist()) == {3, 4}


def test_a_stratified_trip_by_itself_has_the_ratio() -> None:
    """200 answers x 50 places at 0.9: sigma = sqrt(.09 / 10000) = 0.003, in every trip."""
    canvas, response = rows([(0, 50, 0)] * 200)
    for n in range(3):
        phase = torch.full((200,), n / 3)
        ratio = torch.full((200,), 0.9)
        masked = stratified_masks(canvas, response, ratio, keys(200), keys(200), phase)
        assert masked.double().mean().item() == pytest.approx(0.9, abs=0.012)


def test_stratified_shifts_one_draw_from_trip_to_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    """u = .1 .4 .8, two trips at 0.5: the first masks .1 and .4; then .6 .9 .3, so the third."""
    drawn = torch.tensor([0.1, 0.4, 0.8], dtype=torch.float64)
    monkeypatch.setattr(rng, "uniform", lambda state, counter: drawn.expand(len(state), 3))
    canvas, response = rows([(0, 3, 0)] * 2)
    masked = stratified_masks(
        canvas, response, torch.full((2,), 0.5), keys(2), keys(2), torch.arange(2) / 2
    )
    assert masked.tolist() == [[True, True, False], [False, False, True]]


@pytest.mark.parametrize("ratio", [0.02, 0.5])
def test_a_row_is_masked_alike_in_any_company(ratio: float) -> None:
    """Alone, between longer and shorter rows, and last: padding and neighbours do not matter."""
    shape = (3, 6, 2)
    for others in ([(1, 2, 0), (9, 30, 5)], [(4, 1, 0)] * 7):
        canvas, response = rows([*others, shape])
        streams = torch.cat([keys(len(others), start=50), keys(1)])
        together = independent_masks(canvas, response, torch.full((len(streams),), ratio), streams)
        alone = independent_masks(*rows([shape]), torch.full((1,), ratio), keys(1))
        assert together[-1, : sum(shape)].equal(alone[0])


def test_a_mask_belongs_to_the_canvas_and_not_to_the_length_of_the_prompt() -> None:
    short, long = (
        independent_masks(*rows([(p, 40, 0)]), torch.tensor([0.5]), keys(1))[0, p:] for p in (2, 9)
    )
    assert short.equal(long)


def test_uniform_ratios_are_uniform() -> None:
    """2000 draws: the Kolmogorov-Smirnov distance to U(0, 1) is below 0.0436 in 999 of 1000."""
    drawn = uniform_ratio(keys(2000))
    assert kstest(drawn.numpy(), "uniform").statistic < 0.0436


def test_stratified_trips_draw_the_token_masked_for_want_of_another_anew() -> None:
    """8 trips of one answer at 1e-9: one of 40 response tokens each, not the same in all."""
    masked = stratify(1e-9, 8)
    assert masked.sum(1).tolist() == [1] * 8
    assert len(set(masked.int().argmax(1).tolist())) > 1


def test_the_token_masked_for_want_of_another_belongs_to_the_canvas() -> None:
    """20 rows at 1e-9, behind prompts of 2 and of 9 tokens: the same places of the canvas."""
    ratio, phase = torch.full((20,), 1e-9), torch.zeros(20)
    for design in (
        lambda shape: independent_masks(*rows([shape] * 20), ratio, keys(20)),
        lambda shape: stratified_masks(
            *rows([shape] * 20), ratio, keys(20), keys(20, "stratify"), phase
        ),
    ):
        short, long = (design((num_prompt, 40, 0))[:, num_prompt:] for num_prompt in (2, 9))
        assert short.equal(long)
