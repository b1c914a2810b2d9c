"""Tokens as texts, and errors as sentences."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.errors import DenoiserError, InputError, MissingExtra, SettingsError, TaskError
from remask.sampling.drafts import Draft
from remask.sampling.settings import SamplerSettings
from remask.serve.errors import Fault, defect, fault_of, invalid
from remask.serve.inputs import turns_of
from remask.serve.responses import metrics, written
from remask.serve.routes import Solving
from remask.serve.schema import ChatRequest, Message, SolveRequest, VerifyRequest
from remask.testing import tiny_tokenizer
from remask.values import Score

TOKENIZER = tiny_tokenizer()


@pytest.mark.parametrize(("ended", "text"), [(False, "a"), (True, "a\ufffd")])
def test_half_a_character_is_told_only_where_no_more_can_come(ended: bool, text: str) -> None:
    """An a and the first byte of é in a block of two: the second may begin the next block."""
    how = SamplerSettings(length=4, steps=4, block=2)
    begun = (*TOKENIZER.encode("aé")[:2], TOKENIZER.mask_id, TOKENIZER.mask_id)
    draft = Draft(
        item="i", number=3, seed=0, prompt=(), settings=how, row_block=None, canvas=begun,
        probs=(1.0,) * 4, steps=(0,) * 4, block=1, ended=ended,
    )  # fmt: skip
    service: Any = SimpleNamespace(denoiser=SimpleNamespace(tokenizer=TOKENIZER))
    assert written(service, draft) == text
    unused: Any = dict.fromkeys(("errand", "question", "sampler", "budget", "check", "draft"))
    told = Solving(service=service, **unused).told("block", draft)
    assert told == {"number": 3, "text": text, "finished": ended}


def test_weights_are_those_of_the_metrics_that_have_a_value() -> None:
    """Three metrics of which one is absent: a half each."""
    score = Score(
        value=0.5,
        by_metric={"a": 0.25, "b": 0.75},
        by_trip={"a": (0.25,), "b": (0.75,), "c": (None,)},
    )
    told = metrics(score)
    assert {name: part["weight"] for name, part in told.items()} == {"a": 0.5, "b": 0.5, "c": 0}
    assert told["c"] == {"value": None, "weight": 0.0, "by_trip": [None]}


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
        (Fault(429, "x"), 429),
    ],
)
def test_errors_have_the_status_they_deserve(error: Exception, status: int) -> None:
    fault = fault_of(error)
    assert fault is not None
    assert fault.status == status


def test_a_defect_tells_nothing_of_itself() -> None:
    assert fault_of(RuntimeError("secret")) is None
    assert defect().document("req-1")["error"] == {
        "message": "the server failed; its log tells why under this request id.",
        "type": "server_error", "param": None, "code": "defect", "request_id": "req-1",
    }  # fmt: skip


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
    except ValidationError as error:
        errors: list[Any] = [{**e, "loc": ("body", *e["loc"])} for e in error.errors()]
        fault = invalid(errors, body)
        assert fault.status == 400
        assert fault.message.endswith(".")
        assert len(fault.message) < 400
        assert fault.param is None or fault.param.startswith((*body, *model.model_fields))


def test_a_field_with_an_endless_name_is_named_by_its_beginning() -> None:
    name = "x" * 100_000
    errors: list[Any] = [{"type": "extra_forbidden", "loc": ("body", name), "msg": "", "input": 1}]
    assert invalid(errors, {name: 1}).message == "x" * 60 + " is not supported here; remove it."


def test_turns_are_paired_before_the_last_question() -> None:
    texts = ["a", "b", "c", "d", "e"]
    messages = [
        Message(role="assistant" if i % 2 else "user", content=text) for i, text in enumerate(texts)
    ]
    assert turns_of(messages) == ("e", (("a", "b"), ("c", "d")))
