"""The one loop: what it writes, in which order, at what cost, and what it does not depend on."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
import torch
from scipy.stats import chisquare
from wrapped import Twice

from remask import rng
from remask.consistency.roundtrips import linear_schedule, round_trips
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.tokenizer import Tokenizer
from remask.denoisers.wrap import Counted, Suppressed
from remask.errors import DenoiserError, InputError, SettingsError
from remask.sampling.loop import denoise
from remask.sampling.sampler import sample, sample_rows
from remask.sampling.schedule import even_schedule
from remask.sampling.settings import Rule, SamplerSettings
from remask.values import Canvas, Sample

Places = Sequence[Mapping[str, float]]
ByPlace = Callable[[Places], Denoiser]
Ids = Callable[[str], tuple[int, ...]]
PROMPTS = ["ab", "a longer prompt", "x", "one of middling size"]


def settings(length: int, **changes: float) -> SamplerSettings:
    """Return one block, one token per step, unless told otherwise."""
    return replace(SamplerSettings(length=length, steps=length, block=length), **changes)


def write(
    denoiser: Denoiser, prompts: Sequence[str], how: SamplerSettings, **kw: int
) -> list[Sample]:
    encoded = [denoiser.tokenizer.encode(prompt) for prompt in prompts]
    return sample(denoiser, encoded, how, items=list(prompts), **kw)


def test_greedy_sampling_writes_the_script_most_confident_first(by_place: ByPlace) -> None:
    """Confidences .5 .9 .7 .8: place 1 goes first, then 3, 2 and 0."""
    model = by_place(
        [
            {"c": 0.5, "x": 0.3, "y": 0.2},
            {"a": 0.9, "x": 0.1},
            {"b": 0.7, "x": 0.3},
            {".": 0.8, "x": 0.2},
        ]
    )
    (got,) = write(model, ["p"], settings(4))
    assert got.text == "cab"
    assert got.steps == (3, 0, 2, 1)
    assert got.probs == pytest.approx((0.5, 0.9, 0.7, 0.8))
    assert (got.num_response, got.forwards) == (4, 4)


def test_fewer_steps_than_tokens_reveal_several_at_once(by_place: ByPlace) -> None:
    """Two steps of two tokens: places 1 and 3, then 0 and 2."""
    sure = [{"c": 0.5, "x": 0.3, "y": 0.2}, {"a": 0.9, "x": 0.1}, {"b": 0.7, "x": 0.3}]
    (got,) = write(by_place([*sure, {".": 0.8, "x": 0.2}]), ["p"], settings(4, steps=2))
    assert got.steps == (1, 0, 1, 0)
    assert got.forwards == 2


def test_blocks_are_written_left_to_right(by_place: ByPlace) -> None:
    """Blocks of two: .5 .6 are written before the surer .9 .8."""
    sure = [("a", 0.5), ("b", 0.6), ("c", 0.9), ("d", 0.8)]
    model = by_place([{letter: p, "x": 1 - p - 0.01, "y": 0.01} for letter, p in sure])
    (got,) = write(model, ["p"], settings(4, block=2))
    assert got.text == "abcd"
    assert got.steps == (1, 0, 2, 3)


def test_a_later_step_sees_what_an_earlier_one_wrote(
    scripted: Callable[..., Denoiser], ids: Ids
) -> None:
    """Place 1 says `a` until place 0 holds `b`, and then `c`; place 0 is the surer."""
    a, b, c = ids("abc")

    def script(canvas: Canvas) -> torch.Tensor:
        logits = torch.zeros(*canvas.tokens.shape, 259)
        logits[:, 1, b] = 9.0
        logits[:, 2, a] = 8.0
        logits[:, 2, c] = 9.0 * (canvas.tokens[:, 1] == b)
        return logits

    assert write(scripted(script), ["p"], settings(2))[0].text == "bc"


def by_prompt(texts: Mapping[int, Sequence[int]]) -> Callable[[Canvas], torch.Tensor]:
    """Script a model that writes texts[prompt's first token]."""

    def script(canvas: Canvas) -> torch.Tensor:
        logits = torch.zeros(*canvas.tokens.shape, 259)
        for row, tokens in enumerate(canvas.tokens):
            where = canvas.canvas[row].nonzero()[:, 0]
            logits[row, where, torch.tensor(texts[int(tokens[0])])] = 9.0
        return logits

    return script


def test_a_row_that_has_ended_leaves_the_batch(scripted: Callable[..., Denoiser], ids: Ids) -> None:
    """Three blocks of two: p ends in the first (2 forwards), q in the second (4), r never (6)."""
    (p, q, r) = ids("pqr")
    model = Counted(scripted(by_prompt({p: ids("a.bbbb"), q: ids("abc.bb"), r: ids("abcdef")})))
    got = write(model, ["p", "q", "r"], settings(6, block=2))
    assert [s.forwards for s in got] == [2, 4, 6]
    assert model.by_call == [3, 3, 2, 2, 1, 1]
    assert [s.text for s in got] == ["a", "abc", "abcdef"]
    assert [s.num_response for s in got] == [2, 4, 6]
    assert got[0].canvas == ids("a.....")
    assert got[0].steps is not None
    assert got[0].steps[2:] == (-1, -1, -1, -1)


def test_a_turn_end_token_ends_an_answer_and_eos_fills_the_tail(
    scripted: Callable[..., Denoiser], ids: Ids
) -> None:
    """Token 2 is the turn end; what follows it inside its block becomes EOS."""
    (p,) = ids("p")
    written = (*ids("a"), 2, *ids("bb"))
    (got,) = write(scripted(by_prompt({p: written})), ["p"], settings(4))
    assert got.canvas == (*ids("a"), 2, *ids(".."))
    assert (got.num_response, got.text) == (2, "a")


@pytest.mark.parametrize("block", [4, 12])
def test_forwards_are_what_the_model_was_asked(llada: Denoiser, block: int) -> None:
    counted = Counted(llada)
    got = write(counted, PROMPTS, settings(12, block=block))
    assert sum(s.forwards for s in got) == counted.forwards > 0


def test_two_passes_per_call_are_two_forwards_a_step(llada: Denoiser) -> None:
    counted = Counted(llada)
    got = write(Twice(counted), PROMPTS, settings(4))
    assert sum(s.forwards for s in got) == counted.forwards == 4 * 4 * 2


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("order", ["low_confidence", "random"])
def test_a_ragged_batch_gives_what_each_prompt_gives_alone(
    llada: Denoiser, temperature: float, order: str
) -> None:
    how = SamplerSettings(length=12, steps=6, block=4, temperature=temperature, order=order)  # type: ignore[arg-type]
    together = write(llada, PROMPTS, how)
    for prompt, got in zip(PROMPTS, together, strict=True):
        (alone,) = write(llada, [prompt], how)
        assert replace(got, probs=None) == replace(alone, probs=None)
        assert got.probs == pytest.approx(alone.probs, abs=1e-5)


def test_the_order_of_prompts_does_not_matter(llada: Denoiser) -> None:
    how = settings(8, temperature=1.0)
    forth = write(llada, PROMPTS, how)
    back = write(llada, PROMPTS[::-1], how)[::-1]
    assert [s.canvas for s in forth] == [s.canvas for s in back]


def test_the_same_seed_gives_the_same_sample_and_another_number_another(llada: Denoiser) -> None:
    how = settings(8, temperature=1.0)
    first = write(llada, PROMPTS, how, seed=3)
    assert first == write(llada, PROMPTS, how, seed=3)
    for other in (write(llada, PROMPTS, how, seed=4), write(llada, PROMPTS, how, seed=3, number=1)):
        assert all(a.canvas != b.canvas for a, b in zip(first, other, strict=True))


def test_samples_of_several_numbers_drawn_together_are_those_drawn_one_by_one(
    llada: Denoiser,
) -> None:
    """Sample 0 is greedy and the others are not, so they are never written in one batch."""
    how = replace(settings(8), resample_temperature=1.0)
    prompts = [llada.tokenizer.encode(prompt) for prompt in PROMPTS]
    rows = [(i, number) for i in range(len(PROMPTS)) for number in range(3)]
    together = sample_rows(
        llada, [prompts[i] for i, _ in rows], how, items=[PROMPTS[i] for i, _ in rows],
        numbers=[number for _, number in rows], seed=5,
    )  # fmt: skip
    alone = [write(llada, PROMPTS, how, number=number, seed=5) for number in range(3)]
    for (i, number), got in zip(rows, together, strict=True):
        assert (got.item, got.number) == (PROMPTS[i], number)
        assert (got.canvas, got.steps) == (alone[number][i].canvas, alone[number][i].steps)
        assert got.probs == pytest.approx(alone[number][i].probs)


def test_noise_belongs_to_the_canvas_and_not_to_the_length_of_the_prompt(by_place: ByPlace) -> None:
    """The same item with a longer prompt: 20 coins fall alike, as the model ignores the prompt."""
    model = by_place([{"a": 0.5, "b": 0.5}] * 20)
    how = settings(20, temperature=1.0)
    short, long = sample(model, [[9], [9] * 6], how, items=["i", "i"])
    assert short.text == long.text
    assert set(short.text) == {"a", "b"}


def test_no_noise_is_used_twice(by_place: ByPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blocks of three tokens, three steps each: 2 x (3 + 2 + 1) = 12 draws for each row."""
    streams: list[int] = []

    def gumbel(state: torch.Tensor, counter: torch.Tensor) -> torch.Tensor:
        streams.extend(state[:, 0].tolist())
        return torch.zeros(len(state), len(counter), dtype=torch.float64)

    monkeypatch.setattr(rng, "gumbel", gumbel)
    write(by_place([{"a": 0.5, "b": 0.5}] * 6), ["p", "q"], settings(6, block=3, temperature=1.0))
    assert len(streams) == len(set(streams)) == 24


def test_two_items_with_one_prompt_get_different_samples(llada: Denoiser) -> None:
    prompts = [llada.tokenizer.encode("same")] * 2
    one, two = sample(llada, prompts, settings(8, temperature=1.0), items=["a", "b"])
    assert one.canvas != two.canvas


def test_at_temperature_zero_every_sample_is_the_same(llada: Denoiser) -> None:
    pool = [write(llada, ["ab"], settings(8), seed=n, number=n)[0].canvas for n in range(3)]
    assert len(set(pool)) == 1


def test_random_order_reveals_everything_in_an_order_of_its_own(by_place: ByPlace) -> None:
    """8 places, one per step: all steps 0..7 occur, and another item has another order."""
    model = by_place([{"a": 0.9, "b": 0.1}] * 8)
    how = settings(8, order="random")  # type: ignore[arg-type]
    one, two = write(model, ["p", "q"], how)
    assert one.text == two.text == "aaaaaaaa"
    assert one.steps is not None
    assert two.steps is not None
    assert sorted(one.steps) == sorted(two.steps) == list(range(8))
    assert one.steps != two.steps != tuple(range(8))


def test_random_order_puts_every_place_first_equally_often(by_place: ByPlace) -> None:
    """600 items, 4 places: 150 each; chi-square with 3 degrees is below 16.3 in 999 of 1000."""
    model = by_place([{"a": 0.9, "b": 0.1}] * 4)
    pool = write(model, [f"p{i}" for i in range(600)], settings(4, order="random"))  # type: ignore[arg-type]
    first = Counter(s.steps.index(0) for s in pool if s.steps is not None)
    assert chisquare([first[i] for i in range(4)]).statistic < 16.3


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_mask_token_is_never_predicted(by_place: ByPlace, temperature: float) -> None:
    """The mask token has 0.98 of the mass; without it `a` and `b` have half each."""
    model = by_place([{"_": 0.98, "a": 0.01, "b": 0.01}] * 16)
    (got,) = write(model, ["p"], settings(16, temperature=temperature))
    assert set(got.text) <= {"a", "b"}
    assert got.probs == pytest.approx([0.5] * 16)


def test_a_suppressed_token_is_never_written(by_place: ByPlace, ids: Ids) -> None:
    model = by_place([{".": 0.9, "a": 0.1}] * 3)
    (got,) = write(Suppressed(model, ids=ids(".")), ["p"], settings(3))
    assert got.text == "aaa"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_answer_without_eos_may_end_a_turn_and_not_the_text(
    scripted: Callable[..., Denoiser], ids: Ids, temperature: float
) -> None:
    """EOS has nearly all the mass everywhere: it ends the first answer, and none without it.

    Then `a` is written before, and the turn end, token 2, at the third place; EOS is only filled in
    behind it.
    """

    def script(canvas: Canvas) -> torch.Tensor:
        logits = torch.full((*canvas.tokens.shape, 259), -60.0)
        logits[..., ids(".")[0]] = 60.0
        logits[..., ids("a")[0]] = 0.0
        logits[canvas.offsets == 2, 2] = 20.0
        return logits

    how = settings(5, temperature=temperature)
    (plain,) = write(scripted(script), ["p"], how)
    assert plain.canvas == ids(".....")
    (got,) = write(scripted(script), ["p"], replace(how, suppress_eos=True))
    assert got.canvas == (*ids("aa"), 2, *ids(".."))
    assert got.num_response == 3
    assert got.probs == pytest.approx([1.0] * 5)  # of what may be written
    # All is written, EOS nowhere: it takes the place of what stood behind the turn end.
    assert got.steps is not None
    assert got.steps[3:] == (-1, -1)


def test_no_end_of_the_text_is_drawn_where_eos_is_suppressed(llada: Denoiser) -> None:
    """Of 40 answers of 16 tokens, drawn almost evenly from 258, some hold EOS otherwise."""
    eos = llada.tokenizer.eos_id
    prompts = [str(i) for i in range(40)]
    how = settings(16, temperature=3.0)
    kept = [s.canvas[: s.num_response] for s in write(llada, prompts, how)]
    assert any(eos in canvas for canvas in kept)
    without = write(llada, prompts, replace(how, suppress_eos=True))
    assert not any(eos in s.canvas[: s.num_response] for s in without)


def test_an_answer_without_eos_is_verified_by_the_model_as_it_is(by_place: ByPlace) -> None:
    """EOS has .9: it is not written, but rebuilt; ln .1 is what the model says of the answer."""
    model = by_place([{".": 0.9, "a": 0.1}] * 3)
    (got,) = write(model, ["p"], replace(settings(3), suppress_eos=True))
    assert got.text == "aaa"
    trips = ConsistencySettings(mask_ratio=1.0, trips=2, rebuild_steps=1)
    (found,) = round_trips(model, [got], trips)
    assert (found.rebuilt == model.tokenizer.eos_id).all()
    assert found.logp.flatten().tolist() == pytest.approx([math.log(0.1)] * 6)
    assert found.confidence == pytest.approx((0.9, 0.9))


def test_an_answer_is_edited_block_by_block(scripted: Callable[..., Denoiser], ids: Ids) -> None:
    """Two blocks of two. The first place is read as `x` while the second is masked, then as `a`.

    Pass 0 is sure of `x`; 1 writes `b`, of which none is sure; 2 overwrites `x`; 3 finds nothing to
    do. The second block is written by its pass 0 and read once more: 4 + 2 forwards. Its steps
    begin where those of the first would end at the latest, after 2 + 5. Without editing `x` stays,
    after 2 + 1 forwards, and the steps of a block are 2.
    """
    a, b, c, d, x, gap = ids("abcdx_")

    def script(canvas: Canvas) -> torch.Tensor:
        logits = torch.zeros(*canvas.tokens.shape, 259)
        alone = canvas.tokens[:, 2] == gap
        logits[:, 1, x] = torch.where(alone, 20.0, 0.0)
        logits[:, 1, a] = torch.where(alone, 0.0, 20.0)
        logits[:, 2, b] = 6.0  # .61 of the mass
        logits[:, 3, c] = logits[:, 4, d] = 20.0
        return logits

    how = SamplerSettings(length=4, steps=4, block=2, reveal_threshold=0.7)
    (plain,) = write(scripted(script), ["p"], how)
    assert (plain.text, plain.steps, plain.forwards) == ("xbcd", (0, 1, 2, 2), 3)
    model = Counted(scripted(script))
    (got,) = write(model, ["p"], replace(how, edit_threshold=0.8, post_steps=5))
    assert (got.text, got.steps) == ("abcd", (2, 1, 7, 7))
    assert got.forwards == model.forwards == 6
    assert got.probs == pytest.approx((1.0, 0.61, 1.0, 1.0), abs=0.01)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_an_edited_answer_in_company_is_what_it_is_alone(
    llada: Denoiser, temperature: float
) -> None:
    how = SamplerSettings(
        length=12, steps=12, block=4, reveal_threshold=0.5, edit_threshold=0.3, post_steps=3,
        temperature=temperature,
    )  # fmt: skip
    together = write(llada, PROMPTS, how)
    for prompt, among in zip(PROMPTS, together, strict=True):
        (alone,) = write(llada, [prompt], how)
        assert alone == replace(among, probs=alone.probs)
        assert alone.probs == pytest.approx(among.probs, abs=1e-5)


def test_nan_logits_are_an_error_that_names_the_model(scripted: Callable[..., Denoiser]) -> None:
    def script(canvas: Canvas) -> torch.Tensor:
        logits = torch.zeros(*canvas.tokens.shape, 259)
        logits[:, -1, 7] = torch.nan
        return logits

    with pytest.raises(DenoiserError, match="finite, got NaN"):
        write(scripted(script), ["p"], settings(4))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_sampled_tokens_follow_the_tempered_softmax(by_place: ByPlace, temperature: float) -> None:
    """1500 items, one token each, against p ** (1 / T) renormalised.

    Chi-square with 2 degrees of freedom is below 13.8 in 999 of 1000. The probability that is
    reported stays the untempered one.
    """
    odds = {"a": 0.5, "b": 0.3, "c": 0.2}
    pool = write(
        by_place([odds]), [f"p{i}" for i in range(1500)], settings(1, temperature=temperature)
    )
    seen = Counter(s.text for s in pool)
    tempered = {letter: p ** (1 / temperature) for letter, p in odds.items()}
    expected = [1500 * v / sum(tempered.values()) for v in tempered.values()]
    assert chisquare([seen[letter] for letter in odds], expected).statistic < 13.8
    for got in pool[:50]:
        assert got.probs == pytest.approx([odds[got.text]])


def test_denoise_leaves_what_was_given_alone(by_place: ByPlace, ids: Ids) -> None:
    """Only the places that hold the mask token are rewritten; the given ones keep step -1."""
    model = by_place([{"a": 0.9, "b": 0.1}] * 4)
    canvas = Canvas.of([ids("p")], [ids("x_y_")], 0, model.device)
    done = denoise(model, canvas, linear_schedule, 2)
    assert done.tokens[0].tolist() == list(ids("pxaya"))
    assert done.steps[0].tolist() == [-1, -1, 0, -1, 1]
    assert done.probs[0].tolist() == pytest.approx([1, 1, 0.9, 1, 0.9])


def test_denoise_writes_only_inside_its_block(by_place: ByPlace, ids: Ids) -> None:
    model = by_place([{"a": 0.9, "b": 0.1}] * 3)
    canvas = Canvas.of([ids("p")], [ids("___")], 0, model.device)
    within = torch.tensor([[False, True, False, False]])
    done = denoise(model, canvas, even_schedule, 1, within=within)
    assert done.tokens[0].tolist() == list(ids("pa__"))


def test_denoise_in_random_order_without_keys_is_refused(by_place: ByPlace, ids: Ids) -> None:
    model = by_place([{"a": 1.0}])
    canvas = Canvas.of([ids("p")], [ids("_")], 0, model.device)
    with pytest.raises(SettingsError, match="need keys"):
        denoise(model, canvas, even_schedule, 1, rule=Rule(order="random"))


def test_a_prompt_too_long_for_the_model_is_refused_with_both_lengths(llada: Denoiser) -> None:
    with pytest.raises(InputError, match="510 tokens and its answer room for 8, more than the 512"):
        write(llada, ["x" * 510], settings(8))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"length": 10, "block": 4}, "length must be a multiple of block \\(4\\), got 10"),
        ({"length": 0}, "length must be at least 1, got 0"),
        ({"steps": 3, "block": 4}, r"steps must be a multiple of .* \(2\), got 3"),
        ({"steps": 1, "block": 4}, r"steps must be a multiple of .* \(2\), got 1"),
        ({"temperature": -0.1}, "temperature must be at least 0, got -0.1"),
        (
            {"temperature": math.nan},
            "temperature must be a number at least 0 and at most 100, got nan",
        ),
        ({"temperature": math.inf}, "temperature must be at most 100, got inf"),
        ({"steps": 10**9}, "steps must be at most 65,536, got 1000000000"),
        ({"length": 10**9}, "length must be at most 1,048,576, got 1000000000"),
        ({"length": 8.0}, "length must be an integer at least 1 and at most 1,048,576, got 8.0"),
        ({"order": "left"}, "order must be .*, got 'left'"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        replace(SamplerSettings(length=8, steps=8, block=8), **changes)


def test_settings_follow_the_preset() -> None:
    preset = Preset(length=64, steps=32, block=16, temperature=0.4)
    expected = SamplerSettings(length=64, steps=32, block=16, temperature=0.4)
    assert SamplerSettings.of(preset) == expected


def test_no_prompts_give_no_samples(llada: Denoiser, tokenizer: Tokenizer) -> None:
    assert sample(llada, [], settings(4), items=[]) == []


def test_steps_with_nothing_left_to_reveal_cost_nothing(by_place: ByPlace) -> None:
    """Two tokens in four steps: one in each of the first two, and the model is asked no more."""
    model = Counted(by_place([{"a": 0.9, "b": 0.1}, {".": 0.8, "b": 0.2}]))
    (got,) = write(model, ["p"], settings(2, steps=4))
    assert got.forwards == model.forwards == 2


def test_a_token_thrown_away_after_the_end_has_neither_step_nor_probability(
    by_place: ByPlace, ids: Ids
) -> None:
    """`a.b.` ends at place 1: `b` becomes EOS; the EOS after it was written, in the last step."""
    sure = [("a", 0.9), (".", 0.8), ("b", 0.7), (".", 0.6)]
    (got,) = write(by_place([{letter: p, "x": 1 - p} for letter, p in sure]), ["p"], settings(4))
    assert got.canvas == ids("a...")
    assert got.steps == (0, 1, -1, 3)
    assert got.probs == pytest.approx((0.9, 0.8, 1.0, 0.6))
