"""What the OpenAPI document says, held against what the server does.

Requests that fit the document may still be refused for what no schema can say (an empty prompt,
another model), so that only what the server answers is held against it, and that misfits are
refused.
"""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode, checks

from remask.serve.settings import ServeSettings

EXAMPLES = 25  # for each route
CHECKS: Any = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
    checks.negative_data_rejection,
]
POSTED = ("/v1/verify", "/v1/solve", "/v1/chat/completions", "/v1/completions")
GOT = (
    "/v1/models", "/v1/models/{model}", "/v1/examples", "/v1/queue", "/health", "/ready",
    "/metrics",
)  # fmt: skip
SETTINGS = hypothesis.settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
    phases=[hypothesis.Phase.generate],
)


@pytest.fixture(scope="module")
def document(url: str) -> Any:
    return schemathesis.openapi.from_url(f"{url}/openapi.json")


def each(
    operation: Any, mode: GenerationMode, change: Callable[[Any], None], limit: int
) -> Counter[int]:
    """Send generated requests, each changed before; return how often each status came."""
    seen: Counter[int] = Counter()

    @SETTINGS
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def fits(case: Any) -> None:
        change(case)
        hypothesis.assume(len(json.dumps(case.body, default=str)) < limit)  # else it is a 413
        answer = case.call_and_validate(checks=CHECKS)
        if answer.status_code >= 400:
            assert answer.json()["error"]["param"] is not None, answer.text
        seen[answer.status_code] += 1

    fits()
    return seen


def test_every_route_of_the_document_is_tried(document: Any) -> None:
    told = {(r.ok().method.upper(), r.ok().path) for r in document.get_all_operations()}
    assert told == {("POST", path) for path in POSTED} | {("GET", path) for path in GOT}


@pytest.mark.parametrize("path", POSTED)
def test_bodies_that_fit_have_answers_that_fit(
    document: Any, settings: ServeSettings, path: str
) -> None:
    """Made cheap, and about the served model, so that many of them are answered."""

    def change(case: Any) -> None:
        case.body["model"] = settings.model
        for name in ("task", "level", *(("messages",) if "chat" not in path else ())):
            case.body.pop(name, None)
        if "chat" in path:
            case.body["messages"] = [{"role": "user", "content": "x"}]
        else:
            case.body["prompt"] = "x"
        if "completions" in path:  # what contradicts another field, which no schema can say
            for name in ("best_of", "echo", "stream_options", "top_logprobs", "n"):
                case.body.pop(name, None)
        case.body.pop("max_tokens", None)
        if "solve" in path:
            case.body.setdefault("remask", {})
        asked = case.body.get("remask")
        if asked is not None:
            asked |= {
                "trips": 1,
                "rebuild_steps": 2,
                "metrics": "core",
                "budget": 1,
                "threshold": 0.5,
            }
            if "verify" in path:
                del asked["budget"]

    seen = each(document[path]["POST"], GenerationMode.POSITIVE, change, settings.body_bytes)
    assert seen[200] > 0


@pytest.mark.parametrize("path", POSTED)
def test_bodies_that_do_not_fit_are_refused(
    document: Any, settings: ServeSettings, path: str
) -> None:
    seen = each(
        document[path]["POST"], GenerationMode.NEGATIVE, lambda case: None, settings.body_bytes
    )
    assert seen[200] == 0


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
FIELDS = (
    "model",
    "prompt",
    "messages",
    "task",
    "answer",
    "remask",
    "stop",
    "seed",
    "n",
    "logprobs",
)


@pytest.mark.parametrize("path", POSTED)
@SETTINGS
@hypothesis.given(
    body=ANY_JSON
    | st.dictionaries(st.sampled_from(FIELDS), ANY_JSON)
    | st.dictionaries(st.sampled_from(FIELDS), st.just("x") | ANY_JSON, min_size=3)
)
def test_no_body_is_an_error_of_the_server(url: str, path: str, body: Any) -> None:
    answer = httpx.post(
        f"{url}{path}", content=json.dumps(body), timeout=300,
        headers={"content-type": "application/json"},
    )  # fmt: skip
    assert answer.status_code < 500, answer.text
    assert answer.status_code == 200 or answer.json()["error"]["message"]


@pytest.mark.parametrize("path", GOT)
def test_what_is_got_fits(document: Any, settings: ServeSettings, path: str) -> None:
    got = document[path]["GET"]
    assert each(got, GenerationMode.POSITIVE, lambda case: None, settings.body_bytes)


def test_queries_that_do_not_fit_are_refused(document: Any, settings: ServeSettings) -> None:
    def change(case: Any) -> None:
        sent = {name for name, value in case.query.items() if value != []}  # which sends nothing
        hypothesis.assume(sent - {"level"})  # any text might be one

    examples = document["/v1/examples"]["GET"]
    seen = each(examples, GenerationMode.NEGATIVE, change, settings.body_bytes)
    assert seen
    assert seen[200] == 0
