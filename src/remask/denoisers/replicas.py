"""One model on several devices: a replica each, among which whole batches are spread.

Batches are formed as for one device and a replica takes the next when it is free, so a result does
not depend on how many there are, nor on which of them it came from. A job of one batch keeps one
device busy. Not here: one model over several devices (`denoisers.split`).
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeVar

import torch

from remask.denoisers.base import Denoiser
from remask.denoisers.wrap import Wrapped

_Batch = TypeVar("_Batch")
_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class Replicas(Wrapped):
    """The same model several times; alone it is the first of them, `spread` uses all."""

    others: tuple[Denoiser, ...] = ()

    @property
    def all(self) -> tuple[Denoiser, ...]:
        """Every replica, one per device."""
        return (self.inner, *self.others)


def spread(
    denoiser: Denoiser,
    batches: Iterable[_Batch],
    work: Callable[[Denoiser, _Batch], _Result],
) -> Iterator[tuple[_Batch, _Result]]:
    """Yield each batch with what `work(replica, batch)` returned, in the order of the batches.

    An ordinary denoiser does one after another. Replicas have a thread each; the first error, in
    the order of the batches, is raised here, and batches that have not begun are left.
    """
    if not isinstance(denoiser, Replicas):
        for batch in batches:
            yield batch, work(denoiser, batch)
        return
    free: SimpleQueue[Denoiser] = SimpleQueue()
    for replica in denoiser.all:
        free.put(replica)

    def run(batch: _Batch) -> _Result:
        replica = free.get()  # as many threads as replicas: one is free
        try:
            with _on(replica.device):
                return work(replica, batch)
        finally:
            free.put(replica)

    with ThreadPoolExecutor(len(denoiser.all)) as threads:
        begun = [(batch, threads.submit(run, batch)) for batch in batches]
        try:
            for batch, result in begun:
                yield batch, result.result()
        finally:
            for _, result in begun:
                result.cancel()


def _on(device: torch.device) -> "torch.cuda.device | nullcontext[None]":
    """Return a context in which new work of this thread belongs to `device`."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
