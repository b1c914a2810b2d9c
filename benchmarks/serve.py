"""What serving costs against scoring offline; whether memory grows; whether anything gets lost.

    python benchmarks/serve.py
    python benchmarks/serve.py --figures docs/figures.json --commit SHA --hardware "2 cores"
    python benchmarks/serve.py overload --seconds 60 --clients 16

Throughput: the same answers are scored by `score_many` in one call and by the server, whose clients
are in a process of their own, at 1, 8 and 32 clients. Each run of the server stands between two
offline ones, and is compared with their mean. Scores are compared too. What is offline runs in a
process of its own: in one, workers of either would slow the other down (`run_in_thread`).

Fairness: how much longer a small verification takes while heavy solves run, at most; they never
end, so that each of them always has work.

Memory: of a server in a process of its own, after the first 500 mixed requests and after all.

Overload: clients verify and solve at random for a time, each sending its next request after the
answer, or after the wait that a 429 names. Counted are requests that are answered in time, refused,
late (after the server's time limit, or 504) and lost (any other status, or no answer).

Mixed requests (see `mixed`): a batch runs out of memory and one gives NaN on the way. These two use
a small random model, so that what is measured is the server.
"""

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any, Literal

import httpx
from lib.figures import figure_of, parse, save
from serving.live import Faulty, live, small_model, soon
from serving.mixed import Tally, expected, storm

from remask import api
from remask.denoisers.load import load
from remask.serve.service import run_in_thread
from remask.serve.settings import ServeSettings
from remask.tasks import TASKS

HERE = Path(__file__).resolve().parent
CLIENTS = (1, 8, 32)
WARM_UP = 500  # requests before memory is first looked at
HEAVY, SMALL = 8, 20  # solves that run all the time, and verifications one after another
SPACING = 2.0  # seconds between two of them
SOLVE = {"budget": 32, "trips": 32, "rebuild_steps": 64, "threshold": 2.0}
TRIP = {"trips": 1, "rebuild_steps": 2}
STOP = {"remask": {"threshold": 0.75}}  # no threshold of the model applies to `core` metrics
ALONE = "--answers 0 --memory 0 --mixed 0"  # fairness, and nothing else
TOLERANCE = 1e-5
ASIDE = ("--figures", "--commit", "--hardware")  # flags that change nothing of what is measured
Pairs = list[tuple[str, str]]
Figures = dict[str, dict[str, Any]]


def answers(number: int) -> Pairs:
    """Return word problems with solutions."""
    problems = [TASKS["wordmath"].problem(i, split="validation") for i in range(number)]
    return [(problem.prompt, problem.solution) for problem in problems]


def offline(
    model: str, device: str, pairs: Pairs, metrics: Literal["paper", "core"]
) -> tuple[float, list[float | None]]:
    """Return answers per second, and the scores."""
    denoiser = load(model, device=device)
    scorer = api.consistency(denoiser, metrics=metrics, kind="wordmath")
    api.score_many(denoiser, pairs[:4], scorer=scorer)
    began = time.perf_counter()
    scores = api.score_many(denoiser, pairs, scorer=scorer)
    return len(pairs) / (time.perf_counter() - began), [score.value for score in scores]


def apart(work: Callable[[], Any]) -> Any:
    """Return what a process of its own returns."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(work).result()


def online(url: str, pairs: Pairs, clients: int) -> dict[str, Any]:
    """Return what the clients have to tell."""
    bodies = [{"prompt": p, "answer": a, "kind": "wordmath"} for p, a in pairs]
    done = subprocess.run(
        [sys.executable, str(HERE / "lib" / "clients.py"), url, str(clients)],
        input=json.dumps(bodies), capture_output=True, text=True, check=True,
    )  # fmt: skip
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def throughput(arguments: argparse.Namespace) -> Figures:
    """Measure the server against offline scoring."""
    denoiser = run_in_thread(partial(load, arguments.model, device=arguments.device))
    pairs = answers(arguments.answers)
    settings = ServeSettings(model=arguments.model, metrics=arguments.metrics)
    alone = partial(offline, arguments.model, arguments.device, pairs, arguments.metrics)
    found: Figures = {}
    with live(denoiser, settings) as (_, url):
        for clients in arguments.clients:
            before, known = apart(alone)
            told = online(url, pairs, clients)
            after, _ = apart(alone)
            rate = len(pairs) / told["total"]
            found |= _served(clients, told["seconds"], rate / fmean((before, after)))
            off = max(abs(a - b) for a, b in zip(told["scores"], known, strict=True))
            print(
                f"{clients:3} clients: {rate:7.2f} answers/s, offline {before:.2f} and "
                f"{after:.2f}, ratio {rate / fmean((before, after)):.2f}; p50 "
                f"{found[f'serve/p50_ms/{clients}']['value']:.0f} ms, p95 "
                f"{found[f'serve/p95_ms/{clients}']['value']:.0f} ms; scores within {off:.1e}",
                flush=True,
            )
            assert off <= TOLERANCE, "the server's scores are not those of offline scoring"
    return found


def fairness(arguments: argparse.Namespace) -> Figures:
    """Measure how long a small request waits behind heavy ones, beyond its own time."""
    denoiser = load(arguments.model, device=arguments.device)
    settings = ServeSettings(model=arguments.model, metrics=arguments.metrics, seconds=3600)
    pairs = answers(HEAVY + SMALL)
    solves = [{"prompt": prompt, "kind": "wordmath", "remask": SOLVE} for prompt, _ in pairs]
    small = [{"prompt": p, "answer": a, "kind": "wordmath", "remask": TRIP} for p, a in pairs]
    with live(denoiser, settings) as (service, url):
        told = asyncio.run(wait_behind(url, solves[:HEAVY], small[HEAVY:]))
        assert soon(lambda: service.batcher.num_jobs == 0), "those who left are still served"
    alone, behind = told["alone"], told["behind"]
    waits = [after - fmean(alone) for after in behind]
    print(
        f"fairness: a small verification alone {fmean(alone):.2f} s (at most {max(alone):.2f}), "
        f"while {HEAVY} heavy solves run {fmean(behind):.2f} s (at most {max(behind):.2f}); "
        f"waits {fmean(waits):.2f} s, at most {max(waits):.2f}",
        flush=True,
    )
    unit = f"s beyond its own time, the longest of {SMALL}, while {HEAVY} heavy solves run"
    return {"serve/fairness/small_wait_seconds": figure_of(max(waits), unit, SMALL)}


async def wait_behind(
    url: str, solves: list[dict[str, Any]], small: list[dict[str, Any]]
) -> dict[str, list[float]]:
    """Return the seconds of small requests, alone and while heavy ones run."""
    async with httpx.AsyncClient(base_url=url, timeout=3600) as client:

        async def seconds(body: dict[str, Any]) -> float:
            began = time.perf_counter()
            (await client.post("/v1/verify", json=body)).raise_for_status()
            return time.perf_counter() - began

        await seconds(small[0])
        alone = [await seconds(body) for body in small]
        heavy = [asyncio.create_task(client.post("/v1/solve", json=body)) for body in solves]
        behind = []
        for body in small:
            await asyncio.sleep(SPACING)
            behind.append(await seconds(body))
        assert not any(task.done() for task in heavy), "a heavy one has ended"
        for task in heavy:
            task.cancel()
        await asyncio.gather(*heavy, return_exceptions=True)
    return {"alone": alone, "behind": behind}


def _served(clients: int, seconds: list[float], ratio: float) -> Figures:
    cut = quantiles(seconds, n=100, method="inclusive")
    n = len(seconds)
    return {
        f"serve/throughput_ratio/{clients}": figure_of(ratio, "server / offline, answers per s", n),
        f"serve/p50_ms/{clients}": figure_of(1000 * cut[49], "ms", n),
        f"serve/p95_ms/{clients}": figure_of(1000 * cut[94], "ms", n),
    }


@contextmanager
def command(model: str, *more: str) -> Iterator[tuple[int, str]]:
    """Run `remask serve`; yield its process id and address."""
    words = ["serve", "--model", model, "--port", "0", "--metrics", "core", "--json"]
    child = subprocess.Popen(
        [sys.executable, "-m", "remask.cli", *words, "--device", "cpu", *more],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        yield child.pid, json.loads(child.stdout.readline())["url"].rstrip("/")
    finally:
        child.terminate()
        child.wait()


def resident_mb(pid: int) -> float:
    """Return the memory of a process, as Linux tells it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


@dataclass
class Overload:
    """Response times in seconds of the requests of one run, by outcome."""

    limit: float  # of the server, for one request
    answered: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    stopped: int = 0  # solutions that are the best attempt at the deadline

    async def send(self, client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> float:
        """Send a request and count it; return how long to wait before the next."""
        began = time.perf_counter()
        try:
            answer = await client.post(path, json=body)
        except httpx.HTTPError as error:
            self.lost.append(repr(error))
            return 0.0
        seconds = time.perf_counter() - began
        if answer.status_code == 429:
            self.refused.append(seconds)
            return float(answer.headers["retry-after"])
        if answer.status_code == 504 or (answer.status_code == 200 and seconds > self.limit):
            self.late.append(seconds)
        elif answer.status_code == 200:
            self.answered.append(seconds)
            self.stopped += answer.json().get("stopped") == "deadline"
        else:
            self.lost.append(f"{answer.status_code} {answer.text[:200]}")
        return 0.0


async def overloaded(url: str, seconds: float, clients: int, limit: float) -> Overload:
    """Return what becomes of requests that so many clients send for a time."""
    tally, pairs, chance = Overload(limit), answers(50), random.Random(0)
    end = time.perf_counter() + seconds
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=url, timeout=2 * limit + 60, limits=limits) as client:

        async def work() -> None:
            while time.perf_counter() < end:
                prompt, solution = chance.choice(pairs)
                body = {"prompt": prompt, "kind": "wordmath", "seed": chance.randrange(1000)}
                verify = chance.random() < 0.5
                path, more = ("/v1/verify", {"answer": solution}) if verify else ("/v1/solve", STOP)
                wait = await tally.send(client, path, body | more)
                await asyncio.sleep(max(0.0, min(wait, end - time.perf_counter())))

        await asyncio.gather(*(work() for _ in range(clients)))
    return tally


def overload(words: Sequence[str]) -> None:
    """Measure the server under more requests than it can answer."""
    parser = argparse.ArgumentParser(description="Overload the server.")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each run")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120.0, help="time limit of a request, s")
    arguments = parse(parser, words)
    counts = Counter[str]()
    for _ in range(arguments.runs):
        with command(arguments.model, "--seconds", str(arguments.limit)) as (_, url):
            tally = asyncio.run(
                overloaded(url, arguments.seconds, arguments.clients, arguments.limit)
            )
        slowest, refusal = (max(x, default=0.0) for x in (tally.answered, tally.refused))
        print(
            f"overload: {len(tally.answered)} answered in at most {slowest:.1f} s ({tally.stopped} "
            f"at the deadline), {len(tally.refused)} refused in at most {refusal:.2f} s, "
            f"{len(tally.late)} late, {len(tally.lost)} lost",
            *tally.lost[:5],
            sep="\n", flush=True,
        )  # fmt: skip
        counts["answered"] += len(tally.answered)
        counts["refused"] += len(tally.refused)
        counts["failed"] += len(tally.late) + len(tally.lost)
    runs, seconds, clients = arguments.runs, arguments.seconds, arguments.clients
    unit = f"requests in {runs} runs of {seconds:g} s with {clients} clients"
    found = {f"faults/overload/{n}": figure_of(counts[n], unit, counts.total())
             for n in ("answered", "refused", "failed")}  # fmt: skip
    text = " ".join(["python benchmarks/serve.py overload", *_without(words)])
    save(arguments, found, "overload", text)


def memory(folder: Path, number: int) -> Figures:
    """Measure how memory grows after the first requests."""
    denoiser = small_model(folder)
    name, limit = denoiser.name, 2**20
    known = expected(denoiser, name)
    with command(name) as (pid, url):
        send = partial(storm, url, known, limit=limit)
        first = asyncio.run(send(number=min(WARM_UP, number // 2), seed=1))
        before = resident_mb(pid)
        rest = asyncio.run(send(number=number - first.sent, seed=2))
        after = resident_mb(pid)
    _show(first)
    _show(rest)
    print(f"memory: {before:.0f} MB after {first.sent} requests, {after:.0f} after {number}")
    unit = f"memory after {number} requests / after {first.sent}, less 1"
    return {"serve/memory_growth": figure_of(after / before - 1, unit, number)}


def mixed(folder: Path, number: int) -> Figures:
    """Count what becomes of mixed requests where batches fail."""
    denoiser = small_model(folder)
    faulty, known = Faulty(denoiser), expected(denoiser, "small")
    settings = ServeSettings(model="small", metrics="core", max_queue=24)
    faults = {number // 3: "memory", number // 2: "nan"}
    at: dict[int, Callable[[], None]] = {
        place: partial(setattr, faulty, "fault", fault) for place, fault in faults.items()
    }
    wrapped: Any = faulty
    with live(wrapped, settings) as (service, url):
        tally = asyncio.run(storm(url, known, number=number, limit=settings.body_bytes, at=at))
        assert service.batcher.ready, "the server is alive"
        assert service.batcher.num_jobs == 0, "and clean"
    _show(tally)
    counts = {
        "sent": tally.sent, "answered": tally.answered, "wrong": len(tally.wrong),
        "lost": len(tally.lost),
    }  # fmt: skip
    return {f"serve/mixed/{name}": figure_of(n, "requests", number) for name, n in counts.items()}


def _show(tally: Tally) -> None:
    print(
        f"mixed: {tally.sent} sent, {tally.answered} answered, {tally.left} left by their clients, "
        f"{tally.refused} times sent again, {len(tally.wrong)} wrong, {len(tally.lost)} lost",
        *(tally.wrong + tally.lost)[:5],
        sep="\n", flush=True,
    )  # fmt: skip


def read_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="Measure the server.")
    parser.add_argument("--model", default="tiny", help="what is served for throughput")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    parser.add_argument("--metrics", choices=["paper", "core"], default="core")
    parser.add_argument("--answers", type=int, default=96, help="scored in every run")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS)
    parser.add_argument("--no-fairness", action="store_true", help="leave fairness out")
    parser.add_argument("--memory", type=int, default=5_000, help="requests; 0 leaves it out")
    parser.add_argument("--mixed", type=int, default=2_000, help="requests; 0 leaves it out")
    return parse(parser, words)


def main(words: Sequence[str]) -> None:
    """Measure, print, and merge into a figures.json where one is named."""
    if words[:1] == ["overload"]:
        overload(words[1:])
        return
    arguments = read_arguments(words)
    found = throughput(arguments) if arguments.answers else {}
    if not arguments.no_fairness:
        save(arguments, fairness(arguments), "fairness", f"python benchmarks/serve.py {ALONE}")
    with tempfile.TemporaryDirectory() as folder:
        if arguments.memory:
            found |= memory(Path(folder), arguments.memory)
        if arguments.mixed:
            found |= mixed(Path(folder), arguments.mixed)
    if found:
        save(arguments, found, "serve", " ".join(["python benchmarks/serve.py", *_without(words)]))


def _without(words: Sequence[str]) -> list[str]:
    """Return the words without those that say where figures go, and what was measured on what."""
    drop = {i + d for i, word in enumerate(words) if word in ASIDE for d in (0, 1)}
    kept = [word for i, word in enumerate(words) if i not in drop]
    return [word for word in kept if word.partition("=")[0] not in ASIDE]


if __name__ == "__main__":
    main(sys.argv[1:])
