"""Confidence, self-consistency and self-evaluation, by hand and against the contract."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remask.answers import extract_number
from remask.baselines.agreement import SelfConsistency
from remask.baselines.confidence import ModelConfidence
from remask.baselines.judge import PROMPT, SelfEvaluation, read_confidence
from remask.denoisers.base import Denoiser
from remask.denoisers.tokenizer import Tokenizer
from remask.denoisers.wrap import Counted
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.testing import check_scorer
from remask.values import Canvas, Sample

Answer = Callable[..., Sample]


@pytest.fixture
def written(answer: Answer) -> Sample:
    """`ab`, its end and a tail of two."""
    return replace(answer("ab..."), probs=(0.5, 0.7, 0.9, 0.99, 1.0), forwards=5)


def test_confidence_is_the_mean_over_the_response(written: Sample) -> None:
    """(.5 + .7 + .9) / 3 = .7; the end token belongs to the response, the tail does not."""
    (score,) = ModelConfidence().score([written])
    assert score.value == pytest.approx(0.7)
    assert score.forwards == 0


def test_confidence_over_the_canvas_counts_the_tail_as_the_paper_writes(written: Sample) -> None:
    """(.5 + .7 + .9 + .99 + 1) / 5 = .818."""
    (score,) = ModelConfidence(scope="canvas").score([written])
    assert score.value == pytest.approx(0.818)


def test_confidence_of_an_answer_from_outside_is_absent_with_a_reason(answer: Answer) -> None:
    (score,) = ModelConfidence().score([answer("ab...")])
    assert score.value is None
    assert score.reason == "the answer was not generated here"


def test_confidence_of_a_sample_is_what_the_sampler_saw(
    by_place: Callable[..., Denoiser],
) -> None:
    """Probabilities .6 and .8 of the letters written, one step each."""
    model = by_place([{"a": 0.6, "b": 0.4}, {".": 0.8, "b": 0.2}])
    how = SamplerSettings(length=2, steps=2, block=2)
    (score,) = ModelConfidence().score(sample(model, [[5]], how, items=["i"]))
    assert score.value == pytest.approx(0.7)


def number_of(sample: Sample) -> str | None:
    return extract_number(sample.text)


def pool_of(answer: Answer, texts: list[str]) -> list[Sample]:
    """Return the samples of one item; number n cost 10 + n forwards."""
    return [
        replace(answer("a", number=n), text=text, forwards=10 + n) for n, text in enumerate(texts)
    ]


def shares(answer: Answer, texts: list[str]) -> tuple[float | None, float | None]:
    """Return vote and agreement of sample 0."""
    pool = pool_of(answer, texts)
    kinds = (
        SelfConsistency(pools={"item": pool}, key=number_of, kind="vote"),
        SelfConsistency(pools={"item": pool}, key=number_of, kind="agreement"),
    )
    vote, agreement = (scorer.score(pool[:1])[0].value for scorer in kinds)
    return vote, agreement


@pytest.mark.parametrize(
    ("texts", "vote", "agreement"),
    [
        (["= 9", "so 9.0", "8", "nine: 9"], 0.75, 0.75),  # equivalent answers are the same vote
        (["= 8", "9", "9", "9"], 0.75, 0.25),  # the scored answer is in the minority
        (["8", "9", "8", "9"], 0.5, 0.5),  # a tie is half
        (["none", "9", "9", "8"], 0.5, 0.0),  # an answer nobody can read agrees with nothing
        (["none", "nothing", "?", "9"], 0.25, 0.0),  # None never wins, but counts in N
        (["none", "nothing"], 0.0, 0.0),
        (["9"], 1.0, 1.0),
    ],
)
def test_self_consistency_by_hand(
    answer: Answer, texts: list[str], vote: float, agreement: float
) -> None:
    assert shares(answer, texts) == (vote, agreement)


def test_self_consistency_costs_the_other_samples(answer: Answer) -> None:
    """Sample 1 of three was paid for already: 10 + 12."""
    pool = pool_of(answer, ["9", "9", "8"])
    (score,) = SelfConsistency(pools={"item": pool}, key=number_of).score([pool[1]])
    assert score.forwards == 22


def test_the_judges_prompt_is_the_papers() -> None:
    assert PROMPT == (
        "Question: {question}\n\n"
        "Your Answer: {answer}\n\n"
        "Is this answer correct? Respond with a confidence score between 0.0 (definitely wrong) "
        "and 1.0 (definitely correct). Only output the numerical score, nothing else."
    )


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("0.85", 0.85),
        ("8.5", 0.85),  # above 1: on a scale of 10
        ("10", 1.0),
        ("1", 1.0),
        ("1.0", 1.0),
        ("0", 0.0),
        ("I am 90% sure", 1.0),  # 90 / 10, clipped
        ("Score: 0.7, since 3 of 4 steps hold", 0.7),  # the first number
        (".05", 0.05),  # no digit before the point
        ("-0.5", 0.0),  # below 0, clipped
        ("Definitely correct.", None),
        ("", None),
    ],
)
def test_the_first_number_of_a_reply_is_its_confidence(reply: str, value: float | None) -> None:
    assert read_confidence(reply) == value


@given(st.text())
def test_any_reply_gives_a_share_or_nothing(reply: str) -> None:
    value = read_confidence(reply)
    assert value is None or 0 <= value <= 1


def judge(model: Denoiser) -> SelfEvaluation:
    return SelfEvaluation(
        denoiser=model,
        questions={"one": "What is 4 + 5?", "two": "And 2 + 2?"},
        settings=SamplerSettings(length=4, steps=4, block=4),
    )


def reciting(
    scripted: Callable[..., Denoiser], tokenizer: Tokenizer, reply: str, seen: list[str]
) -> Denoiser:
    """Return a model that answers `reply`, and notes the prompts it was given."""
    tokens = (tokenizer.encode(reply) + [0] * 4)[:4]

    def script(canvas: Canvas) -> torch.Tensor:
        for row, where in zip(canvas.tokens, canvas.canvas, strict=True):
            seen.append(tokenizer.decode(row[: int(where.int().argmax())].tolist()))
        table = 9 * torch.nn.functional.one_hot(torch.tensor(tokens), 259).float()
        return table[canvas.offsets.clamp(0, 3)]

    return scripted(script)


def test_self_evaluation_asks_about_the_answer_and_reads_the_reply(
    scripted: Callable[..., Denoiser], tokenizer: Tokenizer, answer: Answer
) -> None:
    seen: list[str] = []
    model = Counted(reciting(scripted, tokenizer, "0.8", seen))
    (score,) = judge(model).score([replace(answer("a", item="one"), text="It is 9")])
    asked = PROMPT.replace("{question}", "What is 4 + 5?").replace("{answer}", "It is 9")
    assert set(seen) == {tokenizer.template.replace("{prompt}", asked)}
    assert score.value == 0.8
    assert score.forwards == model.forwards == 4


def test_braces_in_a_question_and_an_answer_are_text(
    scripted: Callable[..., Denoiser], tokenizer: Tokenizer, answer: Answer
) -> None:
    seen: list[str] = []
    asking = replace(
        judge(reciting(scripted, tokenizer, "1", seen)),
        questions={"one": "Fill {answer}, {question}, {0} and {}"},
    )
    asking.score([replace(answer("a", item="one"), text="{question} {9}")])
    start = "Q: Question: Fill {answer}, {question}, {0} and {}\n\nYour Answer: {question} {9}\n\n"
    assert all(prompt.startswith(start) for prompt in seen)
    assert seen


def test_self_evaluation_without_a_number_is_absent_and_quotes_the_reply(
    scripted: Callable[..., Denoiser], tokenizer: Tokenizer, answer: Answer
) -> None:
    model = reciting(scripted, tokenizer, "yes", [])
    (score,) = judge(model).score([answer("a", item="two")])
    assert score.value is None
    assert score.reason == "no number in the reply 'yes'"
    assert score.forwards == 4


def test_the_baselines_keep_the_contract_of_a_scorer(
    llada: Denoiser, answer: Answer, written: Sample
) -> None:
    samples = [replace(written, item="one", text="9"), answer("7.", item="two")]
    pools = {s.item: [s, replace(s, number=1, text="8")] for s in samples}
    check_scorer(ModelConfidence(), samples)
    check_scorer(ModelConfidence(scope="canvas"), samples)
    for kind in ("vote", "agreement"):
        check_scorer(SelfConsistency(pools=pools, key=number_of, kind=kind), samples)  # type: ignore[arg-type]
    check_scorer(judge(llada), samples)


def test_the_names_tell_the_baselines_apart(llada: Denoiser) -> None:
    scorers = [
        ModelConfidence(),
        ModelConfidence(scope="canvas"),
        SelfConsistency(pools={}, key=number_of),
        SelfConsistency(pools={}, key=number_of, kind="agreement"),
        judge(llada),
    ]
    names = ["confidence", "confidence_canvas", "vote", "agreement", "self_evaluation"]
    assert [scorer.name for scorer in scorers] == names
