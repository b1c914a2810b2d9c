"""What the benchmark of the server counts, by hand: a wrong answer is not taken for a right one."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import httpx
import pytest
import serve  # type: ignore[import-not-found]
from serving.mixed import Expected, Storm, Tally  # type: ignore[import-not-found]

KNOWN = Expected(
    model="m", pairs=[("p", "a")], scores=[0.5], texts=["t"], decisions=[(1, "d", 0.25)]
)


def counted(kind: str, status: int, told: dict[str, Any]) -> Tally:
    """Send one request of a kind to a server that always says the same."""
    told = {"error": {"request_id": "r"}, **told}
    answer = httpx.Response(status, content=json.dumps(told), headers={"x-request-id": "r"})

    async def send() -> Tally:
        transport = httpx.MockTransport(lambda request: answer)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            tally = Tally()
            chance = random.Random(0)
            sender = Storm(client=client, known=KNOWN, limit=100, tally=tally, chance=chance)
            await sender.one(kind)
            return tally

    return asyncio.run(send())


@pytest.mark.parametrize(
    ("kind", "status", "told", "wrong"),
    [
        ("verify", 200, {"text": "a", "score": 0.500009}, 0),
        ("verify", 200, {"text": "a", "score": 0.50002}, 1),
        ("verify", 200, {"text": "a", "score": None}, 1),
        ("verify", 200, {"text": "b", "score": 0.5}, 1),
        ("verify", 500, {}, 1),
        ("chat", 200, {"choices": [{"message": {"content": "t"}}]}, 0),
        ("chat", 200, {"choices": [{"message": {"content": "u"}}]}, 1),
        ("solve", 200, {"number": 1, "text": "d", "score": 0.25}, 0),
        ("solve", 200, {"number": 0, "text": "d", "score": 0.25}, 1),
        ("malformed", 400, {}, 0),
        ("malformed", 200, {}, 1),
        ("oversized", 413, {}, 0),
        ("oversized", 400, {}, 1),
    ],
)
def test_a_wrong_answer_is_counted(
    kind: str, status: int, told: dict[str, Any], wrong: int
) -> None:
    tally = counted(kind, status, told)
    assert (tally.sent, tally.answered, len(tally.wrong), len(tally.lost)) == (1, 1, wrong, 0)


def test_an_answer_that_cannot_be_read_is_lost() -> None:
    tally = counted("chat", 200, {})
    assert (tally.answered, len(tally.wrong), len(tally.lost)) == (1, 0, 1)


def test_percentiles_are_told_in_milliseconds() -> None:
    """0 to 100 ms in steps of one: half are below 50, and 95 of a hundred below 95."""
    found = serve._served(8, [i / 1000 for i in range(101)], 0.9)
    assert found["serve/p50_ms/8"]["value"] == pytest.approx(50)
    assert found["serve/p95_ms/8"]["value"] == pytest.approx(95)
    assert found["serve/throughput_ratio/8"]["value"] == 0.9


@pytest.mark.parametrize(
    "aside",
    [
        ["--figures", "f.json", "--commit", "abc", "--hardware", "2 cores"],
        ["--figures=f.json", "--commit=abc", "--hardware=2 cores"],
    ],
)
def test_the_command_of_a_figure_is_what_was_measured(aside: list[str]) -> None:
    words = ["--answers", "5", *aside, "--mixed=7"]
    assert serve._without(words) == ["--answers", "5", "--mixed=7"]


def test_figures_need_a_commit_and_hardware(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        serve.read_arguments(["--figures", str(Path("f.json"))])
    assert "--figures needs --commit and --hardware" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "told", "counts", "wait"),
    [
        (200, {"stopped": "deadline"}, (1, 0, 0, 0), 0.0),
        (429, {}, (0, 1, 0, 0), 7.0),
        (504, {}, (0, 0, 1, 0), 0.0),
        (500, {}, (0, 0, 0, 1), 0.0),
    ],
)
def test_overload_counts_what_became_of_a_request(
    status: int, told: dict[str, Any], counts: tuple[int, ...], wait: float
) -> None:
    answer = httpx.Response(status, json=told, headers={"retry-after": "7"})
    tally = serve.Overload(limit=60.0)

    async def send() -> float:
        transport = httpx.MockTransport(lambda request: answer)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            return float(await tally.send(client, "/v1/solve", {}))

    assert asyncio.run(send()) == wait
    counted = tuple(map(len, (tally.answered, tally.refused, tally.late, tally.lost)))
    assert counted == counts
    assert tally.stopped == (status == 200)
