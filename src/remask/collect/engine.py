"""Engines compute chunks: this process, with one model or several replicas, or a Ray cluster."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch

from remask.collect.chunks import Chunk
from remask.denoisers.base import Denoiser
from remask.denoisers.wrap import Wrapped
from remask.records.jsonl import Row
from remask.sampling.batches import spread

T = TypeVar("T")
Lines = list[list[Row]]  # for each row of a chunk, the lines of the file that it becomes


@dataclass(frozen=True)
class ChunkedWork(Generic[T]):
    """Chunks to compute; the lines of one are `compute(model, load(chunk))`."""

    chunks: Sequence[Chunk]
    load: Callable[[Chunk], T]  # runs in this process
    compute: Callable[[Denoiser, T], Lines]  # runs where the model is; picklable


class Engine(Protocol):
    """Computes chunks."""

    @property
    def name(self) -> str:
        """Name in the manifest."""
        ...

    def results(self, work: ChunkedWork[Any]) -> Iterator[tuple[Chunk, Lines]]:
        """Yield the lines of each chunk, in any order."""
        ...


@dataclass(frozen=True, eq=False)
class Local:
    """The current process; each replica of the model computes one chunk at a time."""

    denoiser: Denoiser
    name: str = "local"

    def results(self, work: ChunkedWork[Any]) -> Iterator[tuple[Chunk, Lines]]:
        """Yield the lines of each chunk, in order."""
        return spread(
            self.denoiser, work.chunks, lambda model, chunk: work.compute(model, work.load(chunk))
        )


@dataclass(frozen=True, eq=False)
class RemoteModel(Wrapped):
    """A model in other processes: everything but its weights."""

    on: torch.device
    folder: str  # on the worker's machine
    weights: str  # digest

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.on
