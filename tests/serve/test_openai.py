"""The official client, over a real socket."""

from typing import Any

import openai
import pytest
from serving.live import live  # type: ignore[import-not-found]

import remask
from remask.denoisers.base import Denoiser
from remask.serve.errors import ApiError
from remask.serve.settings import ServeSettings

PROMPT = "What is 12 + 5?"
MESSAGES: list = [{"role": "user", "content": PROMPT}]  # type: ignore[type-arg]


@pytest.fixture(scope="module")
def api(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)


def test_the_client_comes_again_when_the_server_says_so(
    denoiser: Denoiser, settings: ServeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request is refused for a second, the next one is answered."""
    busy = ApiError(429, "The queue is too long.", headers={"Retry-After": "1"})
    with live(denoiser, settings) as (service, address):
        check, causes = service.batcher.check_room, [busy]

        def check_room(*given: Any) -> None:
            if causes:
                raise causes.pop()
            check(*given)

        monkeypatch.setattr(service.batcher, "check_room", check_room)
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="unused", max_retries=1)
        found = client.chat.completions.create(model=settings.model, messages=MESSAGES)
        assert found.choices[0].message.content
        causes.append(busy)
        with pytest.raises(openai.RateLimitError, match="The queue is too long"):
            client.with_options(max_retries=0).chat.completions.create(
                model=settings.model, messages=MESSAGES
            )


def test_models_are_listed(api: openai.OpenAI, settings: ServeSettings) -> None:
    assert [model.id for model in api.models.list()] == [settings.model]
    assert api.models.retrieve(settings.model).id == settings.model


def test_a_chat_is_answered(
    api: openai.OpenAI, settings: ServeSettings, denoiser: Denoiser
) -> None:
    found = api.chat.completions.create(
        model=settings.model, messages=MESSAGES, n=2, logprobs=True, seed=3, max_tokens=16
    )
    known = [remask.sample(denoiser, PROMPT, number=i, seed=3) for i in range(2)]
    assert [choice.message.content for choice in found.choices] == [s.text for s in known]
    assert found.usage is not None
    assert found.usage.completion_tokens == sum(s.num_response for s in known)
    logprobs = found.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert len(logprobs.content) == known[0].num_response


def test_a_stream_is_the_same_answer(api: openai.OpenAI, settings: ServeSettings) -> None:
    whole = api.chat.completions.create(model=settings.model, messages=MESSAGES)
    stream = api.chat.completions.create(
        model=settings.model, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage


def test_the_field_of_ours_travels_both_ways(api: openai.OpenAI, settings: ServeSettings) -> None:
    found = api.chat.completions.create(
        model=settings.model,
        messages=MESSAGES,
        extra_body={"remask": {"trips": 1, "rebuild_steps": 2, "budget": 2, "threshold": 2.0}},
    )
    told = found.model_dump()
    assert told["remask"]["action"] == "fallback"
    assert told["choices"][0]["remask"]["object"] == "remask.verification"


def test_errors_are_the_clients_own(api: openai.OpenAI, settings: ServeSettings) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        api.chat.completions.create(model=settings.model, messages=MESSAGES, store=True)
    assert refused.value.param == "store"
    assert refused.value.code == "unsupported_value"
    assert (refused.value.request_id or "").startswith("req-")
    with pytest.raises(openai.NotFoundError, match="not served here"):
        api.chat.completions.create(model="gpt-4o", messages=MESSAGES)
