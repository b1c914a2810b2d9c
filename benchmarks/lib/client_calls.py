"""Clients that others wrote, against a server of ours: what each of them is used for.

    python benchmarks/lib/client_calls.py URL MODEL CLIENT

prints JSON: the version of the client, and of each call "ok" or what went wrong. Nothing of this
package is imported, so that it runs wherever the client is installed.

A call takes the address of a server and the model it serves, uses the client as its documentation
says, and fails where what comes back is not what such a server gives. None of the packages is
patched; what they ask the network for without need is switched off by their own settings.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Before any of them is imported: no prices, no datasets, no traces are fetched or sent.
QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True", "HF_DATASETS_OFFLINE": "1",
    "LANGSMITH_TRACING": "false", "INSPECT_DISPLAY": "none", "HF_HUB_DISABLE_TELEMETRY": "1",
    "OPENAI_API_KEY": "unused", "TOKENIZERS_PARALLELISM": "false",
}  # fmt: skip
PROMPT = "What is 12 + 5?"
MOST = 16  # tokens of an answer
TURNS: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": PROMPT},
]
VERIFIED = {"remask": {"trips": 1, "rebuild_steps": 2, "metrics": "core"}}
STOPS = ["e", " "]  # that any text of some length has


@dataclass(frozen=True)
class ClientCall:
    """One use of one client."""

    client: str
    name: str
    run: Callable[[str, str], None]  # the server's address, the model


CALLS: list[ClientCall] = []


def call(client: str, name: str) -> Callable[[Callable[[str, str], None]], Callable[..., None]]:
    """Note a function as a call."""

    def note(run: Callable[[str, str], None]) -> Callable[[str, str], None]:
        CALLS.append(ClientCall(client, name, run))
        return run

    return note


def outcomes(url: str, model: str, client: str) -> dict[str, Any]:
    """Make all calls of a client."""
    os.environ.update(QUIET)
    calls = {}
    for each in CALLS:
        if each.client != client:
            continue
        try:
            each.run(url, model)
            calls[each.name] = "ok"
        except Exception as error:
            calls[each.name] = f"{type(error).__name__}: {error}"[:500]
    return {"version": version(client), "calls": calls}


# openai


def _openai(url: str) -> Any:
    import openai

    return openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)


@call("openai", "models")
def openai_models(url: str, model: str) -> None:
    """List the models."""
    assert [m.id for m in _openai(url).models.list()] == [model]


@call("openai", "chat")
def openai_chat(url: str, model: str) -> None:
    """Ask, and ask again with the answer sent back as it came."""
    chat = _openai(url).chat.completions
    first = chat.create(model=model, messages=TURNS, max_completion_tokens=MOST, user="me", n=2)
    assert len(first.choices) == 2
    said = first.choices[0].message
    if not (said.content or "").strip():
        said.content = "17"  # a random model may say nothing
    again = [*TURNS, said, {"role": "user", "content": "Sure?"}]
    told = chat.create(model=model, messages=again, max_tokens=MOST, store=False, tools=[])
    assert told.usage is not None
    assert told.usage.prompt_tokens > first.usage.prompt_tokens
    told = chat.create(model=model, messages=[*TURNS, said.model_dump(), again[-1]])
    assert told.choices[0].finish_reason in ("stop", "length")


@call("openai", "stream")
def openai_stream(url: str, model: str) -> None:
    """Read a stream."""
    chat = _openai(url).chat.completions
    whole = chat.create(model=model, messages=TURNS, max_tokens=MOST).choices[0].message.content
    asked: dict[str, Any] = {"model": model, "messages": TURNS, "max_tokens": MOST}
    chunks = list(chat.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole
    assert chunks[-1].usage.completion_tokens > 0


@call("openai", "helpers")
def openai_helpers(url: str, model: str) -> None:
    """Use the package's own helpers, and send back the messages that they make."""
    chat = _openai(url).chat.completions
    asked: dict[str, Any] = {"model": model, "max_tokens": MOST}
    whole = chat.create(**asked, messages=TURNS).choices[0].message.content
    cut: dict[str, Any] = {**asked, "messages": TURNS, "stop": whole[-1]}  # else they raise
    parsed = chat.parse(**cut).choices[0].message
    with chat.stream(**cut) as stream:
        streamed = stream.get_final_completion().choices[0].message
    assert parsed.content == streamed.content == whole[: whole.index(whole[-1])]
    for said in (parsed, streamed, parsed.model_dump(), streamed.to_dict()):
        again = [*TURNS, said, {"role": "user", "content": "Sure?"}]
        assert chat.create(**asked, messages=again).usage is not None


@call("openai", "stop")
def openai_stop(url: str, model: str) -> None:
    """Cut an answer at a character of it."""
    chat = _openai(url).chat.completions
    whole = chat.create(model=model, messages=TURNS, max_tokens=MOST).choices[0].message.content
    stop = whole[len(whole) // 2]
    cut = chat.create(model=model, messages=TURNS, max_tokens=MOST, stop=stop).choices[0]
    assert (cut.message.content, cut.finish_reason) == (whole[: whole.index(stop)], "stop")


@call("openai", "logprobs")
def openai_logprobs(url: str, model: str) -> None:
    """Ask for the likeliest tokens."""
    told = _openai(url).chat.completions.create(
        model=model, messages=TURNS, max_tokens=MOST, logprobs=True, top_logprobs=3
    )
    content = told.choices[0].logprobs.content
    assert content
    assert all(len(token.top_logprobs) == 3 for token in content)
    # A random model writes bytes that make no character, which read as one sign or as several.
    joined, text = "".join(token.token for token in content), told.choices[0].message.content
    assert joined.replace("\ufffd", "") == text.replace("\ufffd", "")


@call("openai", "completions")
def openai_completions(url: str, model: str) -> None:
    """Continue two texts, whole and as a stream."""
    create = _openai(url).completions.create
    asked: dict[str, Any] = {"model": model, "prompt": [PROMPT, "One, two"], "max_tokens": MOST}
    whole = create(**asked, logprobs=2)
    assert [choice.index for choice in whole.choices] == [0, 1]
    streamed = ["", ""]
    for chunk in create(**asked, stream=True):
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert streamed == [choice.text for choice in whole.choices]


@call("openai", "verified")
def openai_verified(url: str, model: str) -> None:
    """Have an answer verified."""
    told = _openai(url).chat.completions.create(
        model=model, messages=TURNS, max_tokens=MOST, extra_body=VERIFIED
    )
    assert told.choices[0].model_dump()["remask"]["object"] == "remask.verification"


@call("openai", "refusal")
def openai_refusal(url: str, model: str) -> None:
    """Be refused by name."""
    import openai

    refused = None
    try:
        _openai(url).chat.completions.create(
            model=model, messages=TURNS, tools=[{"type": "function", "function": {"name": "f"}}]
        )
    except openai.BadRequestError as error:
        refused = error.param
    assert refused == "tools"


@call("openai", "async")
def openai_async(url: str, model: str) -> None:
    """Ask several at once."""
    import openai

    async def ask() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="unused") as api:
            asks = [
                api.chat.completions.create(
                    model=model, messages=TURNS, max_tokens=MOST, seed=seed, metadata={"run": "1"}
                )
                for seed in range(3)
            ]
            return await asyncio.gather(*asks)

    assert len(asyncio.run(ask())) == 3


# litellm


def _litellm(url: str, model: str, **more: Any) -> Any:
    import litellm

    return litellm.completion(
        model=f"openai/{model}", api_base=f"{url}/v1", api_key="unused", max_tokens=MOST,
        **{"messages": TURNS, **more},
    )  # fmt: skip


@call("litellm", "chat")
def litellm_chat(url: str, model: str) -> None:
    """Ask, and ask again with the answer sent back as it came."""
    said = _litellm(url, model, n=1, user="me").choices[0].message
    said.content = said.content if (said.content or "").strip() else "17"
    for back in (said, said.model_dump()):
        told = _litellm(url, model, messages=[*TURNS, back, {"role": "user", "content": "Sure?"}])
        assert told.usage.completion_tokens > 0


@call("litellm", "stream")
def litellm_stream(url: str, model: str) -> None:
    """Read a stream."""
    whole = _litellm(url, model).choices[0].message.content
    parts = [c.choices[0].delta.content or "" for c in _litellm(url, model, stream=True)]
    assert "".join(parts) == whole


@call("litellm", "stop")
def litellm_stop(url: str, model: str) -> None:
    """Give stops."""
    content = _litellm(url, model, stop=STOPS).choices[0].message.content or ""
    assert not any(stop in content for stop in STOPS)


@call("litellm", "logprobs")
def litellm_logprobs(url: str, model: str) -> None:
    """Ask for the likeliest tokens."""
    told = _litellm(url, model, logprobs=True, top_logprobs=2)
    assert all(len(t.top_logprobs) == 2 for t in told.choices[0].logprobs.content)


@call("litellm", "completions")
def litellm_completions(url: str, model: str) -> None:
    """Continue a text."""
    import litellm

    told = litellm.text_completion(
        model=f"text-completion-openai/{model}", prompt=PROMPT, api_base=f"{url}/v1",
        api_key="unused", max_tokens=MOST,
    )  # fmt: skip
    assert isinstance(told.choices[0].text, str)


@call("litellm", "verified")
def litellm_verified(url: str, model: str) -> None:
    """Have an answer verified."""
    told = _litellm(url, model, extra_body=VERIFIED)
    assert "remask.verification" in told.model_dump_json()


@call("litellm", "refusal")
def litellm_refusal(url: str, model: str) -> None:
    """Be refused by name."""
    import litellm

    refused = ""
    try:
        _litellm(url, model, response_format={"type": "json_object"})
    except litellm.BadRequestError as error:
        refused = str(error)
    assert "response_format" in refused


@call("litellm", "async")
def litellm_async(url: str, model: str) -> None:
    """Ask without waiting."""
    import litellm

    answer = litellm.acompletion(
        model=f"openai/{model}", api_base=f"{url}/v1", api_key="unused", messages=TURNS,
        max_tokens=MOST,
    )  # fmt: skip
    assert asyncio.run(answer).choices[0].finish_reason in ("stop", "length")


# langchain-openai


def _chat_model(url: str, model: str, **more: Any) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(
        base_url=f"{url}/v1", api_key="unused", model=model, max_tokens=MOST, max_retries=0, **more
    )


@call("langchain-openai", "chat")
def langchain_chat(url: str, model: str) -> None:
    """Ask, and ask again with the answer sent back as it came."""
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

    asked = [SystemMessage("Be brief."), HumanMessage(PROMPT, name="me")]
    llm = _chat_model(url, model)
    said = llm.invoke(asked)
    if not said.text.strip():
        said = AIMessage("17")
    told = llm.invoke([*asked, said, HumanMessage("Sure?")])
    assert told.usage_metadata["output_tokens"] > 0


@call("langchain-openai", "stream")
def langchain_stream(url: str, model: str) -> None:
    """Read a stream."""
    llm = _chat_model(url, model, stream_usage=True)
    parts = list(llm.stream(PROMPT))
    assert "".join(part.text for part in parts) == llm.invoke(PROMPT).text
    assert any(part.usage_metadata for part in parts)


@call("langchain-openai", "stop")
def langchain_stop(url: str, model: str) -> None:
    """Give stops."""
    text = _chat_model(url, model).invoke(PROMPT, stop=STOPS).text
    assert not any(stop in text for stop in STOPS)


@call("langchain-openai", "logprobs")
def langchain_logprobs(url: str, model: str) -> None:
    """Ask for the likeliest tokens."""
    told = _chat_model(url, model, logprobs=True, top_logprobs=2).invoke(PROMPT)
    assert told.response_metadata["logprobs"]["content"]


@call("langchain-openai", "completions")
def langchain_completions(url: str, model: str) -> None:
    """Continue texts."""
    from langchain_openai import OpenAI

    llm = OpenAI(base_url=f"{url}/v1", api_key="unused", model=model, max_tokens=MOST)
    told = llm.generate([PROMPT, "One, two"], stop=["\n\n"])
    assert len(told.generations) == 2


@call("langchain-openai", "verified")
def langchain_verified(url: str, model: str) -> None:
    """Have an answer verified."""
    llm = _chat_model(url, model, extra_body=VERIFIED, include_response_headers=True)
    assert llm.invoke(PROMPT).response_metadata["headers"]["x-request-id"].startswith("req-")


@call("langchain-openai", "async")
def langchain_async(url: str, model: str) -> None:
    """Ask several at once."""
    told = asyncio.run(_chat_model(url, model).abatch([PROMPT, "And 4 + 4?"]))
    assert len(told) == 2


# huggingface_hub


def _inference(url: str) -> Any:
    from huggingface_hub import InferenceClient

    return InferenceClient(base_url=f"{url}/v1", api_key="unused")


@call("huggingface_hub", "chat")
def hub_chat(url: str, model: str) -> None:
    """Ask."""
    told = _inference(url).chat_completion(TURNS, model=model, max_tokens=MOST, seed=3)
    assert told.choices[0].finish_reason in ("stop", "length")


@call("huggingface_hub", "stream")
def hub_stream(url: str, model: str) -> None:
    """Read a stream."""
    api = _inference(url)
    whole = api.chat_completion(TURNS, model=model, max_tokens=MOST).choices[0].message.content
    chunks = api.chat_completion(TURNS, model=model, max_tokens=MOST, stream=True)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole


@call("huggingface_hub", "stop")
def hub_stop(url: str, model: str) -> None:
    """Give stops."""
    told = _inference(url).chat_completion(TURNS, model=model, max_tokens=MOST, stop=STOPS)
    assert not any(stop in (told.choices[0].message.content or "") for stop in STOPS)


@call("huggingface_hub", "logprobs")
def hub_logprobs(url: str, model: str) -> None:
    """Ask for the likeliest tokens."""
    told = _inference(url).chat_completion(
        TURNS, model=model, max_tokens=MOST, logprobs=True, top_logprobs=2
    )
    assert told.choices[0].logprobs.content


# lm_eval


def _evaluate(kind: str, path: str, url: str, model: str, **more: Any) -> dict[str, Any]:
    """Run the harness on a task of two problems, from a file, and return the samples."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = ['{"q": "What is 2 + 3?", "a": "5"}', '{"q": "What is 4 + 4?", "a": "8"}']
        (folder / "rows.jsonl").write_text("\n".join(rows))
        (folder / "sums.yaml").write_text(
            "task: sums\ndataset_path: json\n"
            f"dataset_kwargs: {{data_files: {{test: {folder / 'rows.jsonl'}}}}}\n"
            "test_split: test\noutput_type: generate_until\n"
            'doc_to_text: "{{q}}"\ndoc_to_target: "{{a}}"\n'
            'generation_kwargs: {until: ["Question:", "\\n\\n"], do_sample: false, '
            f"max_gen_toks: {MOST}}}\n"
            "metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]\n"
        )
        results = simple_evaluate(
            model=kind,
            model_args={"model": model, "base_url": f"{url}{path}", "num_concurrent": 1, **more},
            tasks=["sums"],
            task_manager=TaskManager(include_path=str(folder), include_defaults=False),
            apply_chat_template="chat" in kind,
            system_instruction="Be brief." if "chat" in kind else None,
            bootstrap_iters=0,
            cache_requests=False,
        )
    assert results is not None
    assert 0 <= results["results"]["sums"]["exact_match,none"] <= 1
    return dict(results["samples"])


@call("lm_eval", "chat")
def harness_chat(url: str, model: str) -> None:
    """Evaluate over `local-chat-completions`, which always sends stops, with a system turn."""
    samples = _evaluate("local-chat-completions", "/v1/chat/completions", url, model)
    assert len(samples["sums"]) == 2
    assert all(isinstance(row["resps"][0][0], str) for row in samples["sums"])


@call("lm_eval", "completions")
def harness_completions(url: str, model: str) -> None:
    """Evaluate over `local-completions`."""
    samples = _evaluate(
        "local-completions", "/v1/completions", url, model, tokenizer_backend=None,
        tokenized_requests=False,
    )  # fmt: skip
    assert len(samples["sums"]) == 2


# inspect_ai


def _inspect(url: str, model: str, stream: bool = False, **more: Any) -> list[Any]:
    """Run an evaluation of two samples with a system turn, and return them."""
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate, system_message

    task = Task(
        dataset=[Sample(input="What is 2 + 3?", target="5"), Sample(input=PROMPT, target="17")],
        solver=[system_message("Be brief."), generate()],
        scorer=includes(),
    )
    with tempfile.TemporaryDirectory() as folder:
        (log,) = evaluate(
            task, model=f"openai-api/remask/{model}", model_base_url=f"{url}/v1",
            model_args={"api_key": "unused", "stream": stream}, log_dir=folder, display="none",
            max_tokens=MOST, max_retries=0, **more,
        )  # fmt: skip
        assert log.status == "success", log.error
        samples = list(log.samples or [])
    assert len(samples) == 2
    assert all(sample.scores for sample in samples)
    return samples


@call("inspect_ai", "chat")
def inspect_chat(url: str, model: str) -> None:
    """Evaluate."""
    _inspect(url, model, seed=3)


@call("inspect_ai", "stream")
def inspect_stream(url: str, model: str) -> None:
    """Evaluate from streams."""
    whole, parts = (
        [sample.output.completion for sample in _inspect(url, model, stream=stream)]
        for stream in (False, True)
    )
    assert whole == parts


@call("inspect_ai", "stop")
def inspect_stop(url: str, model: str) -> None:
    """Evaluate with stops."""
    texts = [sample.output.completion for sample in _inspect(url, model, stop_seqs=STOPS)]
    assert not any(stop in text for text in texts for stop in STOPS)


@call("inspect_ai", "logprobs")
def inspect_logprobs(url: str, model: str) -> None:
    """Evaluate with the likeliest tokens."""
    samples = _inspect(url, model, logprobs=True, top_logprobs=2)
    assert all(sample.output.choices[0].logprobs.content for sample in samples)


@call("inspect_ai", "verified")
def inspect_verified(url: str, model: str) -> None:
    """Evaluate with answers that are verified."""
    _inspect(url, model, extra_body=VERIFIED)


if __name__ == "__main__":
    with redirect_stdout(sys.stderr):  # some of them talk
        told = outcomes(*sys.argv[1:])
    json.dump(told, sys.stdout)
