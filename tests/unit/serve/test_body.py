"""Bodies within limits: large ones are refused before they are validated."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remask.serve.body import MAX_DEPTH, MAX_ITEMS, MAX_VALUES, check_limits, read_body
from remask.serve.errors import ApiError
from remask.serve.requests import ChatRequest, CompletionRequest, SolveRequest, VerifyRequest

MOST = 100  # characters of a text
KINDS = (VerifyRequest, SolveRequest, ChatRequest, CompletionRequest)


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = [value]
    return value


def many(number: int) -> dict[str, Any]:
    """Return so many fields and items, a list of 999 at a time."""
    return {f"f{i}": [0] * 999 for i in range(number // 1_000)}


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({f"f{i}": 1 for i in range(60_000)}, "body", f"at most {MAX_ITEMS} fields, got 60000"),
        ({"a": {"b": [0] * (MAX_ITEMS + 1)}}, "a.b", f"at most {MAX_ITEMS} items, got 1001"),
        (many(MAX_VALUES + 1_000), "body", f"at most {MAX_VALUES} fields and items"),
        ({"a": nested(MAX_DEPTH)}, "body", f"at most {MAX_DEPTH} levels"),
        ({"a": [{"b": "x" * (MOST + 1)}]}, "a.0.b", f"at most {MOST} characters, got 101"),
    ],
)  # fmt: skip
def test_a_body_beyond_a_limit_is_refused_by_name(
    body: dict[str, Any], param: str, words: str
) -> None:
    with pytest.raises(ApiError, match=words) as refused:
        check_limits(body, MOST)
    assert (refused.value.status, refused.value.param) == (400, param)


@pytest.mark.parametrize(
    "body",
    [
        {f"f{i}": 1 for i in range(MAX_ITEMS)}, {"a": [0] * MAX_ITEMS}, many(MAX_VALUES),
        {"a": nested(MAX_DEPTH - 2)}, {"a": "x" * MOST},
    ],
)  # fmt: skip
def test_a_body_at_a_limit_is_read(body: dict[str, Any]) -> None:
    check_limits(body, MOST)


def test_what_is_beyond_a_limit_is_not_validated() -> None:
    class Never(VerifyRequest):
        @classmethod
        def model_validate(cls, *given: Any, **named: Any) -> Any:
            raise AssertionError("validated")

    body = json.dumps({f"f{i}": 1 for i in range(60_000)}).encode()
    with pytest.raises(ApiError, match="fields"):
        read_body(Never, body, MOST)


NAMES = st.sampled_from(
    [
        "prompt", "answer", "messages", "role", "content", "user", "remask", "trips", "kind", "n",
        "seed", "stop", "stream", "model", "logit_bias", "metadata", "temperature", "type", "text",
    ]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(), inner),
    max_leaves=20,
)


def read_or_refused(kind: Any, content: bytes) -> None:
    try:
        read = read_body(kind, content, MOST)
    except ApiError as error:
        read = error
    assert isinstance(read, kind | ApiError)
    assert getattr(read, "status", 400) == 400


@settings(max_examples=300, deadline=None)
@given(body=JSON, kind=st.sampled_from(KINDS))
def test_any_json_is_a_model_or_an_error_of_the_client(body: Any, kind: Any) -> None:
    read_or_refused(kind, json.dumps(body).encode())


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=50))
def test_any_bytes_are_a_model_or_an_error_of_the_client(content: bytes) -> None:
    read_or_refused(VerifyRequest, content)
