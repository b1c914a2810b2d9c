"""Models, examples, state, and the document for programs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from remask.serve import examples, info_routes, responses
from remask.serve.errors import ErrorResponse
from remask.serve.settings import ServeSettings
from remask.tasks import TASKS

Client = Any  # see conftest.py
ROOT = Path(__file__).resolve().parents[2]


def test_the_one_model_is_listed_with_what_can_be_asked(
    client: Client, settings: ServeSettings
) -> None:
    listed = client.get("/v1/models").json()
    info_routes.ModelList.model_validate(listed, strict=True)
    (model,) = listed["data"]
    assert model["id"] == settings.model
    assert model["remask"]["precision"] == "float32"
    assert model["remask"]["preset"]["length"] == 16
    assert model["remask"]["limits"]["body_bytes"] == 20_000
    assert model["remask"]["limits"]["max_tokens"] == 256
    assert client.get(f"/v1/models/{settings.model}").json() == model
    assert client.get("/v1/models/other").json()["error"]["code"] == "model_not_found"


def test_every_task_has_examples_with_right_and_wrong_answers(client: Client) -> None:
    found = client.get("/v1/examples").json()
    examples.ExampleList.model_validate(found, strict=True)
    assert [e["task"] for e in found["data"]] == [name for name in TASKS for _ in range(3)]
    for example in found["data"]:
        if example["task"] == "pycode":
            continue
        task = TASKS[example["task"]]
        problem = task.problem(example["seed"], level=example["level"])
        assert example["prompt"] == problem.prompt
        answers = {answer["label"]: answer["text"] for answer in example["answers"]}
        assert task.grade(problem, answers["right"])
        if "flawed" in answers:
            assert task.grade(problem, answers["flawed"])
            assert not task.process_ok(problem, answers["flawed"])


def test_examples_can_be_chosen(client: Client) -> None:
    level = TASKS["wordmath"].levels[-1]
    path = f"/v1/examples?task=wordmath&level={level}&count=2&seed=5"
    found = client.get(path).json()["data"]
    assert [(e["level"], e["seed"]) for e in found] == [(level, 5), (level, 6)]
    assert {a["label"] for e in found for a in e["answers"]} == {"right", "flawed", "wrong"}


def test_the_best_to_begin_with_come_first_and_then_the_others(client: Client) -> None:
    found = client.get("/v1/examples?task=wordmath&count=8").json()["data"]
    first = examples.ACCEPTED["wordmath"]["easy"]
    others = [seed for seed in range(8) if seed not in first]
    assert [e["seed"] for e in found] == [*first, *others][:8]
    (only,) = client.get("/v1/examples?task=wordmath&count=1&seed=0").json()["data"]
    assert only["seed"] == 0, "a number that is given counts"


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("task=poetry", "task"),
        ("count=21", "count"),
        ("seed=-1", "seed"),
        ("level=no", "level"),
        ("nonsense=1", "nonsense"),
        ("=null", ""),
    ],
)
def test_examples_that_do_not_exist_are_refused(client: Client, query: str, param: str) -> None:
    answer = client.get(f"/v1/examples?{query}")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_metrics_count_requests_and_batches(client: Client) -> None:
    body = {"prompt": "p", "answer": "a", "remask": {"trips": 1, "rebuild_steps": 1}}
    client.ok("/v1/verify", body)
    text = client.get("/metrics").text
    assert 'remask_requests_total{route="/v1/verify",status="200"}' in text
    assert 'remask_batch_rows_bucket{kind="trip"' in text
    assert "remask_queue 0.0" in text


def test_the_document_for_programs_names_every_route(client: Client) -> None:
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) == {
        "/v1/verify", "/v1/solve", "/v1/chat/completions", "/v1/completions", "/v1/models",
        "/v1/models/{model}", "/v1/examples", "/v1/queue", "/health", "/ready", "/metrics",
    }  # fmt: skip
    for path in document["paths"].values():
        for operation in path.values():
            assert "422" not in operation["responses"]
            assert "400" in operation["responses"]


def documented() -> dict[str, Any]:
    """Return the answers that docs/server.md shows, by their kind."""
    text = (ROOT / "docs" / "server.md").read_text()
    blocks = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", text, re.M | re.S)]
    return {block.get("object", next(iter(block))): block for block in blocks}


def test_the_page_about_the_server_shows_the_fields_there_are() -> None:
    told = documented()
    responses.Verification.model_validate(told["remask.verification"], strict=True)
    ErrorResponse.model_validate(told["error"], strict=True)
    fields = responses.Solution.model_fields
    always = {name for name, field in fields.items() if field.is_required()}
    assert set(told["remask.solution"]) == always


def test_the_page_about_the_server_names_every_route_and_flag(client: Client) -> None:
    from typer.main import get_command

    from remask import cli

    text = (ROOT / "docs" / "server.md").read_text()
    group: Any = get_command(cli.app)
    flags = {flag for parameter in group.commands["serve"].params for flag in parameter.opts}
    for name in {*client.get("/openapi.json").json()["paths"], *flags} - {"-m"}:
        assert f"{name}" in text, name
