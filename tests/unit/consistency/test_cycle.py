"""The round trip by hand: what survives, how sure the model was, what it cost, and invariance."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import pytest
import torch
from scipy.stats import chisquare
from wrapped import Twice

from remask.consistency import roundtrips
from remask.consistency.roundtrips import TripInput, mask_and_rebuild, round_trips
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.denoisers.wrap import Counted
from remask.errors import InputError, SettingsError
from remask.sampling.loop import denoise
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.values import Canvas, RoundTrips, Sample

ByPlace = Callable[[Sequence[Mapping[str, float]]], Denoiser]
Answer = Callable[..., Sample]
Ids = Callable[[str], tuple[int, ...]]
ALL = ConsistencySettings(mask_ratio=1.0, trips=2, rebuild_steps=2)


def places(text: str, probability: float = 0.9) -> list[dict[str, float]]:
    """Return a model's memory: each letter of `text` with this probability, `z` with the rest."""
    return [{letter: probability, "z": 1 - probability} for letter in text]


def test_a_model_that_remembers_rebuilds_everything(by_place: ByPlace, answer: Answer) -> None:
    (trips,) = round_trips(by_place(places("abc...")), [answer("abc...")], ALL)
    assert trips.rebuilt.tolist() == [list(trips.sample.canvas)] * 2
    assert trips.texts == ("abc", "abc")
    assert trips.drift.tolist() == [0, 0, 0, 0]
    assert trips.displacement == (0, 0)


def test_a_model_that_says_something_else_drifts_everywhere(
    by_place: ByPlace, answer: Answer
) -> None:
    """Every response token moves from one one-hot row to another: a distance of sqrt(2)."""
    (trips,) = round_trips(by_place(places("xyx...")), [answer("abc...")], ALL)
    assert trips.texts == ("xyx", "xyx")
    assert trips.drift.tolist() == [1, 1, 1, 0]
    # Three of the four response tokens moved: sqrt(3 * 2 / 4).
    assert trips.displacement == pytest.approx([math.sqrt(1.5)] * 2)


def test_a_rebuild_reads_up_to_its_own_end(by_place: ByPlace, answer: Answer) -> None:
    """The rebuild is longer than the original; drift still looks at the original's tokens only."""
    (trips,) = round_trips(by_place(places("abcd..")), [answer("ab....")], ALL)
    assert trips.texts == ("abcd", "abcd")
    assert trips.drift.tolist() == [0, 0, 1]


def test_the_tail_is_masked_like_the_rest(by_place: ByPlace, answer: Answer) -> None:
    """Ratio 1 masks all six places; at 0.5 the tail of 40 loses 20 +- 3.2 a trip."""
    (trips,) = round_trips(by_place(places("ab....")), [answer("ab....")], ALL)
    assert trips.masked.all()
    half = ConsistencySettings(mask_ratio=0.5, trips=8, rebuild_steps=1)
    (trips,) = round_trips(by_place(places("ab" + "." * 41)), [answer("ab" + "." * 41)], half)
    assert trips.masked[:, 3:].sum().item() == pytest.approx(160, abs=4 * math.sqrt(320 / 4))


@pytest.mark.parametrize("design", ["independent", "stratified"])
def test_a_visible_tail_is_never_masked_and_nothing_else_changes(
    by_place: ByPlace, answer: Answer, design: Literal["independent", "stratified"]
) -> None:
    masked = ConsistencySettings(mask_ratio=0.5, mask_design=design, trips=8, rebuild_steps=1)
    model, text = by_place(places("ab" + "." * 41)), answer("ab" + "." * 41)
    (usual,) = round_trips(model, [text], masked)
    (trips,) = round_trips(model, [text], replace(masked, tail="visible"))
    assert not trips.masked[:, 3:].any()
    assert trips.masked[:, :3].equal(usual.masked[:, :3])


def test_what_was_not_masked_stays(by_place: ByPlace, answer: Answer) -> None:
    settings = ConsistencySettings(mask_ratio=0.5, trips=8, rebuild_steps=4)
    (trips,) = round_trips(by_place(places("zzzzzzzz")), [answer("abcdefg.")], settings)
    original = torch.tensor(trips.sample.canvas)
    assert (trips.rebuilt == original).equal(~trips.masked)
    share = trips.masked.double().mean(0)
    assert 0 < share.min() <= share.max() < 1
    assert trips.drift.tolist() == [1.0] * 8


def test_drift_is_the_share_of_the_trips_that_masked_a_token(
    by_place: ByPlace, answer: Answer
) -> None:
    """`b` is never brought back and `a` always; a token no trip masked has no drift."""
    settings = ConsistencySettings(mask_ratio=0.3, trips=3, rebuild_steps=1)
    (trips,) = round_trips(by_place(places("a" * 8)), [answer("abababab")], settings)
    expected = [
        math.nan if num == 0 else float(letter == "b")
        for letter, num in zip("abababab", trips.masked.sum(0).tolist(), strict=True)
    ]
    assert trips.drift.tolist() == pytest.approx(expected, nan_ok=True)
    assert any(math.isnan(d) for d in expected)


def test_confidence_is_the_mean_over_steps_of_the_mean_highest_probability(
    by_place: ByPlace, answer: Answer
) -> None:
    """Highest probabilities .5 .8 .6, one token per step.

    Step 1: (.5 + .8 + .6) / 3 = .6333; place 1 is revealed. Step 2: (.5 + .6) / 2 = .55; place 2.
    Step 3: .5. Mean: .561111. What the original's tokens were does not enter.
    """
    odds = [{"x": 0.5, "a": 0.3, "b": 0.2}, {"b": 0.8, "x": 0.2}, {".": 0.6, "x": 0.4}]
    settings = replace(ALL, rebuild_steps=3, trips=1)
    (trips,) = round_trips(by_place(odds), [answer("ab.")], settings)
    assert trips.confidence == pytest.approx([(1.9 / 3 + 0.55 + 0.5) / 3])


def test_a_step_that_reveals_nothing_counts_as_well(by_place: ByPlace, answer: Answer) -> None:
    """Two tokens, .5 and .8, in five steps: 8 // 5 = 1, 6 // 5 = 1, 4 // 5 = 0 are left.

    Step 1: .65, and the .8 is revealed. Steps 2 and 3: .5, revealed in the third. Mean .55.
    """
    odds = [{"a": 0.5, "x": 0.3, "y": 0.2}, *places(".", 0.8)]
    (trips,) = round_trips(by_place(odds), [answer("a.")], replace(ALL, rebuild_steps=5))
    assert trips.confidence == pytest.approx([0.55, 0.55])


def test_confidence_looks_at_the_response_and_not_at_the_tail(
    by_place: ByPlace, answer: Answer
) -> None:
    """Response .5 .8 .6, tail .95 .9; 5 tokens in 2 steps: 3, then 2.

    Step 1: .6333; .95, .9 and .8 are revealed. Step 2: (.5 + .6) / 2 = .55. Mean .591667.
    """
    sure = [("a", 0.5), ("b", 0.8), (".", 0.6), (".", 0.95), (".", 0.9)]
    odds = [{letter: p, "x": (1 - p) / 2, "y": (1 - p) / 2} for letter, p in sure]
    (trips,) = round_trips(by_place(odds), [answer("ab...")], replace(ALL, trips=1))
    assert trips.confidence == pytest.approx([(1.9 / 3 + 0.55) / 2])


def test_confidence_skips_steps_in_which_the_response_is_complete(
    by_place: ByPlace, answer: Answer
) -> None:
    """Response .9 .8 is revealed in step 1, tail .6 .6 in step 2: (.9 + .8) / 2 alone counts."""
    odds = [*places("a", 0.9), *places(".", 0.8), *places("..", 0.6)]
    (trips,) = round_trips(by_place(odds), [answer("a...")], replace(ALL, trips=1))
    assert trips.confidence == pytest.approx([0.85])


def test_logp_is_of_the_original_at_the_first_step(
    scripted: Callable[..., Denoiser], answer: Answer, ids: Ids
) -> None:
    """The model gives every letter of the original .3 while all is masked, and .9 afterwards."""
    original, other = torch.tensor(ids("abc")), ids("z")[0]

    def script(canvas: Canvas) -> torch.Tensor:
        untouched = (canvas.tokens[:, 1:] == 1).all(1)
        p = torch.where(untouched, 0.3, 0.9)  # (B,)
        logits = torch.full((*canvas.tokens.shape, 259), -torch.inf)
        logits[:, torch.arange(1, 4), original] = p.log()[:, None]
        logits[..., other] = (1 - p).log()[:, None]
        return logits

    (trips,) = round_trips(scripted(script), [answer("abc")], replace(ALL, rebuild_steps=3))
    assert trips.logp.tolist() == [pytest.approx([math.log(0.3)] * 3)] * 2


def test_logp_is_zero_where_nothing_was_masked(by_place: ByPlace, answer: Answer) -> None:
    settings = ConsistencySettings(mask_ratio=0.5, trips=8, rebuild_steps=1)
    (trips,) = round_trips(by_place(places("abcd.")), [answer("abcd.")], settings)
    expected = torch.where(trips.masked, math.log(0.9), 0.0)
    assert trips.logp.tolist() == [pytest.approx(row) for row in expected.tolist()]


def test_ratio_zero_asks_nothing_of_the_model(by_place: ByPlace, answer: Answer) -> None:
    model = Counted(by_place(places("zzz")))
    (trips,) = round_trips(model, [answer("ab.")], replace(ALL, mask_ratio=0.0))
    assert (model.forwards, trips.forwards) == (0, 0)
    assert trips.texts == ("ab", "ab")
    assert trips.confidence == (None, None)
    assert trips.drift.isnan().all()
    assert trips.displacement == (0, 0)


def test_a_uniform_ratio_differs_from_trip_to_trip(by_place: ByPlace, answer: Answer) -> None:
    """200 trips over 40 tokens: the mean share is .5 +- .02; its spread that of a uniform, .289."""
    settings = ConsistencySettings(mask_ratio="uniform", trips=200, rebuild_steps=1)
    (trips,) = round_trips(by_place(places("a" * 40)), [answer("a" * 40)], settings)
    share = trips.masked.double().mean(1)
    assert share.mean().item() == pytest.approx(0.5, abs=0.09)
    assert share.std().item() == pytest.approx(0.3, abs=0.04)


def test_stratified_trips_share_the_masking_fairly(by_place: ByPlace, answer: Answer) -> None:
    settings = replace(ALL, mask_ratio=0.5, mask_design="stratified", trips=4)
    (trips,) = round_trips(by_place(places("a" * 40)), [answer("a" * 40)], settings)
    assert trips.masked.sum(0).tolist() == [2] * 40


def test_stratified_trips_do_not_all_fall_back_on_the_same_token(
    by_place: ByPlace, answer: Answer
) -> None:
    """At 1e-9 each of 8 trips masks one of 8 tokens for want of another."""
    settings = replace(ALL, mask_ratio=1e-9, mask_design="stratified", trips=8)
    (trips,) = round_trips(by_place(places("a" * 8)), [answer("a" * 8)], settings)
    assert trips.masked.sum(1).tolist() == [1] * 8
    assert len({tuple(row) for row in trips.masked.tolist()}) > 1


def test_a_rebuild_at_temperature_one_is_a_sample(by_place: ByPlace, answer: Answer) -> None:
    """1000 trips of one token against .5 .3 .2: chi-square, 2 degrees, below 13.8. Greedy: `a`."""
    odds = {"a": 0.5, "b": 0.3, "c": 0.2}
    settings = ConsistencySettings(mask_ratio=1, trips=1000, rebuild_steps=1, rebuild_temperature=1)
    (trips,) = round_trips(by_place([odds]), [answer("b")], settings)
    counts = [trips.texts.count(letter) for letter in odds]
    assert chisquare(counts, [500, 300, 200]).statistic < 13.8
    (greedy,) = round_trips(
        by_place([odds]), [answer("b")], replace(settings, rebuild_temperature=0, trips=20)
    )
    assert set(greedy.texts) == {"a"}
    # Untempered in both: the highest probability, and that of the original.
    assert trips.confidence == pytest.approx([0.5] * 1000)
    assert trips.logp[:, 0].tolist() == pytest.approx([math.log(0.3)] * 1000)


@pytest.fixture(scope="module")
def pool(llada: Denoiser) -> list[Sample]:
    """Answers of three lengths to prompts of four."""
    out = []
    for length, prompts in (
        (16, ["ab", "a longer prompt"]),
        (24, ["x"]),
        (40, ["of middling size"]),
    ):
        how = SamplerSettings(length=length, steps=8, block=length, temperature=0.5)
        out += sample(llada, [llada.tokenizer.encode(p) for p in prompts], how, items=prompts)
    return out


def assert_same(a: RoundTrips, b: RoundTrips) -> None:
    assert a.sample == b.sample
    assert a.masked.equal(b.masked)
    assert a.rebuilt.equal(b.rebuilt)
    assert a.texts == b.texts
    assert a.confidence == pytest.approx(b.confidence, abs=1e-5)
    assert a.displacement == pytest.approx(b.displacement, abs=1e-5)
    assert torch.allclose(a.logp, b.logp, atol=1e-5)
    assert a.forwards == b.forwards


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("design", ["independent", "stratified"])
def test_round_trips_do_not_depend_on_the_company(
    llada: Denoiser, pool: list[Sample], design: str, temperature: float
) -> None:
    """Alone, in a ragged batch, and in another order."""
    settings = ConsistencySettings(
        mask_design=design,
        trips=3,
        rebuild_steps=5,
        rebuild_temperature=temperature,  # type: ignore[arg-type]
    )
    together = round_trips(llada, pool, settings)
    back = round_trips(llada, pool[::-1], settings)[::-1]
    for sample_, a, b in zip(pool, together, back, strict=True):
        (alone,) = round_trips(llada, [sample_], settings)
        assert_same(a, alone)
        assert_same(a, b)


def test_another_seed_another_sample_number_and_another_trip_have_other_masks(
    by_place: ByPlace, answer: Answer
) -> None:
    text = "a" * 40
    settings = ConsistencySettings(mask_ratio=0.5, trips=2, rebuild_steps=1)
    same = [answer(text), answer(text, number=1), answer(text, item="other")]
    drawn = [t.masked for t in round_trips(by_place(places(text)), same, settings)]
    drawn += [t.masked for t in round_trips(by_place(places(text)), same[:1], settings, seed=1)]
    rows = [tuple(row) for masked in drawn for row in masked.tolist()]
    assert len(set(rows)) == 8


@pytest.mark.parametrize("twice", [False, True])
def test_forwards_are_what_the_model_was_asked(
    llada: Denoiser, pool: list[Sample], twice: bool
) -> None:
    counted = Counted(llada)
    model = Twice(counted) if twice else counted
    settings = ConsistencySettings(mask_ratio=1.0, trips=3, rebuild_steps=5)
    trips = round_trips(model, pool, settings)
    assert sum(t.forwards for t in trips) == counted.forwards == 4 * 3 * 5 * (1 + twice)


@pytest.mark.parametrize(("ratio", "cost"), [(1.0, 4), (0.0, 0)])
def test_steps_with_nothing_left_to_rebuild_cost_nothing(
    by_place: ByPlace, answer: Answer, ratio: float, cost: int
) -> None:
    """Two tokens in five steps: 1, 1, 0, 0, 0 are left. The second step unmasks nothing and needs
    no pass: twice 2 passes."""
    model = Counted(by_place(places("a.")))
    settings = replace(ALL, mask_ratio=ratio, rebuild_steps=5)
    (trips,) = round_trips(model, [answer("a.")], settings)
    assert trips.forwards == model.forwards == cost


def test_every_masked_token_has_the_step_that_rebuilt_it(by_place: ByPlace, answer: Answer) -> None:
    """Four tokens in two steps, surest first: b and the end token, then a and c."""
    sure = [{"a": 0.6, "z": 0.4}, {"b": 0.9, "z": 0.1}, {"c": 0.7, "z": 0.3}, {".": 0.8, "z": 0.2}]
    (trips,) = round_trips(by_place(sure), [answer("abc.")], ALL)
    assert trips.steps is not None
    assert trips.steps.tolist() == [[1, 0, 1, 0]] * 2
    (trips,) = round_trips(by_place(sure), [answer("abc.")], replace(ALL, mask_ratio=0.5))
    assert trips.steps is not None
    assert torch.equal(trips.steps >= 0, trips.masked)


def test_rows_of_different_seeds_travel_together_as_they_would_alone(
    llada: Denoiser, answer: Answer
) -> None:
    settings = replace(ALL, mask_ratio=0.5, trips=1)
    sample = answer("abcdefgh")
    together = mask_and_rebuild(llada, [TripInput(sample, 0, seed) for seed in range(4)], settings)
    for seed, trip in enumerate(together):
        (alone,) = round_trips(llada, [sample], settings, seed=seed)
        assert torch.equal(trip.masked, alone.masked[0])
        assert torch.equal(trip.rebuilt, alone.rebuilt[0])
    assert len({tuple(trip.masked.tolist()) for trip in together}) > 1


def test_an_answer_too_long_for_the_model_is_refused(llada: Denoiser, answer: Answer) -> None:
    with pytest.raises(InputError, match="answer room for 512, more than the 512"):
        round_trips(llada, [answer("a" * 512)], ALL)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mask_ratio": 1.5}, "mask_ratio must be at most 1 or uniform, got 1.5"),
        ({"mask_ratio": -0.1}, "mask_ratio must be at least 0 or uniform, got -0.1"),
        ({"mask_ratio": math.nan}, "mask_ratio must be .*, got nan"),
        ({"mask_design": "striped"}, "mask_design must be .*, got 'striped'"),
        (
            {"mask_design": "stratified", "mask_ratio": "uniform"},
            "mask_ratio must be a number with mask_design 'stratified'",
        ),
        ({"tail": "shown"}, "tail must be .*, got 'shown'"),
        ({"trips": 0}, "trips must be at least 1, got 0"),
        ({"rebuild_steps": 0}, "rebuild_steps must be at least 1, got 0"),
        ({"rebuild_temperature": -1.0}, "rebuild_temperature must be at least 0, got -1.0"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        replace(ConsistencySettings(), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_steps_that_unmask_nothing_take_no_pass_and_change_nothing(
    llada: Denoiser, answer: Answer, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """400 steps for at most 12 tokens: as many passes as tokens, and the same reconstruction."""
    settings = ConsistencySettings(
        mask_ratio=0.7, trips=3, rebuild_steps=400, rebuild_temperature=temperature
    )
    samples = [answer("1 + 1 = 2..."), answer("abc...", item="b")]
    counted = Counted(llada)
    skipping = round_trips(counted, samples, settings)
    monkeypatch.setattr(
        roundtrips, "denoise", lambda *given, skips_idle, **named: denoise(*given, **named)
    )
    plain = round_trips(llada, samples, settings)
    for one, other in zip(skipping, plain, strict=True):
        assert one.forwards == int(one.masked.sum())
        assert other.forwards > 20 * one.forwards
        assert torch.equal(one.rebuilt, other.rebuilt)
        assert one.steps is not None
        assert other.steps is not None
        assert torch.equal(one.steps, other.steps)
        assert torch.equal(one.logp, other.logp)
        assert one.confidence == pytest.approx(other.confidence, abs=1e-6)
    longest = max(int(masked.sum()) for trips in skipping for masked in trips.masked)
    assert counted.forwards == 6 * longest
