"""Contraction rates on models whose operator can be worked out: one-hot embeddings, few places."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.errors import RecordError, SettingsError
from remask.records.manifest import Manifest
from remask.records.record import Record
from remask.tasks import TASKS
from remask.testing import ScriptedDenoiser
from remask.values import Canvas, Sample
from studies.paper.contraction import (
    Contraction,
    ContractionSettings,
    Point,
    QuestionPoints,
    Residual,
    contraction,
    images,
    measure,
    nudge,
)

Answer = Callable[..., Sample]
TEN = ContractionSettings(mask_ratio=0.9, draws=10)


@pytest.fixture
def one_solution(by_place: Callable[..., Denoiser]) -> Denoiser:
    """A model that rebuilds "abab" wherever a token is masked."""
    return by_place([{letter: 1.0} for letter in "abab"])


def question(model: Denoiser, points: list[Point], settings: ContractionSettings) -> QuestionPoints:
    samples = [point.sample for point in points]
    z = [model.embed(torch.tensor(sample.canvas)) for sample in samples]
    return QuestionPoints(points, list(zip(z, images(model, samples, settings), strict=True)))


def test_a_model_of_one_solution_moves_nine_tenths_of_the_way_to_it(
    one_solution: Denoiser, answer: Answer
) -> None:
    """Each place is visible in 1 of 10 draws: T z = z* + 0.1 (z - z*).

    From "abba", two places off, ||z - z*|| = sqrt(4) = 2: the residual is 1.8, every rate is 0.1
    and the bound 1.8 / 0.9 = 2 is met with equality, by the median rate as well.
    """
    points = [Point(answer("abba"), False), Point(answer("abab", number=1), True)]
    found = question(one_solution, points, TEN)
    assert [pair.rate for pair in found.pairs()] == pytest.approx([0.1])
    wrong, right = found.residuals()
    assert (wrong.residual, wrong.distance, wrong.rate) == pytest.approx((1.8, 2.0, 0.1))
    assert wrong.moved == pytest.approx(0.9)  # RMS over 4 places
    assert wrong.used == pytest.approx(1)
    assert wrong.bounded(0.1)
    assert not wrong.bounded(0.05)
    assert (right.residual, right.distance) == pytest.approx((0, 0), abs=1e-6)


def test_what_is_measured_on_it_is_summed_up(one_solution: Denoiser, answer: Answer) -> None:
    """Three answers: "abba" twice, which is no pair, and the solution; 2 pairs, 3 nudged."""
    points = [Point(answer(text, number=k), text == "abab") for k, text in enumerate(TEXTS)]
    found = measure(one_solution, [points], TEN)
    assert (found.answers, found.unsolved, found.forwards) == (3, 0, 6 * 10)
    assert found.contraction is not None
    assert (found.contraction.value, found.contraction.n) == pytest.approx((0.1, 2))
    assert found.local is not None
    assert (found.local.value, found.local.n) == pytest.approx((0.1, 3))
    assert found.quantiles == pytest.approx((0.1, 0.1))
    shares = (found.bound_share, found.bound_share_invalid, found.bound_share_median)
    assert [(share.value, share.n) for share in shares if share] == [(1, 3), (1, 2), (1, 2)]
    told = found.figures("s", is_main=True)
    assert told["geometry/contraction"].value == pytest.approx(0.1)
    assert told["geometry/contraction_blind"].value == pytest.approx(0.1)
    assert told["geometry/bound_share"].n == 3
    assert told["geometry/residual_wrong"].value == pytest.approx(0.9)
    assert told["geometry/residual_right"].value == pytest.approx(0, abs=1e-6)
    assert {f"geometry/contraction_q{q}" for q in (10, 90)} <= set(told)


TEXTS = ("abba", "abba", "abab")


@pytest.fixture
def gossip(scripted: Callable[..., Denoiser], ids: Callable[[str], tuple[int, ...]]) -> Denoiser:
    """A model that writes "b" wherever it must guess and sees a "b", else "a"."""
    a, b = ids("ab")

    def script(canvas: Canvas) -> Tensor:
        seen = (canvas.tokens == b).any(1)  # (B,)
        guess = torch.where(seen, b, a)[:, None].expand(canvas.tokens.shape)
        return 100 * torch.nn.functional.one_hot(guess, 259).float()

    return scripted(script)


def test_a_model_that_spreads_a_difference_does_not_contract(
    gossip: Denoiser, answer: Answer
) -> None:
    """One "b" among 17 places, at ratio 0.5, against none: distance sqrt(2).

    Its own place keeps half of the difference; each of the 16 others turns when it is masked and
    the "b" is not, in a quarter of the masks: rate sqrt(1/4 + 16/16) = 1.118. No bound exists.
    """
    settings = ContractionSettings(mask_ratio=0.5, draws=400)
    points = [Point(answer("b" + "a" * 16), False), Point(answer("a" * 17, number=1), True)]
    found = question(gossip, points, settings)
    (pair,) = found.pairs()
    assert pair.distance == pytest.approx(math.sqrt(2))
    assert pair.rate == pytest.approx(math.sqrt(1.25), rel=0.03)
    wrong, right = found.residuals()
    assert wrong.rate is not None
    assert not wrong.bounded(wrong.rate)
    assert not right.bounded(1.0)
    assert right.bounded(0.99)  # at distance 0
    told = measure(gossip, [points], settings)
    assert told.below_one is not None
    assert told.below_one.value == 0
    assert told.bound_share is not None
    assert told.bound_share.value == 0


def test_the_image_is_the_expectation_over_all_masks(enumerable_llada: NativeDenoiser) -> None:
    """Three places, 8 masks at ratio 0.5, the empty one replaced by one of three at random.

    With 4000 draws each place's image is within 4 standard errors, of 0.5 / sqrt(4000) x the
    largest embedding at most; masked predictions differ between masks, so it is not met for free.
    """
    tokens, prompt = (5, 4, 3), (4,)
    model = enumerable_llada
    table = model.embed(torch.arange(model.vocab_size))
    exact = torch.zeros(3, table.shape[1])
    for masked in product([False, True], repeat=3):
        weight = 1 / 8 + (1 / 24 if sum(masked) == 1 else 0)
        if not any(masked):
            continue
        shown = [1 if hide else t for t, hide in zip(tokens, masked, strict=True)]
        canvas = Canvas.of([prompt], [shown], 0, model.device)
        logits = model.head(model.hidden(canvas)[0, 1:])
        logits[:, 1] = -torch.inf
        rebuilt = torch.where(
            torch.tensor(masked)[:, None], logits.softmax(1) @ table, table[list(tokens)]
        )
        exact += weight * rebuilt
    sample = Sample(item="x", prompt=prompt, canvas=tokens, num_response=3, text="")
    settings = ContractionSettings(mask_ratio=0.5, draws=4000)
    (image,) = images(model, [sample], settings)
    assert (image - exact).norm(dim=1).max() < 4 * 0.5 / math.sqrt(4000) * table.norm(dim=1).max()
    assert (table[list(tokens)] - exact).norm() > 0.5


def test_masked_whole_every_answer_has_the_same_image(
    llada: NativeDenoiser, answer: Answer
) -> None:
    settings = ContractionSettings(mask_ratio=1.0, draws=2)
    points = [Point(answer("abcd"), True), Point(answer("efgh", number=1), False)]
    (pair,) = question(llada, points, settings).pairs()
    assert pair.rate == pytest.approx(0, abs=1e-6)


def test_alone_and_in_a_ragged_batch_an_image_is_the_same(
    llada: NativeDenoiser, answer: Answer
) -> None:
    """The rows of a batch are padded to its longest and masked by identity alone."""
    samples = [
        answer("the first answer.....", item="one"),
        answer("short.", prompt="a longer prompt", item="two"),
        answer("another" * 9 + "....", item="three"),
    ]
    together = images(llada, samples, TEN)
    for sample, image in zip(samples, together, strict=True):
        (alone,) = images(llada, [sample], TEN)
        assert alone.shape == (len(sample.canvas), 32)
        torch.testing.assert_close(alone, image, rtol=1e-5, atol=1e-6)


def test_answers_of_one_question_meet_the_same_masks(
    by_place: Callable[..., Denoiser], answer: Answer
) -> None:
    """Where "z" is rebuilt and nothing else, the "z" in an image tells how often it was masked."""
    model = by_place([{"z": 1.0}] * 8)
    settings = ContractionSettings(mask_ratio=0.4, draws=3)
    one, same, other = (
        answer("aaaa....", item="q"),
        answer("bbbbbbb.", item="q", number=5),
        answer("aaaa....", item="r"),
    )
    z = model.tokenizer.encode("z")[0]
    found = [image[:, z] for image in images(model, [one, same, other], settings)]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_a_nudge_replaces_one_token_before_the_end_by_another_of_the_answer(answer: Answer) -> None:
    samples = [answer("abcab....", number=k) for k in range(40)]
    nudged = [nudge(sample) for sample in samples]
    places = set()
    for sample, other in zip(samples, nudged, strict=True):
        assert other is not None
        (place,) = (i for i in range(9) if other.canvas[i] != sample.canvas[i])
        assert other.canvas[place] in sample.canvas[:5]
        assert replace(other, canvas=sample.canvas) == sample
        places.add(place)
    assert places == set(range(5))
    assert nudged == [nudge(sample) for sample in samples]
    assert nudge(answer("aaa.")) is None


def test_an_answer_without_a_valid_solution_on_its_canvas_is_counted(
    one_solution: Denoiser, answer: Answer
) -> None:
    points = [Point(answer("abba"), False), Point(answer("aba", number=1), True)]
    found = measure(one_solution, [points], TEN)
    assert (found.answers, found.unsolved) == (2, 1)
    assert found.contraction is None
    assert found.bound_share_invalid is None


@pytest.fixture(scope="module")
def recorded(make_record: Callable[..., Record]) -> Contraction:
    """A word problem answered with its solution, with the solution off by a digit, and at random.

    The model says "0" everywhere, whatever it sees: a rate of 1 - 0.5 exactly.
    """
    problem = TASKS["wordmath"].problem(0, level="easy")
    flawed = problem.solution.replace(problem.gold, problem.gold + "1")
    texts = [(problem.solution, True), (flawed, False), ("#### 7", False)]
    rows = [
        replace(
            make_record("", k, right=ok, level="easy"), id=problem.id, prompt=problem.prompt,
            text=text,
        )
        for k, (text, ok) in enumerate(texts)
    ]  # fmt: skip
    zero = ScriptedDenoiser.from_table(torch.zeros(1, 262)).tokenizer.encode("0")[0]
    table = 100 * torch.nn.functional.one_hot(torch.full((512,), zero), 262).float()
    settings = ContractionSettings(mask_ratio=0.5, draws=2, samples=2)
    return contraction(ScriptedDenoiser.from_table(table), rows, settings)


def test_records_are_brought_back_with_the_task_s_own_solution(recorded: Contraction) -> None:
    """2 of 3 samples, their nudged selves and the solution: 5 points, 2 masks each."""
    assert (recorded.answers, recorded.unsolved, recorded.forwards) == (2, 0, 10)
    assert recorded.contraction is not None
    assert (recorded.contraction.value, recorded.contraction.n) == pytest.approx((0.5, 1))
    assert recorded.local is not None
    assert recorded.local.value == pytest.approx(0.5)
    assert recorded.bound_share is not None
    assert (recorded.bound_share.value, recorded.bound_share.n) == (1, 2)


def test_a_model_that_sees_block_by_block_is_refused(
    block_causal: NativeDenoiser, answer: Answer
) -> None:
    with pytest.raises(SettingsError, match="block by block"):
        images(block_causal, [answer("ab")], TEN)


@pytest.mark.parametrize("wrong", [{"mask_ratio": 0.0}, {"draws": 0}, {"samples": 0}])
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        ContractionSettings(**wrong)


def test_the_bound_is_refused_to_an_answer_without_a_distance() -> None:
    told = Residual(
        item="q", number=0, valid=False, residual=1.0, moved=1.0, distance=None, rate=0.5
    )
    assert not told.bounded(0.5)


def test_a_task_of_one_s_own_is_found_by_its_name_in_the_manifest(
    make_record: Callable[..., Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ids may have any form; the module is named by the manifest alone."""
    (tmp_path / "own_task.py").write_text(
        "from dataclasses import replace\n"
        "from remask.tasks import TASKS\n"
        "class Own:\n"
        "    name = 'own'\n"
        "    def __getattr__(self, name):\n"
        "        return getattr(TASKS['wordmath'], name)\n"
        "    def problem(self, number, **drawn):\n"
        "        made = TASKS['wordmath'].problem(number, **drawn)\n"
        "        return replace(made, id=f'own {number}', task='own')\n"
        "task = Own()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    problem = TASKS["wordmath"].problem(1, split="test", level="easy", seed=0)
    row = replace(
        make_record("", 0, right=True, level="easy"), id="own 1", task="own",
        prompt=problem.prompt, text=problem.solution,
    )  # fmt: skip
    settings = {"split": "test", "level": "easy", "seed": 0, "problems": 2}
    manifest = Manifest(settings={"task": "own_task:task", **settings})
    denoiser = ScriptedDenoiser.from_table(torch.zeros(512, 262))
    drawn = ContractionSettings(mask_ratio=0.5, draws=2, samples=1)
    assert contraction(denoiser, [row], drawn, manifest=manifest).answers == 1
    with pytest.raises(RecordError, match="must be TASK/LEVEL/SPLIT/SEED/NUMBER, got 'own 1'"):
        contraction(denoiser, [row], drawn)
