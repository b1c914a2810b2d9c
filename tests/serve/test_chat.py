"""POST /v1/chat/completions: OpenAI's shape, and the field of ours."""

import math
import threading
from typing import Any

import pytest

import remask
from remask import api
from remask.denoisers.base import Denoiser
from remask.serve.openai import ChatCompletion

Client = Any  # see conftest.py
PROMPT = "What is 12 + 5?"
TRIPS = {"trips": 2, "rebuild_steps": 4}


def chat(client: Client, body: dict[str, Any], **more: Any) -> Any:
    return client.ok("/v1/chat/completions", {**body, **more})


def chunks_of(client: Client, body: dict[str, Any], **more: Any) -> Any:
    return client.chunks("/v1/chat/completions", {**body, **more})


def test_choices_are_samples_of_the_prompts_pool(
    client: Client, body: dict[str, Any], denoiser: Denoiser
) -> None:
    found = chat(client, body, n=3, seed=4)
    ChatCompletion.model_validate(found, strict=True)
    known = [remask.sample(denoiser, PROMPT, number=i, seed=4) for i in range(3)]
    assert [c["message"]["content"] for c in found["choices"]] == [s.text for s in known]
    assert found["usage"]["completion_tokens"] == sum(s.num_response for s in known)
    assert found["usage"]["prompt_tokens"] == len(denoiser.tokenizer.render(PROMPT))
    assert "remask" not in found
    assert "remask" not in found["choices"][0]


def test_logprobs_are_those_of_the_step_that_revealed_each_token(
    client: Client, body: dict[str, Any], denoiser: Denoiser
) -> None:
    (choice,) = chat(client, body, logprobs=True)["choices"]
    sample = remask.sample(denoiser, PROMPT)
    assert sample.probs is not None
    assert sample.steps is not None
    told = choice["logprobs"]["content"]
    assert len(told) == sample.num_response
    assert [t["step"] for t in told] == list(sample.steps[: sample.num_response])
    logs = [math.log(p) for p in sample.probs[: sample.num_response]]
    assert [t["logprob"] for t in told] == pytest.approx(logs, abs=1e-4)
    assert all(bytes(t["bytes"]).decode() == t["token"] for t in told)


def test_a_stream_is_the_answer_in_finished_blocks(client: Client, body: dict[str, Any]) -> None:
    whole = chat(client, body, n=2)
    chunks = chunks_of(client, body, n=2, stream_options={"include_usage": True})
    usage = chunks.pop()
    assert usage["choices"] == []
    assert usage["usage"] == whole["usage"]
    for index, choice in enumerate(whole["choices"]):
        mine = [c["choices"][0] for c in chunks if c["choices"][0]["index"] == index]
        assert mine[0]["delta"]["role"] == "assistant"
        text = "".join(c["delta"].get("content", "") for c in mine)
        assert text == choice["message"]["content"]
        reasons = [c["finish_reason"] for c in mine]
        assert reasons == [None] * (len(mine) - 1) + [choice["finish_reason"]]
    assert len({c["id"] for c in chunks}) == 1


def test_the_field_remask_has_every_choice_verified(
    client: Client, body: dict[str, Any], denoiser: Denoiser
) -> None:
    found = chat(client, body, n=2, remask=TRIPS)
    ChatCompletion.model_validate(found, strict=True)
    settings = remask.ConsistencySettings(**TRIPS)
    for number, choice in enumerate(found["choices"]):
        sample = remask.sample(denoiser, PROMPT, number=number)
        known = remask.score(denoiser, PROMPT, sample, settings=settings, metrics="core")
        assert choice["remask"]["score"] == pytest.approx(known.value, abs=1e-5)
    end = [c for c in chunks_of(client, body, n=2, remask=TRIPS) if "remask" in c["choices"][0]]
    assert len(end) == 2


def test_a_budget_draws_until_one_is_accepted(client: Client, body: dict[str, Any]) -> None:
    """Nothing scores above 2: three attempts, and the best of them; a stream holds it back."""
    asked = {**TRIPS, "budget": 3, "threshold": 2.0}
    found = chat(client, body, remask=asked)
    decided = found["remask"]
    assert (decided["action"], decided["num_attempts"]) == ("fallback", 3)
    (choice,) = found["choices"]
    assert choice["message"]["content"] == decided["text"]
    assert choice["remask"]["score"] == decided["score"]
    text, end = chunks_of(client, body, remask=asked)
    assert text["choices"][0]["delta"]["content"] == decided["text"]
    assert end["remask"]["number"] == decided["number"]


def test_earlier_turns_count(client: Client, body: dict[str, Any], denoiser: Denoiser) -> None:
    turns = [
        {"role": "user", "content": "What is 1 + 1?"},
        {"role": "assistant", "content": "2", "refusal": None},
        *body["messages"],
    ]
    found = chat(client, body, messages=turns)
    ids = denoiser.tokenizer.render(PROMPT, [("What is 1 + 1?", "2")])
    known = api.sample_ids(
        denoiser, [ids], remask.SamplerSettings.of(denoiser.preset), items=[api.item_of(PROMPT)]
    )
    assert found["choices"][0]["message"]["content"] == known[0].text


def test_a_nucleus_narrows_what_is_drawn(client: Client, body: dict[str, Any]) -> None:
    """With next to nothing of the probability left, only the most probable token is."""
    narrow, none, greedy = (
        chat(client, body, **how)["choices"][0]["message"]["content"]
        for how in ({"top_p": 1e-6}, {"top_p": 0}, {"temperature": 0})
    )
    assert narrow == none == greedy
    assert chat(client, body)["choices"][0]["message"]["content"] != greedy


@pytest.mark.parametrize(("seed", "same"), [(-1, 2**63 - 1), (-(2**63), 0), (-(2**63) + 5, 5)])
def test_a_negative_seed_is_one_of_the_others(
    client: Client, body: dict[str, Any], seed: int, same: int
) -> None:
    found, known = (chat(client, body, seed=s)["choices"] for s in (seed, same))
    assert found == known


def test_parameters_that_change_nothing_are_taken(client: Client, body: dict[str, Any]) -> None:
    same = {
        "frequency_penalty": 0, "presence_penalty": 0.0, "top_logprobs": 0, "n": 1, "stream": False,
        "response_format": {"type": "text"}, "temperature": None,
    }  # fmt: skip
    plain, told = chat(client, body), chat(client, body, **same)
    assert plain["choices"] == told["choices"]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"frequency_penalty": 0.1}, "frequency_penalty"),
        ({"response_format": {"type": "json_object"}}, "response_format.type"),
        ({"n": 33}, "n"),
        ({"top_p": -0.1}, "top_p"),
        ({"seed": 2**63}, "seed"),
        ({"seed": -(2**63) - 1}, "seed"),
        ({"temperature": 2.1}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 8, "max_completion_tokens": 9}, "max_tokens"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"surprise": 1}, "surprise"),
        ({"top_logprobs": 21, "logprobs": True}, "top_logprobs"),
        ({"n": 2, "remask": {"budget": 2}}, "n"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    client: Client, body: dict[str, Any], change: dict[str, Any], param: str
) -> None:
    error = client.refused("/v1/chat/completions", {**body, **change})
    assert error["param"] == param
    assert error["message"].endswith(".")


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_canvas_beyond_the_limit_is_refused_under_the_name_it_was_given(
    client: Client, body: dict[str, Any], name: str
) -> None:
    error = client.refused("/v1/chat/completions", {**body, name: 300})
    assert error["param"] == name
    assert error["message"].startswith(f"{name} must be at most 256, got 300")


def test_a_missing_encoder_is_found_before_any_work(
    client: Client, body: dict[str, Any], no_encoder: list[threading.Thread]
) -> None:
    """Neither the model's thread nor the event loop, which is in this one, has to wait for it."""
    for budget in (1, 2):
        asked = {**TRIPS, "metrics": "paper", "budget": budget, "threshold": 0.5}
        error = client.refused("/v1/chat/completions", {**body, "remask": asked})
        assert error["param"] == "remask.metrics"
    assert len(no_encoder) == 2
    assert not {client.service.batcher._thread, threading.current_thread()} & set(no_encoder)


def test_a_model_must_be_named(client: Client, body: dict[str, Any]) -> None:
    del body["model"]
    error = client.refused("/v1/chat/completions", body)
    assert (error["param"], error["code"]) == ("model", "missing")
