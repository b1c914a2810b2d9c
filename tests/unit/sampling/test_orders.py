"""The orders of LLaDA and Dream, filters and thresholds in the loop: what they write and cost."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Counted, Suppressed
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.values import Sample

Places = Sequence[Mapping[str, float]]
ByPlace = Callable[[Places], Denoiser]
Ids = Callable[[str], tuple[int, ...]]
PROMPTS = ["ab", "a longer prompt", "x", "one of middling size"]


def write(denoiser: Denoiser, prompts: Sequence[str], length: int, **how: Any) -> list[Sample]:
    """Write with one block, a token a step, unless told otherwise."""
    settings = SamplerSettings(**{"length": length, "steps": length, "block": length, **how})
    encoded = [denoiser.tokenizer.encode(prompt) for prompt in prompts]
    return sample(denoiser, encoded, settings, items=list(prompts))


def steps_of(got: Sample) -> tuple[int, ...]:
    assert got.steps is not None
    return got.steps


THREE = [
    {"a": 0.50, "x": 0.49, "y": 0.01},  # sure of two: p .50, margin .01, entropy .74
    {"b": 0.40, "w": 0.15, "x": 0.15, "y": 0.15, "z": 0.15},  # p .40, margin .25, entropy 1.50
    {"c": 0.45, "w": 0.30, "x": 0.25},  # p .45, margin .15, entropy 1.07
]


@pytest.mark.parametrize(
    ("order", "places"),
    [("maskgit_plus", (0, 2, 1)), ("topk_margin", (1, 2, 0)), ("entropy", (0, 2, 1))],
)
def test_each_order_of_dream_has_its_own_first_place(
    by_place: ByPlace, order: str, places: tuple[int, ...]
) -> None:
    """Three tokens in three steps: 1 - s / t is .333, .4995, and at the end all.

    The floors of 3 x .333 = .999 and 3 x .4995 = 1.4985 are 0 and 1; two are left.
    """
    (got,) = write(by_place(THREE), ["p"], 3, order=order)
    assert got.text == "abc"
    assert steps_of(got)[places[0]] == 1
    assert [steps_of(got)[place] for place in places[1:]] == [2, 2]
    assert got.forwards == 3


def test_entropy_and_probability_may_disagree(by_place: ByPlace) -> None:
    """.51 and .49 have entropy .69; .6 and eight times .05 have 1.50."""
    wide = dict.fromkeys("stuvwxyz", 0.05)
    places = [
        {"a": 0.51, "x": 0.49},
        {"b": 0.6, **wide},
        {"c": 0.2, **dict.fromkeys("vwxyz", 0.16)},
    ]
    first = {
        order: steps_of(write(by_place(places), ["p"], 3, order=order)[0]).index(1)
        for order in ("maskgit_plus", "entropy")
    }
    assert first == {"maskgit_plus": 1, "entropy": 0}


def test_a_filter_changes_the_confidence_of_dream_but_not_what_is_reported(
    by_place: ByPlace,
) -> None:
    """Margins are .1 for `a` and .2 for `b`; top_p .52 leaves `a` alone, with 1, and b's second.

    .55 is past .52, and .5 is not: `b` keeps its .3 and has (.5 - .3) / .8 = .25.
    """
    places = [
        {"a": 0.55, "x": 0.45},
        {"b": 0.5, "x": 0.3, "y": 0.2},
        {"c": 0.34, "x": 0.33, "y": 0.33},
    ]
    (bare,) = write(by_place(places), ["p"], 3, order="topk_margin")
    (kept,) = write(by_place(places), ["p"], 3, order="topk_margin", top_p=0.52)
    assert (steps_of(bare).index(1), steps_of(kept).index(1)) == (1, 0)
    assert kept.probs == pytest.approx((0.55, 0.5, 0.34))


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"top_k": 2}, {"a": 0.625, "b": 0.375}),
        ({"top_p": 0.6}, {"a": 0.625, "b": 0.375}),
        ({"top_p": 1.0}, {"a": 0.5, "b": 0.3, "c": 0.2}),
        ({"top_p": 0.9, "top_k": 9}, {"a": 0.5, "b": 0.3, "c": 0.2}),
    ],
)
def test_tokens_are_drawn_from_what_the_filters_leave(
    by_place: ByPlace, how: dict[str, float], expected: dict[str, float]
) -> None:
    """1200 items against .5 / .8 and .3 / .8; chi-square of 2 is below 13.8 in 999 of 1000."""
    model = by_place([{"a": 0.5, "b": 0.3, "c": 0.2}])
    pool = write(model, [f"p{i}" for i in range(1200)], 1, temperature=1.0, **how)
    seen = Counter(got.text for got in pool)
    assert set(seen) == set(expected)
    share = [1200 * p for p in expected.values()]
    assert chisquare([seen[letter] for letter in expected], share).statistic < 13.8


def test_filters_come_after_the_temperature(by_place: ByPlace) -> None:
    """At temperature 2, .6 and .4 become .55 and .45: top_p .58 keeps both; at 1 it keeps one."""
    model = by_place([{"a": 0.6, "b": 0.4}])
    names = [f"p{i}" for i in range(200)]
    warm = write(model, names, 1, temperature=2.0, top_p=0.58)
    cold = write(model, names, 1, temperature=1.0, top_p=0.58)
    assert {got.text for got in warm} == {"a", "b"}
    assert {got.text for got in cold} == {"a"}


def test_an_order_temperature_draws_places_from_the_softmax_of_confidence(
    by_place: ByPlace,
) -> None:
    """Confidences .9 .5 .4 at temperature .5: the first place by odds exp 1.8, exp 1, exp .8.

    Chi-square with 2 degrees of freedom is below 13.8 in 999 of 1000.
    """
    model = by_place([{"a": 0.9, "x": 0.1}, {"b": 0.5, "x": 0.3, "y": 0.2},
                      {"c": 0.4, "w": 0.2, "x": 0.2, "y": 0.2}])  # fmt: skip
    pool = write(
        model, [f"p{i}" for i in range(1200)], 3, order="low_confidence", order_temperature=0.5
    )
    first = Counter(steps_of(got).index(0) for got in pool)
    odds = torch.tensor([0.9, 0.5, 0.4]).div(0.5).softmax(0).double()
    expected = (1200 * odds / odds.sum()).tolist()
    assert chisquare([first[i] for i in range(3)], expected).statistic < 13.8


def test_a_small_order_temperature_is_the_order_itself(llada: Denoiser) -> None:
    how = {"steps": 5, "order": "maskgit_plus"}
    plain = write(llada, PROMPTS, 12, **how)
    cold = write(llada, PROMPTS, 12, **how, order_temperature=1e-7)
    assert [s.steps for s in plain] == [s.steps for s in cold]


def test_origin_reveals_every_place_by_itself(by_place: ByPlace) -> None:
    """4 steps: chances to go in each are .24975 three times and .25075 at the end.

    300 items of 4 places; chi-square with 3 degrees of freedom is below 16.3 in 999 of 1000. All
    four of an item go together in one step with probability 4 x .25 ** 4 = .0156: some 5 items.
    """
    model = by_place([{"a": 0.9, "b": 0.1}] * 4)
    pool = write(model, [f"p{i}" for i in range(300)], 4, order="origin")
    seen = Counter(step for got in pool for step in steps_of(got))
    expected = [1200 * p for p in (0.24975, 0.24975, 0.24975, 0.25075)]
    assert chisquare([seen[step] for step in range(4)], expected).statistic < 16.3
    assert 1 <= sum(len(set(steps_of(got))) == 1 for got in pool) <= 15
    for place in range(4):
        assert len({steps_of(got)[place] for got in pool}) == 4


def test_ends_are_written_when_nothing_else_is_left(by_place: ByPlace) -> None:
    """The end has .9 of place 1, and goes after .5 and .4; the reported probability stays .9."""
    model = by_place([{"a": 0.4, "x": 0.3, "y": 0.3}, {".": 0.9, "x": 0.1}, {"c": 0.5, "x": 0.5}])
    (plain,) = write(model, ["p"], 3)
    (late,) = write(model, ["p"], 3, ends_last=True)
    assert steps_of(plain)[1] == 0
    assert steps_of(late)[:2] == (1, 2)
    assert late.probs is not None
    assert late.probs[1] == pytest.approx(0.9)
    assert late.text == plain.text == "a"


def test_the_others_are_compared_as_if_there_were_no_ends(by_place: ByPlace) -> None:
    """.5 beside an end of .4 is .5 / .6 = .83 and passes .7; without the rule .7 is first."""
    places = [{"a": 0.5, ".": 0.4, "x": 0.1}, {"b": 0.7, "x": 0.3}]
    (plain,) = write(by_place(places), ["p"], 2)
    (late,) = write(by_place(places), ["p"], 2, ends_last=True)
    assert (plain.steps, late.steps) == ((1, 0), (0, 1))


def test_a_turn_end_comes_last_too_and_a_suppressed_end_not_at_all(
    scripted: Callable[..., Denoiser], ids: Ids
) -> None:
    """Places say EOS > turn end > a > b, then b: without EOS the turn end comes, after b."""
    (a, b) = ids("ab")

    def script(canvas: Any) -> torch.Tensor:
        logits = torch.zeros(*canvas.tokens.shape, 259)
        logits[:, 1, torch.tensor([0, 2, a, b])] = torch.tensor([9.0, 8.0, 7.0, 6.0])
        logits[:, 2, b] = 5.0
        return logits

    model = Suppressed(scripted(script), ids=(0,))
    (got,) = write(model, ["p"], 2, ends_last=True)
    assert got.canvas[0] == 2
    assert steps_of(got)[0] == 1


@pytest.mark.parametrize("order", ["maskgit_plus", "topk_margin", "entropy"])
def test_ends_last_holds_in_every_order_that_looks(by_place: ByPlace, order: str) -> None:
    """Dream's schedule takes one in the second step and two in the third: the end is the surest.

    top_p .5 leaves the end alone in its place: nothing else can be compared there.
    """
    places = [{"a": 0.4, "x": 0.3, "y": 0.3}, {"c": 0.5, "x": 0.5}, {".": 0.9, "x": 0.1}]
    (plain,) = write(by_place(places), ["p"], 3, order=order, top_p=0.5)
    (late,) = write(by_place(places), ["p"], 3, order=order, top_p=0.5, ends_last=True)
    assert steps_of(plain) == (2, 2, 1)
    assert sorted(steps_of(late)[:2]) == [1, 2]
    assert steps_of(late)[2] == 2


def test_a_threshold_reveals_all_that_pass_and_at_least_the_best(by_place: ByPlace) -> None:
    """.95 .6 .92 .7 at .9: places 0 and 2 at once, then .7, then .6: 3 passes of the 4 allowed."""
    sure = [("a", 0.95), ("b", 0.6), ("c", 0.92), ("d", 0.7)]
    model = Counted(by_place([{letter: p, "x": 1 - p} for letter, p in sure]))
    (got,) = write(model, ["p"], 4, reveal_threshold=0.9)
    assert (got.text, got.steps) == ("abcd", (0, 2, 0, 1))
    assert got.forwards == model.forwards == 3


def test_a_threshold_waits_for_the_block(by_place: ByPlace) -> None:
    """Blocks of two, all above .9: one pass each, and steps are counted from the block's first."""
    model = Counted(by_place([{"a": 0.95, "x": 0.05}] * 6))
    (got,) = write(model, ["p"], 6, block=2, reveal_threshold=0.9)
    assert got.steps == (0, 0, 2, 2, 4, 4)
    assert got.forwards == model.forwards == 3


def test_steps_are_the_most_a_threshold_may_take(by_place: ByPlace) -> None:
    """None of six passes .9: in two steps they go three and three, as without a threshold."""
    model = by_place([{"a": 0.5, "x": 0.3, "y": 0.2}] * 6)
    (got,) = write(model, ["p"], 6, steps=2, reveal_threshold=0.9)
    assert got.steps == (0, 0, 0, 1, 1, 1)
    assert got.forwards == 2


def test_a_row_that_is_done_is_not_charged_for_its_neighbour(
    scripted: Callable[..., Denoiser], ids: Ids
) -> None:
    """p is sure of its four tokens and needs one pass; q is not and needs four."""
    (p,) = ids("p")

    def script(canvas: Any) -> torch.Tensor:
        logits = torch.zeros(*canvas.tokens.shape, 259)
        logits[..., 7] = torch.where(canvas.tokens[:, :1] == p, 20.0, 1.0)
        return logits

    got = write(scripted(script), ["p", "q"], 4, reveal_threshold=0.9)
    assert [s.forwards for s in got] == [1, 4]
    assert [s.steps for s in got] == [(0, 0, 0, 0), (0, 1, 2, 3)]


ROW = st.lists(st.floats(0.2, 0.99), min_size=6, max_size=6)


@given(sure=ROW, threshold=st.floats(0.01, 1.0), block=st.sampled_from([2, 3, 6]))
def test_a_threshold_never_leaves_a_block_unfinished(
    by_place: ByPlace, sure: list[float], threshold: float, block: int
) -> None:
    model = by_place([{"a": p, **dict.fromkeys("uvwxyz", (1 - p) / 6)} for p in sure])
    (got,) = write(model, ["p"], 6, block=block, reveal_threshold=threshold)
    assert got.text == "aaaaaa"
    assert 6 // block <= got.forwards <= 6
    blocks = [step // block for step in steps_of(got)]
    assert blocks == [place // block for place in range(6)]


WAYS = [
    {"order": "origin"},
    {"order": "maskgit_plus"},
    {"order": "topk_margin", "top_k": 5},
    {"order": "entropy", "top_p": 0.9},
    {"order": "entropy", "order_temperature": 0.3},
    {"order": "low_confidence", "ends_last": True},
    {"order": "low_confidence", "reveal_threshold": 0.1, "steps": 12},
    {"order": "maskgit_plus", "reveal_threshold": 0.1, "ends_last": True, "steps": 12},
]


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("block", [4, 12])
@pytest.mark.parametrize("how", WAYS, ids=str)
def test_a_ragged_batch_gives_what_each_prompt_gives_alone(
    llada: Denoiser, how: dict[str, Any], block: int, temperature: float
) -> None:
    way = {"steps": 6, "block": block, "temperature": temperature, **how}
    together = write(llada, PROMPTS, 12, **way)
    for prompt, got in zip(PROMPTS, together, strict=True):
        (alone,) = write(llada, [prompt], 12, **way)
        assert replace(got, probs=None) == replace(alone, probs=None)
        assert got.probs == pytest.approx(alone.probs, abs=1e-5)


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_drawn_places_differ_between_items_and_others_do_not(
    by_place: ByPlace, how: dict[str, Any]
) -> None:
    """12 equally sure places: without draws they go in order, for every item alike."""
    model = by_place([{"a": 0.6, "b": 0.4}] * 12)
    one, two = write(model, ["p", "q"], 12, **{"steps": 6, **how})
    drawn = "order_temperature" in how or how["order"] == "origin"
    assert (one.steps == two.steps) is not drawn
    assert one.text == two.text == "a" * 12
    assert drawn or list(steps_of(one)) == sorted(steps_of(one))


@pytest.mark.parametrize("steps", [8, 4])
def test_sequential_reveals_from_left_to_right(by_place: ByPlace, steps: int) -> None:
    """Two blocks of 4, 4 or 2 steps each, whatever the probabilities."""
    model = by_place([{"a": p, "b": 1 - p} for p in (0.51, 0.9, 0.6, 0.99, 0.7, 0.55, 0.8, 0.95)])
    (got,) = write(model, ["ab"], 8, order="sequential", steps=steps, block=4)
    each = 8 // steps
    assert steps_of(got) == tuple(place // each for place in range(8))
    assert got.text == "aaaaaaaa"


@pytest.mark.parametrize("schedule", ["even", "rounded", "shares"])
@pytest.mark.parametrize("order", ["maskgit_plus", "topk_margin", "entropy", "sequential"])
def test_a_model_with_blocks_keeps_its_schedule_in_every_order(
    block_causal: NativeDenoiser, order: str, schedule: str
) -> None:
    """Four tokens in three steps: as many at each as with the order of the authors."""
    model = replace(block_causal, preset=Preset(schedule=schedule))
    usual, got = (
        write(model, ["abcd"], 8, order=which, steps=6, block=4)[0]
        for which in ("low_confidence", order)
    )
    assert Counter(steps_of(got)) == Counter(steps_of(usual))


def test_only_loops_that_cut_top_k_first_do_so(block_causal: NativeDenoiser) -> None:
    """Of two tokens one has most of the mass: it alone is drawn where top_k cuts before top_p."""
    drawn = {}
    for schedule in ("even", "shares"):
        model = replace(block_causal, preset=Preset(schedule=schedule))
        how: dict[str, Any] = {
            "temperature": 100.0, "top_k": 2, "top_p": 0.5, "steps": 8, "block": 4
        }  # fmt: skip
        drawn[schedule] = [
            sample.canvas
            for number in range(8)
            for sample in write(model, [f"{number}"], 8, order="sequential", **how)
        ]
    greedy = [
        sample.canvas
        for number in range(8)
        for sample in write(block_causal, [f"{number}"], 8, order="sequential", steps=8, block=4)
    ]
    assert drawn["shares"] == greedy
    assert drawn["even"] != greedy
