"""POST /v1/solve: what rejection sampling decides, told as it happens or at once."""

import json
from typing import Any

import pytest

import remask
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.serve import responses
from remask.values import Decision

Client = Any  # see conftest.py
PROMPT = "What is 12 + 5?"
TRIPS = {"trips": 2, "rebuild_steps": 4}


def known(denoiser: Denoiser, threshold: float, budget: int) -> Decision:
    return remask.solve(
        denoiser, PROMPT, settings=ConsistencySettings(**TRIPS), metrics="core",
        threshold=threshold, budget=budget, seed=1,
    )  # fmt: skip


def body(threshold: float, budget: int, **more: Any) -> dict[str, Any]:
    asked = {**TRIPS, "threshold": threshold, "budget": budget}
    return {"prompt": PROMPT, "seed": 1, "remask": asked, **more}


def events_of(text: str) -> list[tuple[str, Any]]:
    """Return the events of a stream, by name, in order."""
    parts = [part.split("\n") for part in text.strip().split("\n\n")]
    assert all(a.startswith("event: ") and b.startswith("data: ") for a, b in parts)
    return [(name[7:], json.loads(data[6:])) for name, data in parts]


@pytest.mark.parametrize("threshold", [2.0, 0.05])
def test_the_decision_is_that_of_the_library(
    client: Client, denoiser: Denoiser, threshold: float
) -> None:
    """Nothing scores above 2, so the best of three is a fallback; 0.05 accepts one of them."""
    theirs = known(denoiser, threshold, 3)
    found = client.ok("/v1/solve", body(threshold, 3))
    responses.Solution.model_validate(found, strict=True)
    assert found["action"] == theirs.action
    assert found["reason"] == theirs.reason
    assert found["text"] == theirs.sample.text
    assert found["accepted"] == (theirs.sample.number if theirs.action == "accept" else None)
    assert found["score"] == pytest.approx(theirs.score.value, abs=1e-5)
    assert found["cost"]["forwards"] == theirs.forwards
    assert [a["text"] for a in found["attempts"]] == [s.text for s, _ in theirs.attempts]
    scores = [a["verification"]["score"] for a in found["attempts"]]
    assert scores == pytest.approx([s.value for _, s in theirs.attempts], abs=1e-5)


def test_a_stream_tells_blocks_attempts_and_verifications_in_order(client: Client) -> None:
    """Two attempts of two blocks each, unless the first block holds an end token."""
    answer = client.post("/v1/solve", body(2.0, 2, stream=True))
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = events_of(answer.text)
    names = [name for name, _ in events]
    assert [n for n in names if n != "block"] == [
        "attempt", "verification", "attempt", "verification", "decision",
    ]  # fmt: skip
    decision = events[-1][1]
    responses.SolveDecision.model_validate(decision, strict=True)
    whole = client.ok("/v1/solve", body(2.0, 2))
    del whole["attempts"]
    for told in (whole, decision):
        del told["id"], told["cost"]["seconds"]
    assert decision == whole


def test_blocks_grow_into_the_attempt(client: Client) -> None:
    events = events_of(client.post("/v1/solve", body(2.0, 2, stream=True)).text)
    for number in (0, 1):
        blocks = [e for name, e in events if name == "block" and e["number"] == number]
        (attempt,) = [e for name, e in events if name == "attempt" and e["number"] == number]
        assert [b["finished"] for b in blocks] == [False] * (len(blocks) - 1) + [True]
        assert blocks[-1]["text"] == attempt["text"]
        assert len(attempt["tokens"]) <= 16
        assert all(token["step"] < 8 for token in attempt["tokens"])


def test_verifications_in_a_stream_have_the_confidence_of_the_writing(client: Client) -> None:
    events = events_of(client.post("/v1/solve", body(2.0, 1, stream=True)).text)
    attempt = next(e for name, e in events if name == "attempt")
    verified = next(e for name, e in events if name == "verification")
    told = [token["confidence"] for token in attempt["tokens"]]
    assert [token["confidence"] for token in verified["tokens"]] == told
    assert attempt["confidence"] == pytest.approx(sum(told) / len(told))


def test_a_problem_of_a_task_has_the_canvas_of_its_level(client: Client) -> None:
    asked = {"task": "countdown", "seed": 2, "remask": {**TRIPS, "threshold": 0.5, "budget": 1}}
    found = client.ok("/v1/solve", asked)
    from remask.tasks import TASKS

    problem = TASKS["countdown"].problem(2)
    assert found["prompt"] == problem.prompt
    assert found["settings"]["length"] == TASKS["countdown"].canvas_length(problem.level)
    assert found["graded"]["gold"] == problem.gold


def test_the_canvas_is_cut_to_whole_blocks(client: Client) -> None:
    """Blocks of 8 with 4 steps each: 15 tokens hold one; 5 are a block of their own, 2 steps."""
    for most, known in ((15, (8, 8, 4)), (16, (16, 8, 8)), (5, (5, 5, 2)), (1, (1, 1, 1))):
        found = client.ok("/v1/solve", body(2.0, 1, max_tokens=most))
        settings = found["settings"]
        assert (settings["length"], settings["block"], settings["steps"]) == known
        assert len(found["attempts"][0]["tokens"]) <= most


def test_greedy_resampling_is_refused(client: Client) -> None:
    error = client.refused("/v1/solve", body(0.5, 2, temperature=0.0))
    assert error["param"] == "temperature"
    assert client.ok("/v1/solve", body(0.5, 1, temperature=0.0))["num_attempts"] == 1


def test_more_tokens_than_the_server_allows_are_refused(client: Client) -> None:
    assert client.refused("/v1/solve", body(0.5, 1, max_tokens=300))["param"] == "max_tokens"
    error = client.refused("/v1/solve", body(0.5, 1, max_tokens=250))
    assert error["code"] == "too_many_tokens"


def test_a_failure_in_a_stream_is_its_last_event(failing: Client) -> None:
    """Five passes write the first block, of four steps."""
    events = events_of(failing.post("/v1/solve", body(0.5, 1, stream=True)).text)
    assert events[0][0] == "block"
    name, told = events[-1]
    assert name == "error"
    assert told["error"]["type"] == "server_error"
    assert "secret" not in json.dumps(told)
