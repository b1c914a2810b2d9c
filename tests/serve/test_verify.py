"""POST /v1/verify: the score of the library, and what it is made of."""

import json
from dataclasses import replace
from typing import Any

import pytest

import remask
from remask import api
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.errors import MissingExtra
from remask.serve import responses
from remask.serve.ray_serve import ModelReplica, ReplicaSettings
from remask.serve.service import build_service
from remask.serve.settings import ServeSettings
from remask.tasks import TASKS

Client = Any  # see conftest.py
PROMPT, ANSWER = "What is 12 + 5?", "12 + 5 = 17. The answer is 17."
BODY: dict[str, Any] = {"prompt": PROMPT, "answer": ANSWER}


def test_the_score_is_that_of_the_library(client: Client, denoiser: Denoiser) -> None:
    settings = ConsistencySettings(trips=3, rebuild_steps=4, mask_ratio=0.6)
    known = remask.score(denoiser, PROMPT, ANSWER, settings=settings, metrics="core", seed=7)
    asked = {"trips": 3, "rebuild_steps": 4, "mask_ratio": 0.6}
    found = client.ok("/v1/verify", {**BODY, "seed": 7, "remask": asked})
    assert found["score"] == pytest.approx(known.value, abs=1e-5)
    assert found["stderr"] == pytest.approx(known.stderr, abs=1e-5)
    assert found["cost"]["forwards"] == known.forwards
    assert [token["drift"] for token in found["tokens"]] == list(known.drift)
    assert {name: m["value"] for name, m in found["metrics"].items()} == pytest.approx(
        dict(known.by_metric), abs=1e-5
    )


def test_the_score_is_the_weighted_sum_of_the_metrics(client: Client) -> None:
    """No number in the answer: that metric is absent and the weights of the others sum to 1."""
    found = client.ok("/v1/verify", {"prompt": PROMPT, "answer": "no idea"})
    metrics = found["metrics"]
    assert metrics["number_retention"] == {
        "value": None, "weight": 0.0, "by_trip": [None] * 4,
    }  # fmt: skip
    assert sum(m["weight"] for m in metrics.values()) == pytest.approx(1)
    total = sum(m["weight"] * m["value"] for m in metrics.values() if m["value"] is not None)
    assert found["score"] == pytest.approx(total)


def test_the_answer_fits_its_shape_with_and_without_a_trace(client: Client) -> None:
    for trace in (True, False):
        found = client.ok("/v1/verify", {**BODY, "remask": {"trips": 1, "trace": trace}})
        responses.Verification.model_validate(found, strict=True)
        assert bool(found["trips"]) == trace


def test_a_trace_tells_every_token_of_every_trip(client: Client) -> None:
    """What was not masked stays as it was, and has neither step nor probability."""
    found = client.ok(
        "/v1/verify", {**BODY, "remask": {"trips": 3, "mask_ratio": 0.5, "trace": True}}
    )
    texts = [token["text"] for token in found["tokens"]]
    assert "".join(texts[:-1]) == ANSWER
    assert [token["special"] for token in found["tokens"]] == [False] * len(ANSWER) + [True]
    assert len(found["trips"]) == 3
    for trip in found["trips"]:
        rows = zip(
            texts, *(trip[k] for k in ("masked", "rebuilt", "steps", "original")), strict=True
        )
        for text, masked, rebuilt, step, original in rows:
            if masked:
                assert 0 <= step < 16
                assert 0 < original < 1
            else:
                assert (rebuilt, step, original) == (text, None, None)
    lost = [[t["rebuilt"][0] != texts[0] for t in found["trips"] if t["masked"][0]] or [None]][0]
    assert found["tokens"][0]["drift"] in (None, sum(filter(None, lost)) / len(lost))


def test_a_threshold_decides_strictly(client: Client) -> None:
    """A single round trip has no standard error."""
    once = {"trips": 1}
    score = client.ok("/v1/verify", {**BODY, "remask": once})["score"]
    at = client.ok("/v1/verify", {**BODY, "remask": {**once, "threshold": score}})
    below = client.ok("/v1/verify", {**BODY, "remask": {**once, "threshold": score - 1e-6}})
    assert (at["accepted"], below["accepted"]) == (False, True)
    assert (at["verdict"], below["verdict"]) == ("doubt", "trust")


def test_the_verdict_is_the_one_of_the_score(client: Client) -> None:
    score, stderr = (client.ok("/v1/verify", BODY)[name] for name in ("score", "stderr"))
    for threshold, verdict in (
        (score - 2 * stderr, "trust"),
        (score + stderr / 2, "undecided"),
        (score - stderr / 2, "undecided"),
        (score + 2 * stderr, "doubt"),
    ):
        found = client.ok("/v1/verify", {**BODY, "remask": {"threshold": threshold}})
        assert found["verdict"] == verdict
        assert found["threshold_source"] == "given"
        assert found["accepted"] is {"trust": True, "doubt": False}.get(verdict)


def test_earlier_turns_are_part_of_the_question(client: Client, denoiser: Denoiser) -> None:
    turns = [
        {"role": "user", "content": "What is 1 + 1?"},
        {"role": "assistant", "content": [{"type": "text", "text": "2"}]},
        {"role": "user", "content": PROMPT},
    ]
    found = client.ok("/v1/verify", {"messages": turns, "answer": ANSWER})
    sample = api.sample_from_text(denoiser, PROMPT, ANSWER, examples=[("What is 1 + 1?", "2")])
    known = remask.score(denoiser, PROMPT, sample, metrics="core")
    assert found["score"] == pytest.approx(known.value, abs=1e-5)


def test_a_problem_of_a_task_is_graded(client: Client) -> None:
    problem = TASKS["wordmath"].problem(3)
    for answer, right in ((problem.solution, True), ("The answer is 99999.", False)):
        asked = {"task": "wordmath", "seed": 3, "answer": answer}
        found = client.ok("/v1/verify", asked | {"remask": {"trips": 1, "rebuild_steps": 2}})
        assert found["graded"]["gold"] == problem.gold
        assert found["graded"]["right"] == right
        assert found["settings"]["kind"] == "wordmath"


def test_no_code_is_run_to_grade(client: Client, tmp_path: Any) -> None:
    """A client's program would otherwise run on the server."""
    trace = tmp_path / "ran"
    answer = f"def f(x):\n    open({str(trace)!r}, 'w')\n"
    body = {"task": "pycode", "answer": answer, "remask": {"trips": 1, "rebuild_steps": 2}}
    assert client.ok("/v1/verify", body)["graded"] is None
    assert not trace.exists()


def test_an_identity_of_its_own_draws_other_masks(client: Client) -> None:
    found = [
        client.ok("/v1/verify", {**BODY, "remask": {"item": item, "trace": True}})
        for item in ("a", "b", "a")
    ]
    masks = [json.dumps([trip["masked"] for trip in f["trips"]]) for f in found]
    assert masks[0] == masks[2] != masks[1]
    assert found[0]["item"] == "a"


@pytest.mark.parametrize(
    ("change", "param", "code"),
    [
        ({"surprise": 1}, "surprise", "unsupported_parameter"),
        ({"": None}, "", "unsupported_parameter"),
        ({"remask": {"budget": 2}}, "remask.budget", "unsupported_parameter"),
        ({"remask": {"trips": 65}}, "remask.trips", "invalid_value"),
        ({"remask": {"trips": True}}, "remask.trips", "invalid_value"),
        ({"remask": {"mask_ratio": "most"}}, "remask.mask_ratio", "invalid_value"),
        ({"remask": {"mask_ratio": 1.5}}, "remask.mask_ratio", "invalid_value"),
        ({"remask": {"metrics": "best"}}, "remask.metrics", "invalid_value"),
        ({"seed": -1}, "seed", "invalid_value"),
        ({"kind": "poem"}, "kind", "invalid_value"),
        ({"level": "easy"}, "level", "invalid_value"),
        ({"answer": None}, "answer", "invalid_value"),
        ({"task": "wordmath"}, "task", "invalid_value"),
        ({"prompt": None}, "prompt", "invalid_value"),
        ({"prompt": "  "}, "prompt", "invalid_value"),
        ({"answer": " "}, "answer", "invalid_value"),
        ({"answer": "a<|mdm_mask|>b"}, "answer", "invalid_value"),
        ({"prompt": "\ud800"}, "prompt", "invalid_value"),
        ({"\ud800": 1}, "body", "invalid_value"),
        ({"prompt": "9" * 300}, "prompt", "too_many_tokens"),
        ({"messages": [{"role": "user", "content": "x"}]}, "messages", "invalid_value"),
        ({"prompt": None, "task": "wordmath", "level": "no"}, "level", "invalid_value"),
        ({"answer": "9" * 300}, "answer", "too_many_tokens"),
        ({"answer": "9" * (16 * 256 + 1)}, "answer", "too_many_tokens"),
    ],
)
def test_what_cannot_work_is_refused_by_name(
    client: Client, change: dict[str, Any], param: str, code: str
) -> None:
    body = json.dumps({**BODY, **change})
    headers = {"content-type": "application/json"}
    answer = client.send("POST", "/v1/verify", content=body, headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (400, param, code)
    assert error["type"] == "invalid_request_error"
    assert error["message"].endswith(".")


def test_a_stratified_uniform_ratio_is_refused_with_the_librarys_sentence(client: Client) -> None:
    asked = {"mask_design": "stratified", "mask_ratio": "uniform"}
    error = client.refused("/v1/verify", {**BODY, "remask": asked})
    assert "mask_ratio must be a number with mask_design 'stratified'" in error["message"]
    assert error["param"] == "remask.mask_ratio"


@pytest.mark.usefixtures("no_encoder")
def test_a_missing_encoder_is_told_when_the_server_is_made(
    denoiser: Denoiser, settings: ServeSettings
) -> None:
    """By the command and by a replica of Ray Serve alike, unless nothing needs it."""
    with pytest.raises(MissingExtra, match=r"sentence-transformers is not installed; pip install"):
        build_service(denoiser, replace(settings, metrics="paper"))
    with pytest.raises(MissingExtra, match=r"choose the metric set 'core'\.$"):
        ModelReplica(ReplicaSettings(model=settings.model, device="cpu"), None)
    without = replace(settings, metrics="paper", scorer="verifier")
    build_service(denoiser, without).batcher.close(300)


@pytest.mark.usefixtures("no_encoder")
def test_a_missing_encoder_is_a_sentence(client: Client) -> None:
    error = client.refused("/v1/verify", {**BODY, "remask": {"metrics": "paper"}})
    assert error["param"] == "remask.metrics"
    assert "pip install" in error["message"]


JSON = "application/json"


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (b"{", JSON, "JSON object"),
        (b"[]", JSON, "JSON object"),
        (b"\xff", JSON, "JSON object"),
        (b'{"prompt": "a", "answer": "b"}', "text/plain", "JSON object"),
        (b'{"x": ' + b"[" * 9_000, JSON, "levels of nesting"),
        (b'{"seed": ' + b"9" * 5_000 + b"}", JSON, "at most 4300 digits"),
    ],
)
def test_a_body_that_cannot_be_parsed_is_refused(
    client: Client, content: bytes, kind: str, words: str
) -> None:
    answer = client.send("POST", "/v1/verify", content=content, headers={"content-type": kind})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (400, "body", "invalid_json")
    assert words in error["message"]


def test_another_model_is_not_found(client: Client) -> None:
    error = client.refused("/v1/verify", {**BODY, "model": "gpt"}, 404)
    assert (error["param"], error["code"]) == ("model", "model_not_found")
