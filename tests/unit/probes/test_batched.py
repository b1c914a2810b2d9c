"""Readings of an answer are the same in any company, on any device, and exact in every block."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import remask
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Counted, Replicas
from remask.probes.patterns import ProbeBatch, ProbePass, masks
from remask.probes.readings import Critical, Reading, read
from remask.probes.settings import Probe
from remask.values import Canvas, Sample

Answer = Callable[..., Sample]
NAMES = ("critical", "halves4", "stratified60x4", "visible")
PROBES = [Probe.named(name) for name in NAMES]


@pytest.fixture(scope="module")
def samples(answer: Answer) -> list[Sample]:
    """Return answers of several lengths: with critical tokens, with one, with none, unfinished."""
    return [
        answer("a1b2c3d....", item="one"),
        answer("ab7.", item="two", prompt="longer prompt"),
        answer("no digits here" + "." * 9, item="three", prompt="pp"),
        answer("12+30=42", item="four", number=3),
    ]


def alike(one: dict[str, Reading], other: dict[str, Reading]) -> None:
    assert list(one) == list(other) == list(NAMES)
    for name, reading in one.items():
        assert reading.forwards == other[name].forwards
        assert reading.critical == other[name].critical
        seen = [x is None for x in reading.logp]
        assert seen == [x is None for x in other[name].logp]
        a, b = ([x for x in r.logp if x is not None] for r in (reading, other[name]))
        assert a == pytest.approx(b, abs=1e-5)


@pytest.mark.parametrize("model", ["llada", "block_causal"])
def test_an_answer_is_read_alike_alone_and_in_company(
    model: str, samples: Sequence[Sample], digits: Critical, request: pytest.FixtureRequest
) -> None:
    denoiser: Denoiser = request.getfixturevalue(model)
    together = read(denoiser, samples, PROBES, critical=digits)
    backwards = read(denoiser, samples[::-1], PROBES, critical=digits)[::-1]
    for i, sample in enumerate(samples):
        [alone] = read(denoiser, [sample], PROBES, critical=digits)
        alike(together[i], alone)
        alike(together[i], backwards[i])
        for probe in PROBES:
            [single] = read(denoiser, [sample], [probe], critical=digits)
            assert single[probe.name].forwards == alone[probe.name].forwards


def test_replicas_read_what_one_model_reads(
    llada: NativeDenoiser, samples: Sequence[Sample], digits: Critical
) -> None:
    single = read(llada, samples, PROBES, critical=digits)
    others = tuple(replace(llada) for _ in range(2))
    for one, other in zip(
        single, read(Replicas(llada, others=others), samples, PROBES, critical=digits), strict=True
    ):
        alike(one, other)


def test_another_seed_draws_other_masks(
    llada: NativeDenoiser, samples: Sequence[Sample], digits: Critical
) -> None:
    one, other = (read(llada, samples[:1], PROBES, critical=digits, seed=s)[0] for s in (0, 1))
    changed = {name for name in NAMES if one[name] != other[name]}
    assert changed == {"halves4", "stratified60x4"}


def test_nothing_is_read_of_no_answers(llada: NativeDenoiser, digits: Critical) -> None:
    assert read(llada, [], PROBES, critical=digits) == []


@pytest.mark.parametrize("name", ["critical", "halves4", "stratified60x4"])
def test_every_block_is_read_behind_clean_ones(
    block_causal: NativeDenoiser, samples: Sequence[Sample], digits: Critical, name: str
) -> None:
    """Each block by a pass of its own: masked there, clean before it, and nothing behind it."""
    probe, model = Probe.named(name), block_causal
    for sample in samples:
        marks = tuple(digits(sample))
        targets = marks if any(marks) else (True,) * len(marks)
        if name == "halves4" and sum(targets) == 1:
            continue  # there are none
        rows = [ProbePass(sample, probe, k, targets, 0) for k in range(probe.passes)]
        batch = ProbeBatch.of(model, rows)
        masked, start = masks(batch), len(sample.prompt)
        total, times = torch.zeros(batch.response.shape[1]), torch.zeros(batch.response.shape[1])
        for row, mask in enumerate(masked & batch.canvas.canvas):
            clean = batch.canvas.tokens[row]
            for begin in range(0, len(clean), 4):
                block = slice(begin, begin + 4)
                tokens = clean[: begin + 4].clone()
                tokens[block] = clean[block].masked_fill(mask[block], model.tokenizer.mask_id)
                logits = model.head(model.hidden(shown(tokens))[0, block])
                logits[:, model.tokenizer.mask_id] = -torch.inf
                logp = logits.log_softmax(1).gather(1, clean[block, None])[:, 0]
                total[block] += logp * mask[block]
            times += mask
        [found] = read(model, [sample], [probe], critical=digits)
        here = slice(start, start + sample.num_response)
        for logp, sum_, num in zip(found[name].logp, total[here], times[here], strict=True):
            assert (logp is None) == (num == 0)
            if logp is not None:
                assert logp == pytest.approx((sum_ / num).item(), abs=1e-5)


def shown(tokens: Tensor) -> Canvas:
    everywhere = torch.ones(1, len(tokens), dtype=torch.bool)
    return Canvas(tokens=tokens[None], canvas=everywhere, attend=None)


def test_a_model_with_blocks_sees_its_answer_in_an_ordinary_pass(
    block_causal: NativeDenoiser, samples: Sequence[Sample], digits: Critical
) -> None:
    """The row of 12 is read block by block, what follows cut off."""
    sample, model = samples[0], Counted(block_causal)
    [found] = read(model, [sample], [Probe.named("visible")], critical=digits)
    row = torch.tensor([*sample.prompt, *sample.canvas])
    assert len(row) == 12
    parts = [block_causal.hidden(shown(row[:end]))[0, end - 4 :] for end in (4, 8, 12)]
    logits = block_causal.head(torch.cat(parts))
    logits[:, block_causal.tokenizer.mask_id] = -torch.inf
    expected = logits.log_softmax(1).gather(1, row[:, None])[1 : 1 + sample.num_response, 0]
    assert found["visible"].logp == pytest.approx(expected.tolist(), abs=1e-5)
    assert (found["visible"].forwards, model.forwards) == (1, 1)


def test_a_pass_with_a_clean_copy_counts_twice(
    block_causal: NativeDenoiser, samples: Sequence[Sample], digits: Critical
) -> None:
    """One call each but for `visible`, of rows twice as long."""
    model = Counted(block_causal)
    [found] = read(model, samples[:1], PROBES, critical=digits)
    prices = [found[name].forwards for name in NAMES]
    assert prices == [2, 8, 8, 1]
    assert model.forwards == 1 + 4 + 4 + 1


def test_the_embedded_model_tells_a_right_answer_from_a_wrong_one() -> None:
    """17 = 12 + 5 is likelier than 19, under every pattern that masks it."""
    model = remask.load("tiny")
    prompt = "Ben has 12 apples. Zoe has 5 more than Ben. How many has Zoe?"
    texts = [f"Zoe has 12+5={n} apples. The answer is {n}." for n in (17, 19)]
    answers = [remask.sample_from_text(model, prompt, text, item="same") for text in texts]

    def numbers(sample: Sample) -> list[bool]:
        pieces = model.tokenizer.pieces(sample.canvas[: sample.num_response])
        return [any(letter.isdigit() for letter in piece) for piece in pieces]

    right, wrong = read(model, answers, PROBES, critical=numbers)
    for name in set(NAMES) - {"visible"}:
        assert right[name].value("critical_mean") > wrong[name].value("critical_mean")
        assert all(x is None or x <= 0 for x in right[name].logp)
