"""Flips and settling, worked by hand, and read from a model's own steps."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remask.answers import extract_number
from remask.denoisers.base import Denoiser
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.sampling.trajectory import answer_flips, settled_step, tentative_answers
from remask.values import Canvas, Trace

ANSWERS = st.lists(st.sampled_from([None, "1", "2"]), max_size=8)


@pytest.mark.parametrize(
    ("answers", "flips", "settled"),
    [
        (["5", "5", "5", "5"], 0, 0.0),
        ([None, "5", "5", "5"], 0, 0.25),
        (["5", "6", "5", "5"], 2, 0.5),
        (["5", None, "5", "5"], 0, 0.5),
        (["5", None, "6", "7"], 2, 0.75),
        (["5", "6", "6", None], 1, 1.0),
        ([None, None], 0, 1.0),
        ([], 0, 1.0),
        (["5"], 0, 0.0),
    ],
)
def test_by_hand(answers: list[str | None], flips: int, settled: float) -> None:
    assert answer_flips(answers) == flips
    assert settled_step(answers) == settled


@given(ANSWERS)
def test_what_holds_always(answers: list[str | None]) -> None:
    assert 0 <= answer_flips(answers) <= max(0, len(answers) - 1)
    assert 0 <= settled_step(answers) <= 1
    doubled = [answer for answer in answers for _ in range(2)]
    assert answer_flips(doubled) == answer_flips(answers)
    assert settled_step(doubled) == settled_step(answers)


@given(ANSWERS, st.sampled_from(["1", "2"]))
def test_further_steps_with_the_same_answer_settle_it(
    answers: list[str | None], final: str
) -> None:
    settled = settled_step([*answers, final])
    assert settled_step([*answers, final, final]) == pytest.approx(
        settled * (len(answers) + 1) / (len(answers) + 2)
    )


def test_a_step_is_read_once_it_has_come_to_the_end_and_each_text_once() -> None:
    """The response has three tokens; the second place is predicted late, the last not at first."""
    read: list[str] = []

    def note(text: str) -> str:
        read.append(text)
        return text

    steps = ((1, -1, -1, -1), (1, -1, 3, -1), (1, -1, 3, -1), (1, 2, 3, -1), (1, -1, 3, -1))
    trace = Trace(entropy=(0.0,) * 4, tentative=steps, mean_entropy=(0.0,) * 5)
    answers = tentative_answers(trace, 3, lambda tokens: "".join(map(str, tokens)), note)
    assert answers == [None, "13", "13", "123", "13"]
    assert read == ["13", "123"]


def test_an_answer_that_a_model_changes(
    scripted: Callable[..., Denoiser], ids: Callable[[str], tuple[int, ...]]
) -> None:
    """`7` becomes `8` with the word before it, then the end in front of it goes: None, 7, 8, 8."""
    digits = {0: "7", 1: "7", 2: "8", 3: "8"}

    def script(canvas: Canvas) -> torch.Tensor:
        logits = torch.zeros(*canvas.tokens.shape, 259)
        step = int((canvas.canvas & (canvas.tokens != ids("_")[0])).sum())
        for place, letter in enumerate(["a" if step else ".", "b", " ", digits[step]]):
            logits[0, 1 + place, ids(letter)[0]] = [4.0, 9.0, 8.0, 5.0][place]
        return logits

    how = SamplerSettings(length=4, steps=4, block=4)
    model = scripted(script)
    (answer,) = sample(model, [ids("p")], how, items=["a"], trace=True)
    assert answer.trace is not None
    answers = tentative_answers(answer.trace, 4, model.tokenizer.decode, extract_number)
    assert answers == [None, "7", "8", "8"]
    assert answer.text == "ab 8"


def test_the_last_step_of_a_sampler_is_its_answer(llada: Denoiser) -> None:
    how = SamplerSettings(length=8, steps=8, block=4)
    for one in sample(llada, [[5], [6, 7]], how, items=["i", "j"], trace=True):
        assert one.trace is not None
        decode = llada.tokenizer.decode
        *earlier, last = tentative_answers(one.trace, one.num_response, decode, str)
        assert last == one.text
        assert set(earlier) != {last}
