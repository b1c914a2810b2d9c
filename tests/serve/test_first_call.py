"""A model whose preset is greedy, asked with default arguments: server = library = command line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import remask
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.serve.app import build_app
from remask.serve.service import build_service
from remask.serve.settings import ServeSettings
from remask.testing import write_checkpoint

Client = Any  # see conftest.py
PROMPT = "What is 12 + 5?"
TRIPS = {"trips": 1, "rebuild_steps": 2}
NEVER = {**TRIPS, "threshold": 2.0}  # no score is above 2: all of the budget is spent


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random LLaDA that says nothing of a temperature: 16 tokens, two blocks."""
    made = tmp_path_factory.mktemp("greedy") / "model"
    write_checkpoint(
        made, layers=1, width=16, heads=2, inner=16, length=16, max_length=512,
        dtype=torch.float32,
    )  # fmt: skip
    (made / "generation_config.json").write_text('{"length": 16, "steps": 8, "block": 8}')
    return made


@pytest.fixture(scope="module")
def greedy(place: Path) -> Denoiser:
    return remask.load(str(place), device="cpu")


@pytest.fixture(scope="module")
def served(client: Client, greedy: Denoiser, place: Path) -> Iterator[Client]:
    service = build_service(greedy, ServeSettings(model=str(place), metrics="core"))
    yield type(client)(service, build_app(service))
    service.batcher.close(10)


def test_the_server_draws_what_the_library_draws(served: Client, greedy: Denoiser) -> None:
    """The first of ten is greedy, the others are at 0.9, LLaDA's; budget 10 is the default."""
    found = served.ok("/v1/solve", {"prompt": PROMPT, "remask": NEVER})
    theirs = remask.solve(
        greedy, PROMPT, settings=ConsistencySettings(**TRIPS), metrics="core", threshold=2.0
    )
    texts = [attempt["text"] for attempt in found["attempts"]]
    assert texts == [sample.text for sample, _ in theirs.attempts]
    assert len(set(texts)) == 10
    settings = found["settings"]
    assert (settings["temperature"], settings["resample_temperature"]) == (0.0, 0.9)


def test_one_answer_of_a_greedy_preset_is_greedy(served: Client) -> None:
    found = served.ok("/v1/solve", {"prompt": PROMPT, "remask": {**NEVER, "budget": 1}})
    assert found["settings"]["temperature"] == 0.0
    assert found["settings"]["resample_temperature"] is None


def test_choices_of_a_chat_are_that_pool(served: Client, greedy: Denoiser, place: Path) -> None:
    body = {"model": str(place), "messages": [{"role": "user", "content": PROMPT}]}
    found = served.ok("/v1/chat/completions", {**body, "n": 3})
    known = [remask.sample(greedy, PROMPT, number=n).text for n in range(3)]
    assert [c["message"]["content"] for c in found["choices"]] == known
    assert len(set(known)) == 3
    decided = served.ok("/v1/chat/completions", {**body, "remask": {**NEVER, "budget": 2}})
    assert decided["remask"]["num_attempts"] == 2


def test_a_temperature_of_0_with_several_samples_is_refused_by_name(
    served: Client, place: Path
) -> None:
    solve = {"prompt": PROMPT, "temperature": 0}
    chat = {
        "model": str(place), "messages": [{"role": "user", "content": PROMPT}], "temperature": 0.0,
    }  # fmt: skip
    for path, body, told in (
        ("/v1/solve", solve, "remask.budget is 10"),
        ("/v1/solve", {**solve, "remask": {"budget": 2}}, "remask.budget is 2"),
        ("/v1/chat/completions", {**chat, "remask": {"budget": 4}}, "remask.budget is 4"),
        ("/v1/chat/completions", {**chat, "n": 3}, "n is 3"),
    ):
        error = served.refused(path, body)
        assert told in error["message"]
        assert error["param"] == "temperature"
    assert served.ok("/v1/chat/completions", chat)["choices"]


def test_the_model_tells_both_temperatures(served: Client) -> None:
    (model,) = served.get("/v1/models").json()["data"]
    preset = model["remask"]["preset"]
    assert (preset["temperature"], preset["resample_temperature"]) == (0.0, 0.9)
