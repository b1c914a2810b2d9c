"""The official client, over a real socket: retries and errors. `test_clients` has its calls."""

from typing import Any

import openai
import pytest
from serving.live import live  # type: ignore[import-not-found]

from remask.denoisers.base import Denoiser
from remask.serve.errors import ApiError
from remask.serve.settings import ServeSettings

PROMPT = "What is 12 + 5?"
MESSAGES: list = [{"role": "user", "content": PROMPT}]  # type: ignore[type-arg]


@pytest.fixture(scope="module")
def api(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)


def test_the_client_retries_after_a_429(
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


def test_errors_have_the_clients_classes(api: openai.OpenAI, settings: ServeSettings) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        api.chat.completions.create(model=settings.model, messages=MESSAGES, store=True)
    assert refused.value.param == "store"
    assert refused.value.code == "unsupported_value"
    assert (refused.value.request_id or "").startswith("req-")
    with pytest.raises(openai.NotFoundError, match="not served here"):
        api.chat.completions.create(model="gpt-4o", messages=MESSAGES)
