"""Portions done by the workers of a Ray cluster, of which any may die on the way.

A worker is an actor that holds the model. The driver hands a portion to whoever is free, writes
what comes back to a shard, and gives the results on in order. The portion of a worker that died
goes to a new one; a portion that ended three is given up. Shards are written by the driver alone,
so the nodes share no disk; what they need is this package, and the model under the same name.

Only this module imports ray. What a portion means is said in `collect.collect` and `score_file`.
"""

import os
import secrets
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch

from remask.collect.chunks import Portion, Row
from remask.collect.shards import Shards
from remask.denoisers.base import Denoiser
from remask.denoisers.load import choose_dtype, find_folder, load, outline
from remask.denoisers.native import NativeDenoiser, fingerprint
from remask.denoisers.tokenizer import read_json
from remask.denoisers.wrap import Wrapped
from remask.errors import EngineError, MissingExtra, SettingsError

TRIES = 3
_REACH_S = 5  # ray itself would try for minutes
_STORE = 256 * 2**20  # bytes for rows on their way, on a cluster of our own
_Given = TypeVar("_Given")


@dataclass(frozen=True, kw_only=True)
class Held:
    """Which model each worker holds."""

    model: str
    device: str = "auto"
    dtype: str = "auto"
    preset: str = ""


@dataclass(frozen=True, eq=False)
class Elsewhere(Wrapped):
    """A model that other processes hold: all that can be told without its weights."""

    on: torch.device
    folder: str  # there
    weights: str  # what tells them from others

    @property
    def device(self) -> torch.device:
        """Where the weights are, over there."""
        return self.on


class Worker:
    """What an actor is made of; the model is loaded when it is first needed."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self.denoiser: Denoiser | None = None

    def describe(self) -> Elsewhere:
        """Return the model without its weights."""
        denoiser = self._model()
        assert isinstance(denoiser, NativeDenoiser)  # a worker has one device
        folder = find_folder(self.held.model)
        empty = outline(read_json(folder / "config.json"), folder)
        shell = replace(denoiser, model=empty.to(denoiser.model.embedding.weight.dtype))
        return Elsewhere(shell, denoiser.device, str(folder), fingerprint(denoiser.model))

    def run(self, work: Callable[[Denoiser, Any], list[Row]], given: Any) -> list[Row]:
        """Return the rows of one portion."""
        return work(self._model(), given)

    def _model(self) -> Denoiser:
        if self.denoiser is None:
            held = self.held
            self.denoiser = load(
                held.model, device=held.device, dtype=held.dtype, preset=held.preset
            )
        return self.denoiser


class Cluster:
    """An engine whose workers are actors of Ray; a context, left when the work is done."""

    def __init__(self, held: Held, *, workers: int | None = None, address: str = "") -> None:
        if held.device not in ("auto", "cpu", "cuda"):
            raise SettingsError(
                f"device {held.device!r} cannot be given to workers, which get a GPU each from "
                "Ray; use auto, cpu or cuda."
            )
        self.held, self.workers, self.address = held, workers, address
        self.deaths = 0  # of workers that were replaced

    def __enter__(self) -> "Cluster":
        """Join the cluster, or start one here, and see what it has."""
        ray = _ray()
        _join(ray, self.address, self.workers or 2)
        try:
            there = ray.cluster_resources()
            self._settle(int(there.get("GPU", 0)), int(there.get("CPU", 0)))
        except BaseException:
            ray.shutdown()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Leave; a cluster that was started here ends, and with it every worker."""
        _ray().shutdown()

    def _settle(self, num_gpus: int, num_cpus: int) -> None:
        on_gpu = self.held.device == "cuda" or (self.held.device == "auto" and num_gpus > 0)
        there, what = (num_gpus, "GPU") if on_gpu else (num_cpus, "CPU")
        num = self.workers or (num_gpus if on_gpu else 2)
        if not 1 <= num <= there:
            raise SettingsError(
                f"{max(num, 1)} workers need a {what} each and the cluster has {there}; "
                "ask for fewer with --workers, or name another --device."
            )
        self.workers, self.held = num, replace(self.held, device="cuda" if on_gpu else "cpu")
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
        dtype = choose_dtype(self.held.dtype, torch.device(self.held.device))
        return str(dtype).removeprefix("torch.")

    def load(self) -> Elsewhere:
        """Start the workers; return the model as the first of them has it."""
        ray = _ray()
        self._actors = [self._actor() for _ in range(self.workers or 0)]
        told = [actor.describe.remote() for actor in self._actors]
        try:
            found: Elsewhere = ray.get(told[0])
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise EngineError(
                f"a worker ended while it loaded {self.held.model} ({_first_line(error)}); "
                "see that a worker has memory for the model."
            ) from None
        return found

    def _actor(self) -> Any:
        return _ray().remote(**self._needs)(Worker).remote(self.held)

    def _successor(self, dead: Any) -> Any:
        """Return a new worker in the place of one that died."""
        self.deaths += 1
        place = self._actors.index(dead)
        self._actors[place] = self._actor()
        return self._actors[place]

    def results(
        self,
        portions: Sequence[Portion],
        load: Callable[[Portion], _Given],
        work: Callable[[Denoiser, _Given], list[Row]],
        shards: Shards,
    ) -> Iterator[list[Row]]:
        """Yield the rows of each portion in order, as soon as those before it are there."""
        errand = _Errand(self._actors, self._successor, load, _ray().put(work), shards)
        errand.waiting.extend(portion for portion in portions if not shards.has(portion))
        for portion in portions:
            while not shards.has(portion):
                errand.step()
            yield shards.read(portion)


class _Errand:
    """Which worker does what, what still waits, and how often it was tried."""

    def __init__(
        self,
        actors: Sequence[Any],
        successor: Callable[[Any], Any],
        load: Callable[[Portion], Any],
        work: Any,  # a reference: sent to a node once
        shards: Shards,
    ) -> None:
        self.free = deque(actors)
        self.successor, self.load, self.work, self.shards = successor, load, work, shards
        self.waiting: deque[Portion] = deque()
        self.running: dict[Any, tuple[Portion, Any]] = {}
        self.tries: Counter[Portion] = Counter()

    def step(self) -> None:
        """Give every free worker a portion, and take in the next that is finished."""
        while self.free and self.waiting:
            actor, portion = self.free.popleft(), self.waiting.popleft()
            answer = actor.run.remote(self.work, self.load(portion))
            self.running[answer] = portion, actor
        ray = _ray()
        (answer,), _ = ray.wait(list(self.running), num_returns=1)
        portion, actor = self.running.pop(answer)
        try:
            rows = ray.get(answer)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:  # the worker, its node or its result is gone
            self._again(portion, error)
            self.free.append(self.successor(actor))
            return
        self.shards.write(portion, rows)
        self.free.append(actor)

    def _again(self, portion: Portion, error: Exception) -> None:
        """Put a portion first in line for a new worker, unless it has ended too many."""
        self.tries[portion] += 1
        if self.tries[portion] >= TRIES:
            raise EngineError(
                f"rows {portion.start} to {portion.stop - 1} ended {TRIES} workers one after "
                f"another ({_first_line(error)}); what is finished is kept: see to the cause, such "
                "as too little memory, and repeat the command."
            ) from None
        self.waiting.appendleft(portion)


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
