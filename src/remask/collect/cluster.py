"""Compute chunks on the workers of a Ray cluster, any of which may die.

A worker is an actor that holds the model. The driver sends a chunk to each free worker and yields
results as they arrive. If a worker dies, a new worker computes its chunk; a chunk that three
workers died on raises EngineError. Only the driver writes files, so the nodes need no shared disk:
they need this package, and the model under the same name.

Only this module imports ray.
"""

import os
import secrets
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from remask.collect.chunks import Chunk
from remask.collect.engine import ChunkedWork, Lines, RemoteModel
from remask.denoisers.base import Denoiser
from remask.denoisers.devices import choose_dtype
from remask.denoisers.identity import fingerprint, precision_name
from remask.denoisers.load import find_folder, load, outline
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.packing import pack
from remask.denoisers.quantise import FULL, find_format
from remask.denoisers.tokenizer import read_json
from remask.errors import EngineError, MissingExtra, SettingsError

TRIES = 3
_REACH_S = 5  # ray itself would try for minutes
_STORE = 256 * 2**20  # bytes for rows on their way, on a cluster of our own


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """Which model each worker holds."""

    model: str
    device: str = "auto"
    dtype: str = "auto"
    preset: str = ""
    weights: str = FULL
    compiled: bool = False


class Worker:
    """What an actor is made of; the model is loaded when it is first needed."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.denoiser: Denoiser | None = None

    def describe(self) -> RemoteModel:
        """Return the model without its weights."""
        denoiser = self._model()
        assert isinstance(denoiser, NativeDenoiser)  # a worker has one device
        folder = find_folder(self.spec.model)
        empty = outline(read_json(folder / "config.json"), folder)
        empty = empty.to(denoiser.model.embedding.weight.dtype)
        shell = replace(denoiser, model=pack(empty, find_format(self.spec.weights)))
        return RemoteModel(shell, denoiser.device, str(folder), fingerprint(denoiser.model))

    def run(self, compute: Callable[[Denoiser, Any], Lines], loaded: Any) -> Lines:
        return compute(self._model(), loaded)

    def _model(self) -> Denoiser:
        if self.denoiser is None:
            spec = self.spec
            self.denoiser = load(
                spec.model, device=spec.device, dtype=spec.dtype, preset=spec.preset,
                weights=spec.weights, compiled=spec.compiled,
            )  # fmt: skip
        return self.denoiser


class Cluster:
    """An engine whose workers are actors of Ray; a context, left when the work is done."""

    def __init__(self, spec: ModelSpec, *, workers: int | None = None, address: str = "") -> None:
        if spec.device not in ("auto", "cpu", "cuda"):
            raise SettingsError(
                f"device {spec.device!r} cannot be given to workers, which get a GPU each from "
                "Ray; use auto, cpu or cuda."
            )
        self.spec, self.workers, self.address = spec, workers, address
        self.deaths = 0  # of workers that were replaced

    def __enter__(self) -> "Cluster":
        """Join the cluster, or start one here, and see what it has."""
        ray = _ray()
        _join(ray, self.address, self.workers or 2)
        try:
            there = ray.cluster_resources()
            self._allocate(int(there.get("GPU", 0)), int(there.get("CPU", 0)))
        except BaseException:
            ray.shutdown()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Leave; a cluster that was started here ends, and with it every worker."""
        _ray().shutdown()

    def _allocate(self, num_gpus: int, num_cpus: int) -> None:
        on_gpu = self.spec.device == "cuda" or (self.spec.device == "auto" and num_gpus > 0)
        there, what = (num_gpus, "GPU") if on_gpu else (num_cpus, "CPU")
        num = self.workers or (num_gpus if on_gpu else 2)
        if not 1 <= num <= there:
            raise SettingsError(
                f"{max(num, 1)} workers need a {what} each and the cluster has {there}; "
                "ask for fewer with --workers, or name another --device."
            )
        self.workers, self.spec = num, replace(self.spec, device="cuda" if on_gpu else "cpu")
        # Of a cluster of our own a worker gets its share of the cores, of another's only one.
        share = 1 if self.address else max(1, num_cpus // num)
        self._needs = {"num_gpus": int(on_gpu), "num_cpus": share}

    @property
    def name(self) -> str:
        """What a manifest calls this engine."""
        return f"ray, {self.workers} workers"

    @property
    def precision(self) -> str:
        """The number format that the workers load the model in."""
        dtype = choose_dtype(self.spec.dtype, torch.device(self.spec.device))
        form = find_format(self.spec.weights)
        return precision_name(dtype, form.name if form else "")

    def load(self) -> RemoteModel:
        """Start the workers; return the model as the first of them has it."""
        ray = _ray()
        self._actors = [self._actor() for _ in range(self.workers or 0)]
        descriptions = [actor.describe.remote() for actor in self._actors]
        try:
            model: RemoteModel = ray.get(descriptions[0])
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise EngineError(
                f"a worker ended while it loaded {self.spec.model} ({_first_line(error)}); "
                "see that a worker has memory for the model."
            ) from None
        return model

    def _actor(self) -> Any:
        return _ray().remote(**self._needs)(Worker).remote(self.spec)

    def _successor(self, dead: Any) -> Any:
        """Return a new worker in the place of one that died."""
        self.deaths += 1
        place = self._actors.index(dead)
        self._actors[place] = self._actor()
        return self._actors[place]

    def results(self, work: ChunkedWork[Any]) -> Iterator[tuple[Chunk, Lines]]:
        """Yield the lines of each chunk as soon as they arrive."""
        schedule = _Schedule(self._actors, self._successor, work)
        while schedule.waiting or schedule.running:
            yield from schedule.step()


class _Schedule:
    """The chunks that wait and run, and how often each was tried."""

    def __init__(
        self, actors: Sequence[Any], successor: Callable[[Any], Any], work: ChunkedWork[Any]
    ) -> None:
        self.free = deque(actors)
        self.successor, self.load = successor, work.load
        self.compute = _ray().put(work.compute)  # a reference: sent to a node once
        self.waiting = deque(work.chunks)
        self.running: dict[Any, tuple[Chunk, Any]] = {}
        self.tries: Counter[Chunk] = Counter()

    def step(self) -> Iterator[tuple[Chunk, Lines]]:
        """Send a chunk to every free worker, and yield the next one that arrives."""
        while self.free and self.waiting:
            actor, chunk = self.free.popleft(), self.waiting.popleft()
            answer = actor.run.remote(self.compute, self.load(chunk))
            self.running[answer] = chunk, actor
        ray = _ray()
        (answer,), _ = ray.wait(list(self.running), num_returns=1)
        chunk, actor = self.running.pop(answer)
        try:
            lines = ray.get(answer)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:  # the worker, its node or its result is gone
            self._again(chunk, error)
            self.free.append(self.successor(actor))
            return
        self.free.append(actor)
        yield chunk, lines

    def _again(self, chunk: Chunk, error: Exception) -> None:
        """Put a chunk first in line for a new worker, unless it has ended too many."""
        self.tries[chunk] += 1
        if self.tries[chunk] >= TRIES:
            raise EngineError(
                f"rows {chunk.start} to {chunk.stop - 1} ended {TRIES} workers one after "
                f"another ({_first_line(error)}); what is finished is kept: see to the cause, such "
                "as too little memory, and repeat the command."
            ) from None
        self.waiting.appendleft(chunk)


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # its default from now on
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray", "ray", "use --engine local") from None
    return ray


def _join(ray: Any, address: str, workers: int) -> None:
    """Connect to the cluster at an address, or start one on this machine."""
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if not address:
        # One secret per cluster; without it ray would keep one in the home folder.
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        cores = max(workers, os.cpu_count() or 1)
        ray.init(
            address="local", num_cpus=cores, include_dashboard=False, object_store_memory=_STORE,
            **quiet,
        )  # fmt: skip
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise SettingsError(f"address {address!r} is not of the form HOST:PORT; give the head's.")
    try:
        socket.create_connection((host, int(port)), timeout=_REACH_S).close()
        ray.init(address=address, **quiet)
    except (OSError, OverflowError, ValueError, RuntimeError) as error:
        raise EngineError(
            f"no Ray cluster answers at address {address!r} ({_first_line(error)}); start one with "
            "ray start --head, set RAY_AUTH_MODE=token where it wants a token, or leave the "
            "address out."
        ) from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
