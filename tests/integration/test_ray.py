"""Ray Data and Ray Serve: what each calls, called here; and, at length, on a real cluster."""

import asyncio
import json
import os
import secrets
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
import torch

from remask.collect import score_file
from remask.collect.ray_data import ADDED_BY_RAY, ScoreBatches
from remask.collect.settings import ScoreSettings
from remask.denoisers.load import load
from remask.errors import InputError, RemaskError, SettingsError
from remask.serve.ray_serve import ModelReplica, ReplicaSettings, app
from remask.testing import write_checkpoint

ROWS = [{"prompt": f"What is {k} + 1?", "answer": f"It is {k + 1}.", "n": k} for k in range(5)]
ROWS[2]["answer"] = ""
VERIFY = {"prompt": "What is 2 + 1?", "answer": "It is 3."}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.set_num_threads(1)
    place = write_checkpoint(
        tmp_path_factory.mktemp("checkpoint") / "model", layers=1, width=16, heads=2, inner=16,
        length=16, max_length=512, dtype=torch.float32,
    )  # fmt: skip
    return str(place)


@pytest.fixture(scope="module")
def scored(folder: str, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What `remask score` writes of these rows."""
    place = tmp_path_factory.mktemp("scored")
    source, out = place / "rows.jsonl", place / "out.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    job = score_file.prepare(source, out, ScoreSettings(model=folder, scorer="verifier"))
    score_file.score_file(load(folder, device="cpu"), job)
    names = (*ROWS[0], *ADDED_BY_RAY)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    return [{name: row[name] for name in names} for row in rows]


def test_batches_get_what_the_command_writes_however_they_are_cut(
    folder: str, scored: list[dict[str, Any]]
) -> None:
    score = ScoreBatches(folder, device="cpu")
    table = pa.Table.from_pylist(ROWS)
    assert score(table).to_pylist() == scored
    parts = [score(table.slice(start, size)) for start, size in ((0, 1), (1, 3), (4, 1))]
    assert [row for part in parts for row in part.to_pylist()] == scored
    assert len({part.schema for part in parts}) == 1, "Ray joins them"
    assert score(table.slice(0, 0)).schema == parts[0].schema
    assert scored[2]["remask_error"].startswith("the answer is empty")
    assert {row["remask_scorer"] for row in scored} == {"verifier_at_hand"}


def test_other_columns_are_named_and_wrong_batches_refused(folder: str) -> None:
    score = ScoreBatches(folder, device="cpu", prompt_column="q", answer_column="a", scorer="probe")
    table = pa.table({"q": ["What is 2?"], "a": ["It is 2."]})
    assert score(table).to_pylist()[0]["remask_scorer"] == "probe"
    for batch, sentence in (
        ({"q": []}, "a batch is a dict; give map_batches batch_format='pyarrow'."),
        (pa.table({"q": ["What?"]}), "the rows have no column 'a'; they have q."),
        (score(table), "the rows have a column remask_score already; rename or drop it."),
    ):
        with pytest.raises(InputError) as error:
            score(batch)
        assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"scorer": "nope"}, "Unknown scorer 'nope'"),
        ({"kind": "nope"}, "Unknown kind 'nope'. Known: number"),
        ({"fitted": "gone.json"}, "fitted is gone.json, and there is no such file; give one that"),
        ({"fitted": "gone.json", "scorer": "probe"}, "fitted belongs to scorer verifier, not to"),
        ({"max_forwards": 0}, "0"),
    ],
)
def test_what_cannot_score_is_refused_when_an_actor_is_made(
    folder: str, given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(RemaskError) as error:
        ScoreBatches(folder, device="cpu", **given)
    assert sentence in str(error.value)


def test_a_replica_is_a_whole_server_and_ends_its_queue(folder: str) -> None:
    replica = ModelReplica(ReplicaSettings(model=folder, device="cpu", scorer="verifier"), None)

    async def verify() -> httpx.Response:
        transport = httpx.ASGITransport(replica.__serve_build_asgi_app__())
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.post("/v1/verify", json=VERIFY)

    answer = asyncio.run(verify())
    assert answer.status_code == 200, answer.text
    assert answer.json()["scorer"] == "verifier_at_hand"
    replica.__del__()
    assert not replica.service.batcher.ready


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "model is missing; give --model, or model in the arguments."),
        ({"model": "tiny", "replicas": "2"}, "Unknown setting 'replicas'. "),
        ({"model": "tiny", "num_replicas": "0"}, "num_replicas must be at least 1, got 0"),
        ({"model": "tiny", "host": "0.0.0.0"}, "requires a key"),
    ],
)
def test_arguments_of_the_application_are_refused_in_a_sentence(
    arguments: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray.serve")
    monkeypatch.delenv("REMASK_API_KEY", raising=False)
    with pytest.raises(SettingsError) as error:
        app(arguments)
    assert sentence in str(error.value)


# --- on a cluster -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    found: Any = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("OMP_NUM_THREADS", "1"), ("RAY_USAGE_STATS_ENABLED", "0"),
            ("RAY_AUTH_TOKEN", os.environ.get("RAY_AUTH_TOKEN", secrets.token_hex(32))),
        ):  # fmt: skip
            patch.setenv(name, value)
        found.init(
            address="local", num_cpus=4, include_dashboard=False, object_store_memory=256 * 2**20,
            log_to_driver=False, logging_level="ERROR",
        )  # fmt: skip
        yield found
        found.shutdown()


@pytest.mark.full
def test_ray_data_scores_rows_with_two_actors(
    ray: Any, folder: str, scored: list[dict[str, Any]]
) -> None:
    from ray import data

    data.DataContext.get_current().enable_progress_bars = False
    rows = data.from_items(ROWS).map_batches(
        ScoreBatches, fn_constructor_kwargs={"model": folder, "device": "cpu"}, batch_size=2,
        batch_format="pyarrow", compute=data.ActorPoolStrategy(size=2),
    )  # fmt: skip
    found = sorted(rows.take_all(), key=lambda row: int(row["n"]))
    assert found == scored


@pytest.mark.full
def test_ray_serve_answers_as_the_server_does(ray: Any, folder: str) -> None:
    pytest.importorskip("ray.serve")
    from ray import serve

    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port = made.getsockname()[1]
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    try:
        serve.run(app({"model": folder, "device": "cpu", "scorer": "verifier"}))
        base = f"http://127.0.0.1:{port}"
        answer = httpx.post(f"{base}/v1/verify", json=VERIFY, timeout=300).json()
        replica = ModelReplica(ReplicaSettings(model=folder, device="cpu", scorer="verifier"), None)
        alone = ScoreBatches(folder, device="cpu")(pa.Table.from_pylist([VERIFY])).to_pylist()
        assert answer["score"] == pytest.approx(alone[0]["remask_score"], abs=1e-6)
        chat = {"messages": [{"role": "user", "content": "What?"}], "model": folder, "stream": True}
        streamed = httpx.post(f"{base}/v1/chat/completions", json=chat, timeout=300).text
        assert streamed.endswith("data: [DONE]\n\n")
        assert httpx.get(f"{base}/v1/nothing", timeout=300).status_code == 404
        replica.__del__()
    finally:
        serve.shutdown()
