"""The engine of a command: this process, or the workers of a Ray cluster."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import TYPE_CHECKING, NamedTuple

import typer

from remask.cli import flags as opt
from remask.cli.app import load_model, tell_note

if TYPE_CHECKING:
    from remask.collect.chunks import Engine
    from remask.denoisers.base import Denoiser


class Asked(NamedTuple):
    """Who shall do the work."""

    engine: opt.EngineName
    workers: int | None
    address: str


class Place(NamedTuple):
    """Where the model will be."""

    precision: str
    load: "Callable[[], Denoiser]"
    engine: "Engine | None"  # None: this process


@contextmanager
def place(
    asked: Asked,
    model: str,
    device: str,
    dtype: str,
    preset: str,
    split: opt.LayoutName = "replicas",
) -> Iterator[Place]:
    """Yield the place of a model, which is loaded when `load` is called; leave the cluster after.

    So files can be refused before minutes of loading.
    """
    from remask.denoisers.load import choose_devices, choose_dtype

    if asked.engine == "ray":
        if split == "layers":
            raise opt.UsageError(
                "--split layers spreads a model over the devices of this process and a worker of "
                "Ray has one; leave --engine ray out"
            )
        with _cluster(asked, model, device, dtype, preset) as found:
            yield found
        return
    if asked.workers is not None or asked.address:
        flag = "--address" if asked.address else "--workers"
        raise opt.UsageError(f"{flag} says where a Ray cluster is or how large; add --engine ray")
    precision = str(choose_dtype(dtype, choose_devices(device)[0])).removeprefix("torch.")
    yield Place(precision, lambda: load_model(model, device, dtype, preset, split), None)


@contextmanager
def _cluster(asked: Asked, model: str, device: str, dtype: str, preset: str) -> Iterator[Place]:
    from remask.cli import terminal
    from remask.collect.cluster import Cluster, Held

    held = Held(model=model, device=device, dtype=dtype, preset=preset)
    cluster = Cluster(held, workers=asked.workers, address=asked.address)

    def load() -> "Denoiser":
        tell_note(model, preset)
        with terminal.waiting(f"loading {model} in {cluster.workers} workers"):
            return cluster.load()

    with ExitStack() as left:
        # Ray tells of dead workers on standard output, where only results belong.
        left.enter_context(redirect_stdout(left.enter_context(open(os.devnull, "w"))))
        with terminal.waiting("starting Ray"):
            left.enter_context(cluster)
        yield Place(cluster.precision, load, cluster)
    if cluster.deaths:
        typer.echo(f"remask: workers died and were replaced, {cluster.deaths} in all.", err=True)
