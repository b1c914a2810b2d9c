"""Values as documents, and errors as sentences."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from remask import api
from remask.errors import DenoiserError, InputError, MissingExtra, SettingsError, TaskError
from remask.sampling.drafts import Draft
from remask.sampling.settings import SamplerSettings
from remask.serve.body import validation_error
from remask.serve.errors import ApiError, api_error
from remask.serve.inputs import read_inputs
from remask.serve.openai import CutAnswer
from remask.serve.programs import Verified
from remask.serve.request import ClientRequest
from remask.serve.requests import (
    ChatRequest,
    Message,
    SolveRequest,
    SolveSettings,
    VerifyRequest,
    split_turns,
)
from remask.serve.responses import Responder, metric_values, readable
from remask.serve.routes import json_response
from remask.serve.service import Service, build_service
from remask.serve.settings import ServeSettings
from remask.testing import ScriptedDenoiser, tiny_tokenizer
from remask.values import Decision, Sample, Score

LIMIT = 300.0  # seconds that only a defect takes
TOKENIZER = tiny_tokenizer()


@pytest.fixture
def service() -> Iterator[Service]:
    model = ScriptedDenoiser(script=lambda tokens: torch.zeros(*tokens.shape, 262))
    made = build_service(model, ServeSettings(model="scripted", metrics="core"))
    yield made
    made.batcher.close(LIMIT)


def responder(service: Service) -> Responder:
    """Return what answers a request to solve, whose client has not sent anything yet."""
    body = SolveRequest(prompt="p", remask=SolveSettings(budget=1, threshold=0.75))

    async def make() -> Responder:
        client = ClientRequest(service, Request({"type": "http", "state": {"request_id": "r"}}))
        return Responder(
            service=service, client=client, body=body, prompts=[read_inputs(service, body)]
        )

    return asyncio.run(make())


@pytest.mark.parametrize(("ended", "text"), [(False, "a"), (True, "a\ufffd")])
def test_half_a_character_is_shown_only_where_no_more_can_come(
    service: Service, ended: bool, text: str
) -> None:
    """An a and the first byte of é in a block of two: the second may begin the next block."""
    how = SamplerSettings(length=4, steps=4, block=2)
    begun = (*TOKENIZER.encode("aé")[:2], TOKENIZER.mask_id, TOKENIZER.mask_id)
    draft = Draft(
        item="i", number=3, seed=0, prompt=(), settings=how, row_block=None, canvas=begun,
        probs=(1.0,) * 4, steps=(0,) * 4, block=1, ended=ended,
    )  # fmt: skip
    assert readable(TOKENIZER, draft) == text
    event = responder(service).event("block", draft)
    assert event.model_dump() == {"number": 3, "text": text, "finished": ended}


def test_weights_are_those_of_the_metrics_that_have_a_value() -> None:
    """Three metrics of which one is absent: a half each."""
    score = Score(
        value=0.5,
        by_metric={"a": 0.25, "b": 0.75},
        by_trip={"a": (0.25,), "b": (0.75,), "c": (None,)},
        weights=dict.fromkeys("abc", 1 / 3),
    )
    values = metric_values(score)
    assert {name: part.weight for name, part in values.items()} == {"a": 0.5, "b": 0.5, "c": 0}
    assert values["c"].model_dump() == {"value": None, "weight": 0.0, "by_trip": [None]}


def test_weights_need_no_trips() -> None:
    values = metric_values(Score(value=0.5, by_metric={"a": 0.5}, weights={"a": 1.0}))
    assert values["a"].model_dump() == {"value": 0.5, "weight": 1.0, "by_trip": []}


@pytest.mark.parametrize("stage", ["", "critical"])
def test_the_stage_that_settled_an_answer_is_said_and_left_out_where_none_did(
    service: Service, stage: str
) -> None:
    """In a verification, in its event and in a decision: the same field everywhere."""
    answers = responder(service)
    sample = api.sample_from_text(service.denoiser, "p", "ab")
    score = Score(value=0.5, logp=(-0.5, None, None), stage=stage, forwards=1, scorer="verifier")
    verified = Verified(sample=sample, trips=None, score=score)
    decided = Decision(
        item=sample.item, action="accept", sample=sample, score=score,
        attempts=((sample, score),), forwards=3, reason="",
    )  # fmt: skip
    documents = [
        answers.verification(verified), answers.event("verification", verified),
        answers.decision(decided),
    ]  # fmt: skip
    told = [json.loads(json_response(document).body) for document in documents]
    assert [document.get("stage") for document in told] == [stage or None] * 3
    assert [token["logp"] for token in told[0]["tokens"]] == [-0.5, None, None]


def test_a_score_that_is_not_made_of_its_metrics_has_no_weights() -> None:
    (part,) = metric_values(Score(value=0.5, by_metric={"a": 0.25})).values()
    assert part.model_dump() == {"value": 0.25, "weight": 0.0, "by_trip": []}


def test_the_tokens_that_are_told_are_those_of_the_text(service: Service) -> None:
    """A token that ends the answer, or stands for no text, was written and is no part of it."""
    eot, eos = TOKENIZER.backend.token_to_id("<|startoftext|>"), TOKENIZER.eos_id
    canvas = (*TOKENIZER.encode("hé"), eot, *TOKENIZER.encode("!"), eos, eos)
    sample = Sample(
        item="i", prompt=(1,), canvas=canvas, num_response=6, text=TOKENIZER.decode(canvas),
        probs=(0.5,) * 7, steps=tuple(range(7)),
    )  # fmt: skip
    answer = CutAnswer.of(TOKENIZER, responder(service).inputs.stops, sample)
    logs = answer.token_logs(TOKENIZER)
    assert "".join(log.text for log in logs) == answer.text == "hé!"
    assert ([log.step for log in logs], answer.num_tokens) == ([0, 1, 2, 4], 6)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InputError("x"), 400),
        (SettingsError("x"), 400),
        (TaskError("x"), 400),
        (MissingExtra("p", "e"), 400),
        (MemoryError(), 503),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), 503),
        (DenoiserError("x"), 500),
        (ApiError(429, "x"), 429),
    ],
)
def test_errors_have_the_status_they_deserve(error: Exception, status: int) -> None:
    assert api_error(error, "req-1").status == status


def test_a_defect_shows_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    failure = api_error(RuntimeError("secret"), "req-1")
    assert failure.response("req-1").error.model_dump() == {
        "message": "The server failed; its log has the cause under this request id.",
        "type": "server_error", "param": None, "code": "defect", "request_id": "req-1",
    }  # fmt: skip
    assert "secret" in caplog.text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
FIELDS = st.sampled_from(sorted({*ChatRequest.model_fields, *VerifyRequest.model_fields}))


@pytest.mark.parametrize("model", [ChatRequest, VerifyRequest, SolveRequest])
@given(body=st.dictionaries(FIELDS | st.text(max_size=4), JSON, max_size=5))
def test_any_misfit_is_one_sentence(model: Any, body: dict[str, Any]) -> None:
    from pydantic import ValidationError

    try:
        model.model_validate(body)
    except ValidationError as misfit:
        errors: list[Any] = [{**e, "loc": ("body", *e["loc"])} for e in misfit.errors()]
        error = validation_error(errors, body)
        assert error.status == 400
        assert error.message.endswith(".")
        assert len(error.message) < 400
        assert error.param is None or error.param.startswith((*body, *model.model_fields))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n": 0}, "n must be greater than or equal to 1, got 0."),
        ({"n": 1.5}, "n must be an integer, got 1.5."),
        ({"temperature": 3}, "temperature must be less than or equal to 2, got 3."),
        ({"stream": "yes"}, 'stream must be a boolean, got "yes".'),
        ({"remask": 7}, "remask must be an object, got 7."),
        ({"remask": {"mask_ratio": []}},
         "remask.mask_ratio must be a number or 'uniform', got []."),
        ({"remask": {"item": ""}}, 'remask.item must have at least 1 character, got "".'),
        ({"messages": []}, "messages must have at least 1 item, got []."),
        ({"messages": [{"role": "user", "content": "x", "tool_calls": [1]}]},
         "messages.0.tool_calls must be an empty list, got [1]."),
    ],
)  # fmt: skip
def test_a_validation_error_names_what_is_allowed(given: dict[str, Any], message: str) -> None:
    from pydantic import ValidationError

    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], **given}
    with pytest.raises(ValidationError) as misfit:
        ChatRequest.model_validate(body)
    errors: list[Any] = [{**e, "loc": ("body", *e["loc"])} for e in misfit.value.errors()]
    assert validation_error(errors, body).message == message


def test_a_field_with_an_endless_name_is_named_by_its_beginning() -> None:
    name = "x" * 100_000
    errors: list[Any] = [{"type": "extra_forbidden", "loc": ("body", name), "msg": "", "input": 1}]
    assert validation_error(errors, {name: 1}).param == "x" * 60


def test_turns_are_paired_before_the_last_question() -> None:
    texts = ["a", "b", "c", "d", "e"]
    messages = [
        Message(role="assistant" if i % 2 else "user", content=text) for i, text in enumerate(texts)
    ]
    assert split_turns(messages) == ("e", (("a", "b"), ("c", "d")), "", "")
    led = [Message(role="system", content="s"), Message(role="developer", content="t"), *messages]
    assert split_turns(led) == ("e", (("a", "b"), ("c", "d")), "s\n\nt", "")
