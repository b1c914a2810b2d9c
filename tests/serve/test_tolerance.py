"""What OpenAI's clients send beside the question: done if it can be, taken where it is neutral."""

import math
from typing import Any

import httpx
import pytest

import remask
from remask import api
from remask.denoisers.base import Denoiser
from remask.serve.openai import ChatCompletion, TextCompletion
from remask.serve.requests import CANNOT, ChatRequest, CompletionRequest
from remask.serve.settings import ServeSettings

Client = Any  # see conftest.py
PROMPT = "What is 12 + 5?"
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
SYSTEM = {"role": "system", "content": "Be brief."}
NEUTRAL: dict[str, list[Any]] = {
    "audio": [None], "frequency_penalty": [None, 0, 0.0], "function_call": [None, "none", "auto"],
    "functions": [None, []], "logit_bias": [None, {}, {"17": 0}], "logprobs": [None, False],
    "max_completion_tokens": [None], "max_tokens": [None],
    "metadata": [None, {}, {"run": "7"}], "modalities": [None, ["text"]], "moderation": [None],
    "n": [None, 1], "parallel_tool_calls": [None, True, False], "prediction": [None],
    "presence_penalty": [None, 0], "prompt_cache_key": [None, "k"], "prompt_cache_options": [None],
    "prompt_cache_retention": [None, "in_memory"], "reasoning_effort": [None, "none"],
    "remask": [None], "response_format": [None, {"type": "text"}],
    "safety_identifier": [None, "s"], "seed": [None, 0], "service_tier": [None, "auto", "default"],
    "stop": [None, [], "", [""]], "store": [None, False], "stream": [None, False],
    "stream_options": [None, {}, {"include_usage": False, "include_obfuscation": False}],
    "temperature": [None], "tool_choice": [None, "none", "auto"], "tools": [None, []],
    "top_logprobs": [None, 0], "top_p": [None, 1], "user": [None, "me"],
    "verbosity": [None, "medium"], "web_search_options": [None],
}  # fmt: skip
REFUSED: dict[str, Any] = {
    "audio": {"voice": "x"}, "frequency_penalty": 0.1, "function_call": {"name": "f"},
    "functions": [{"name": "f"}], "logit_bias": {"17": 5}, "modalities": ["text", "audio"],
    "moderation": {}, "prediction": {"type": "content", "content": "x"}, "presence_penalty": -1,
    "prompt_cache_options": {}, "prompt_cache_retention": "24h", "reasoning_effort": "low",
    "response_format": {"type": "json_object"}, "service_tier": "flex", "store": True,
    "tool_choice": "required", "tools": [{"type": "function"}], "verbosity": "high",
    "web_search_options": {},
}  # fmt: skip
BACK: list[dict[str, Any]] = [  # as clients write what they read
    {
        "annotations": None,
        "audio": None,
        "function_call": None,
        "refusal": None,
        "tool_calls": None,
    },
    {"annotations": [], "tool_calls": [], "name": "remask"},
    {"provider_specific_fields": {"refusal": None}, "reasoning_content": "so far"},
    {"content": [{"type": "text", "text": "2"}]},
    {
        "parsed": None,
        "reasoning": None,
        "thinking_blocks": None,
        "images": None,
        "id": None,
        "cache_control": None,
    },
]


@pytest.fixture
def text_body(settings: ServeSettings) -> dict[str, Any]:
    return {"model": settings.model, "prompt": PROMPT}


def test_every_field_has_a_value_that_changes_nothing(client: Client, body: dict[str, Any]) -> None:
    assert set(NEUTRAL) == set(ChatRequest.model_fields) - {"model", "messages"}
    plain = client.ok(CHAT, body)["choices"]
    most = max(map(len, NEUTRAL.values()))
    for turn in range(most):
        same = {name: values[min(turn, len(values) - 1)] for name, values in NEUTRAL.items()}
        assert client.ok(CHAT, {**body, **same})["choices"] == plain


@pytest.mark.parametrize("field", REFUSED)
def test_what_cannot_be_done_is_refused_by_name(
    client: Client, body: dict[str, Any], field: str
) -> None:
    error = client.refused(CHAT, {**body, field: REFUSED[field]})
    assert error["param"].split(".")[0] == field
    assert error["code"] == "unsupported_value"


def test_all_that_cannot_be_done_is_tried() -> None:
    assert set(REFUSED) | {"suffix", "stream_options.include_obfuscation"} == CANNOT


@pytest.mark.parametrize("more", BACK)
def test_an_answer_comes_back_as_clients_send_it(
    client: Client, body: dict[str, Any], more: dict[str, Any]
) -> None:
    first = {"role": "user", "content": "What is 1 + 1?", "name": "me"}
    turns = [first, {"role": "assistant", "content": "2", **more}, *body["messages"]]
    plain = [{"role": "user", "content": "What is 1 + 1?"}, {"role": "assistant", "content": "2"}]
    found, known = (
        client.ok(CHAT, {**body, "messages": m})["choices"]
        for m in (turns, [*plain, *body["messages"]])
    )
    assert found == known


@pytest.mark.parametrize(
    ("field", "code"),
    [
        *((name, "invalid_value") for name in ("tool_calls", "function_call", "audio", "refusal")),
        *((name, "unsupported_parameter") for name in ("parsed", "images", "unheard_of")),
    ],
)
def test_a_field_of_a_message_that_is_not_neutral_is_refused_by_name(
    client: Client, body: dict[str, Any], field: str, code: str
) -> None:
    answer = {"role": "assistant", "content": "2", field: [{"id": "1"}]}
    turns = [*body["messages"], answer, *body["messages"]]
    error = client.refused(CHAT, {**body, "messages": turns})
    assert error["param"].startswith(f"messages.1.{field}")
    assert error["code"] == code


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_system_turn_stands_where_the_template_has_it(
    client: Client, body: dict[str, Any], denoiser: Denoiser, role: str
) -> None:
    turns = [{**SYSTEM, "role": role}, *body["messages"]]
    answer = client.post(CHAT, {**body, "messages": turns})
    ids = denoiser.tokenizer.render(PROMPT, system="Be brief.")
    settings = remask.SamplerSettings.of(denoiser.preset)
    (known,) = api.sample_ids(denoiser, [ids], settings, items=[api.item_of(PROMPT)])
    assert answer.json()["choices"][0]["message"]["content"] == known.text
    assert answer.json()["usage"]["prompt_tokens"] == len(ids)
    assert answer.headers["x-remask-system"] == "turn"
    assert "x-remask-system" not in client.post(CHAT, body).headers
    assert client.get("/v1/models").json()["data"][0]["remask"]["system"] == "turn"


def test_a_system_turn_is_part_of_what_is_verified(client: Client, denoiser: Denoiser) -> None:
    turns = [SYSTEM, {"role": "user", "content": PROMPT}]
    asked = {"messages": turns, "answer": "17", "remask": {"trips": 1, "rebuild_steps": 2}}
    answer = client.post("/v1/verify", asked)
    sample = api.sample_from_text(denoiser, PROMPT, "17", system="Be brief.")
    how = remask.ConsistencySettings(trips=1, rebuild_steps=2)
    known = remask.score(denoiser, PROMPT, sample, settings=how, metrics="core")
    assert answer.json()["score"] == pytest.approx(known.value, abs=1e-5)
    assert answer.headers["x-remask-system"] == "turn"


@pytest.mark.parametrize(
    ("turns", "param"),
    [
        ([SYSTEM], "messages"),
        ([{"role": "assistant", "content": "x"}, {"role": "user", "content": "x"}], "messages"),
        ([{"role": "system", "content": " "}], "messages"),
        ([{"role": "user", "content": " "}], "messages.0.content"),
        ([{"role": "system", "content": ""}, {"role": "user", "content": "x"},
          {"role": "assistant", "content": ""}, {"role": "user", "content": None}],
         "messages.3.content"),
        ([{"role": "user", "content": "x"}, {"role": "assistant", "content": "<|eot_id|>"}],
         "messages"),
        ([{"role": "tool", "content": "x"}], "messages.0.role"),
        ([{"role": "user", "content": None}], "messages.0.content"),
        ([{"role": "user", "content": [{"type": "image_url"}]}],
         "messages.0.content.0.type"),
        ([{"role": "user", "content": "<|eot_id|>"}], "messages"),
        ([{"role": "user", "content": "9" * 300}], "messages"),
        ([{"role": "user", "content": "9" * 5_000}], "messages.0.content"),
    ],
)  # fmt: skip
def test_a_conversation_that_cannot_be_told_is_refused_by_name(
    client: Client, body: dict[str, Any], turns: list[Any], param: str
) -> None:
    assert client.refused(CHAT, {**body, "messages": turns})["param"] == param


def test_turns_of_one_role_are_one_and_system_turns_come_first(
    client: Client, body: dict[str, Any]
) -> None:
    turns = [
        {"role": "user", "content": "What is"},
        SYSTEM,
        {"role": "user", "content": "1 + 1?"},
        {"role": "assistant", "content": "2"},
        *body["messages"],
    ]
    plain = [
        SYSTEM,
        {"role": "user", "content": "What is\n\n1 + 1?"},
        {"role": "assistant", "content": "2"},
        *body["messages"],
    ]
    found, known = (client.post(CHAT, {**body, "messages": m}) for m in (turns, plain))
    assert found.json()["choices"] == known.json()["choices"]
    assert found.headers["x-remask-system"] == "turn"


def test_a_last_turn_of_the_assistant_is_continued(
    client: Client, body: dict[str, Any], denoiser: Denoiser
) -> None:
    """In all routes: what is sent, or verified, is what follows it."""
    begun = [*body["messages"], {"role": "assistant", "content": "It is "}]
    ids = denoiser.tokenizer.encode_whole(denoiser.tokenizer.chat(PROMPT) + "It is ")
    settings = remask.SamplerSettings.of(denoiser.preset)
    (known,) = api.sample_ids(denoiser, [ids], settings, items=[api.item_of(PROMPT)])
    told = client.ok(CHAT, {**body, "messages": begun})
    assert told["choices"][0]["message"]["content"] == known.text
    assert told["usage"]["prompt_tokens"] == len(ids)
    assert known.text != client.ok(CHAT, body)["choices"][0]["message"]["content"]
    trips = {"trips": 1, "rebuild_steps": 2}
    solved = client.ok(
        "/v1/solve", {"messages": begun, "remask": {**trips, "threshold": 0.5, "budget": 1}}
    )
    assert solved["attempts"][0]["text"] == known.text
    scored = client.ok("/v1/verify", {"messages": begun, "answer": "17", "remask": trips})
    sample = api.sample_from_text(denoiser, ids, "17", item=api.item_of(PROMPT))
    how = remask.ConsistencySettings(**trips)
    score = remask.score(denoiser, ids, sample, settings=how, metrics="core")
    assert scored["score"] == pytest.approx(score.value, abs=1e-5)


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize("content", ["", " ", None, []])
def test_a_system_turn_that_says_nothing_is_none(
    client: Client, body: dict[str, Any], role: str, content: Any
) -> None:
    turns = [{"role": role, "content": content}, *body["messages"]]
    answer = client.post(CHAT, {**body, "messages": turns})
    assert answer.json()["choices"] == client.ok(CHAT, body)["choices"]
    assert "x-remask-system" not in answer.headers


@pytest.mark.parametrize("content", ["", None, []])
def test_an_empty_answer_comes_back_as_it_was_sent(
    client: Client, body: dict[str, Any], denoiser: Denoiser, content: Any
) -> None:
    turns = [*body["messages"], {"role": "assistant", "content": content}, *body["messages"]]
    found = client.ok(CHAT, {**body, "messages": turns})
    ids = denoiser.tokenizer.render(PROMPT, [(PROMPT, "")])
    settings = remask.SamplerSettings.of(denoiser.preset)
    (known,) = api.sample_ids(denoiser, [ids], settings, items=[api.item_of(PROMPT)])
    assert found["choices"][0]["message"]["content"] == known.text
    assert found["usage"]["prompt_tokens"] == len(ids)


def stop_of(text: str) -> str:
    """Return a character of the middle of an answer, to stop at."""
    return text[len(text) // 2]


def canvas_of(denoiser: Denoiser, path: str) -> tuple[int, ...]:
    """Return the tokens of the first answer to the prompt."""
    tokenizer = denoiser.tokenizer
    ids = tokenizer.render(PROMPT) if path == CHAT else tokenizer.encode(PROMPT)
    settings = remask.SamplerSettings.of(denoiser.preset)
    (sample,) = api.sample_ids(denoiser, [ids], settings, items=[api.item_of(PROMPT)])
    return sample.canvas


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_an_answer_is_cut_at_a_stop(
    client: Client, body: dict[str, Any], text_body: dict[str, Any], denoiser: Denoiser, path: str
) -> None:
    """Whole and as a stream, one text or a list; its tokens are those before the stop."""
    asked = body | {"logprobs": True} if path == CHAT else text_body | {"logprobs": 0}
    read = (lambda c: c["message"]["content"]) if path == CHAT else (lambda c: c["text"])
    (whole,) = client.ok(path, asked)["choices"]
    stop = stop_of(read(whole))
    ids = canvas_of(denoiser, path)
    cut = read(whole)[: read(whole).index(stop)]
    for given in (stop, ["never", stop]):
        found = client.ok(path, {**asked, "stop": given})
        (choice,) = found["choices"]
        assert (read(choice), choice["finish_reason"]) == (cut, "stop")
        logs = choice["logprobs"]["content" if path == CHAT else "tokens"]
        size = found["usage"]["completion_tokens"]
        assert denoiser.tokenizer.decode(ids[:size]) == cut
        assert denoiser.tokenizer.decode(ids[: size - 1]) != cut
        assert len(logs) == sum(i not in denoiser.tokenizer.special_ids for i in ids[:size])
    chunks = [c["choices"][0] for c in client.chunks(path, {**asked, "stop": stop})]
    parts = [c["delta"].get("content", "") if path == CHAT else c["text"] for c in chunks]
    assert "".join(parts) == cut
    assert chunks[-1]["finish_reason"] == "stop"


def test_nothing_is_written_behind_a_stop(client: Client, body: dict[str, Any]) -> None:
    """Any token of the first of two blocks stops the answer: the second is not written."""
    (whole,) = client.ok(CHAT, {**body, "logprobs": True, "seed": 1})["choices"]
    steps = [t["step"] for t in whole["logprobs"]["content"]]
    assert max(steps) >= 4, "the answer has two blocks"
    first = whole["logprobs"]["content"][0]["token"]
    asked = {"trips": 1, "rebuild_steps": 1}
    found = client.ok(CHAT, {**body, "seed": 1, "stop": first, "remask": asked})
    (choice,) = found["choices"]
    assert choice["message"]["content"] == ""
    assert len(choice["remask"]["tokens"]) == 9, "the block, and the end behind it"


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize(
    ("stop", "param", "words"),
    [
        (["x"] * 17, "stop", "must have at most 16 items"),
        (7, "stop", "must be a string or a list, got 7"),
        ([None], "stop.0", "must be a string, got null"),
        ({"str": True}, "stop", 'got {"str": true}'),
    ],
)
def test_stops_that_are_none_are_refused(
    client: Client, body: dict[str, Any], text_body: dict[str, Any], path: str, stop: Any,
    param: str, words: str,
) -> None:  # fmt: skip
    """The error is that of the type which the value comes closest to, and shows it as JSON."""
    asked = body if path == CHAT else text_body
    error = client.refused(path, {**asked, "stop": stop})
    assert words in error["message"]
    assert error["param"] == param


def test_the_likeliest_tokens_are_told(client: Client, body: dict[str, Any]) -> None:
    """The written token is among all 262, with the logprob that it has itself."""
    asked = {**body, "temperature": 0, "logprobs": True, "top_logprobs": 20}
    found = client.ok(CHAT, asked)
    ChatCompletion.model_validate(found, strict=True)
    plain = client.ok(CHAT, {**body, "temperature": 0, "logprobs": True})
    for token, alone in zip(
        *(f["choices"][0]["logprobs"]["content"] for f in (found, plain)), strict=True
    ):
        assert alone["top_logprobs"] == []
        top = token["top_logprobs"]
        assert len(top) == 20
        assert [t["logprob"] for t in top] == sorted((t["logprob"] for t in top), reverse=True)
        assert sum(math.exp(t["logprob"]) for t in top) <= 1 + 1e-6
        # Greedy: the token is the likeliest one.
        assert top[0]["logprob"] == pytest.approx(token["logprob"], abs=1e-5)


def test_the_likeliest_tokens_need_logprobs(client: Client, body: dict[str, Any]) -> None:
    error = client.refused(CHAT, {**body, "top_logprobs": 2})
    assert error["param"] == "top_logprobs"


def test_two_names_of_one_limit_may_agree(client: Client, body: dict[str, Any]) -> None:
    same = {**body, "max_tokens": 8, "max_completion_tokens": 8}
    assert client.ok(CHAT, same)["usage"]["completion_tokens"] <= 8


def test_a_completion_continues_the_text_itself(
    client: Client, text_body: dict[str, Any], denoiser: Denoiser
) -> None:
    found = client.ok(TEXT, {**text_body, "n": 2, "seed": 4})
    TextCompletion.model_validate(found, strict=True)
    ids = denoiser.tokenizer.encode(PROMPT)
    settings = remask.SamplerSettings.of(denoiser.preset)
    known = [
        api.sample_ids(
            denoiser, [ids], settings, items=[api.item_of(PROMPT)], number=number, seed=4
        )[0]
        for number in range(2)
    ]
    assert [c["text"] for c in found["choices"]] == [s.text for s in known]
    assert found["usage"]["prompt_tokens"] == len(ids)
    assert found["usage"]["completion_tokens"] == sum(s.num_response for s in known)


def test_a_completion_may_bring_its_own_template(
    client: Client, body: dict[str, Any], text_body: dict[str, Any], denoiser: Denoiser
) -> None:
    """The ids are those of the chat, and so is what is likeliest."""
    greedy = {"temperature": 0, "logprobs": True}
    chat = client.ok(CHAT, {**body, **greedy})
    brought = denoiser.tokenizer.chat(PROMPT)
    text = client.ok(TEXT, {**text_body, "prompt": brought, "temperature": 0, "logprobs": 0})
    assert text["usage"] == chat["usage"]
    assert text["choices"][0]["text"] == chat["choices"][0]["message"]["content"]
    logs = [token["logprob"] for token in chat["choices"][0]["logprobs"]["content"]]
    assert text["choices"][0]["logprobs"]["token_logprobs"] == pytest.approx(logs, abs=1e-5)


def test_many_prompts_are_continued_in_order(client: Client, text_body: dict[str, Any]) -> None:
    """Two choices of each, one prompt twice; as a stream too, and with the prompts before them."""
    prompts = ["One", "Two and", "One"]
    asked = {**text_body, "prompt": prompts, "n": 2, "echo": True}
    found = client.ok(TEXT, asked)
    assert [c["index"] for c in found["choices"]] == list(range(6))
    texts = [c["text"] for c in found["choices"]]
    alone = [client.ok(TEXT, {**text_body, "prompt": p, "n": 2})["choices"] for p in prompts]
    assert texts == [
        p + c["text"] for p, choices in zip(prompts, alone, strict=True) for c in choices
    ]
    assert texts[:2] == texts[4:]
    chunks = client.chunks(TEXT, asked | {"stream_options": {"include_usage": True}})
    assert chunks.pop()["usage"] == found["usage"]
    streamed = [""] * 6
    for chunk in chunks:
        (choice,) = chunk["choices"]
        streamed[choice["index"]] += choice["text"]
    assert streamed == texts


def test_a_completion_tells_its_tokens(client: Client, text_body: dict[str, Any]) -> None:
    (choice,) = client.ok(TEXT, {**text_body, "logprobs": 3})["choices"]
    logs = choice["logprobs"]
    places = list(zip(logs["tokens"], logs["text_offset"], strict=True))
    assert places[0][1] == 0
    for token, offset in places:
        assert choice["text"][offset:].startswith(token) or offset == len(choice["text"])
    assert all(0 < len(top) <= 3 for top in logs["top_logprobs"])
    assert all(p <= 0 for p in logs["token_logprobs"])


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [1, 2]}, "prompt.0"),
        ({"prompt": ["x"] * 33}, "prompt"),
        ({"prompt": ["x"] * 17, "n": 2}, "prompt"),
        ({"prompt": "<|mdm_mask|>"}, "prompt"),
        ({"prompt": ["x", "<|mdm_mask|>"]}, "prompt.1"),
        ({"prompt": ["x", " "]}, "prompt.1"),
        ({"echo": True, "logprobs": 1}, "echo"),
        ({"best_of": 2}, "best_of"),
        ({"suffix": "x"}, "suffix"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"max_tokens": 300}, "max_tokens"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"remask": {}}, "remask"),
        ({"messages": []}, "messages"),
    ],
)
def test_a_completion_that_cannot_be_is_refused_by_name(
    client: Client, text_body: dict[str, Any], change: dict[str, Any], param: str
) -> None:
    assert client.refused(TEXT, {**text_body, **change})["param"] == param


def test_neutral_fields_of_a_completion_change_nothing(
    client: Client, text_body: dict[str, Any]
) -> None:
    same = {name: NEUTRAL[name][-1] for name in NEUTRAL if name in CompletionRequest.model_fields}
    same |= {"logprobs": None, "echo": False, "best_of": 1, "suffix": None}
    plain, told = (client.ok(TEXT, {**text_body, **more}) for more in ({}, same))
    assert plain["choices"] == told["choices"]


def test_a_head_is_what_a_get_has_without_its_body(client: Client, url: str) -> None:
    for path in ("/", "/v1/models", "/v1/examples", "/health", "/ready", "/static/page.js"):
        head, got = client.send("HEAD", path), client.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == got.headers["content-type"]
        assert head.headers["content-length"] == str(len(got.content))
    assert client.send("HEAD", "/v1/verify").status_code == 405
    with httpx.Client(base_url=url, timeout=300) as live:  # one connection: bodies would show
        assert [live.head("/v1/models").content for _ in range(2)] == [b"", b""]
        assert live.get("/health").json() == {"status": "ok"}
