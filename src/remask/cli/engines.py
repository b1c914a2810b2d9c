"""The engine of a command: this process, or the workers of a Ray cluster."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import TYPE_CHECKING, NamedTuple

import typer

from remask.cli.app import load_model, tell_note
from remask.cli.flags import UsageError
from remask.cli.settings import EngineSettings, ModelSettings

if TYPE_CHECKING:
    from remask.collect.engine import Engine
    from remask.denoisers.base import Denoiser


class Backend(NamedTuple):
    """Where the model will be."""

    precision: str
    load: "Callable[[], Denoiser]"
    engine: "Engine | None"  # None: this process


@contextmanager
def backend(settings: EngineSettings, model: ModelSettings) -> Iterator[Backend]:
    """Yield where a model will be, which is loaded when `load` is called; leave the cluster after.

    So files can be refused before minutes of loading.
    """
    from remask.denoisers.devices import choose_devices, choose_dtype
    from remask.denoisers.identity import precision_name
    from remask.denoisers.quantise import find_format

    if settings.engine == "ray":
        if model.split == "layers":
            raise UsageError(
                "--split layers spreads a model over the devices of this process and a worker of "
                "Ray has one; leave --engine ray out"
            )
        with _cluster(settings, model) as made:
            yield made
        return
    if settings.workers is not None or settings.address:
        flag = "--address" if settings.address else "--workers"
        raise UsageError(f"{flag} says where a Ray cluster is or how large; add --engine ray")
    form, device = find_format(model.weights), choose_devices(model.device)[0]
    precision = precision_name(choose_dtype(model.dtype, device), form.name if form else "")
    yield Backend(precision, lambda: load_model(model), None)


@contextmanager
def _cluster(settings: EngineSettings, model: ModelSettings) -> Iterator[Backend]:
    from remask.cli import terminal
    from remask.collect.cluster import Cluster, ModelSpec

    spec = ModelSpec(
        model=model.model, device=model.device, dtype=model.dtype, preset=model.preset,
        weights=model.weights, compiled=model.compile,
    )  # fmt: skip
    cluster = Cluster(spec, workers=settings.workers, address=settings.address)

    def load() -> "Denoiser":
        tell_note(model)
        with terminal.waiting(f"loading {model.model} in {cluster.workers} workers"):
            return cluster.load()

    with ExitStack() as left:
        # Ray tells of dead workers on standard output, where only results belong.
        left.enter_context(redirect_stdout(left.enter_context(open(os.devnull, "w"))))
        with terminal.waiting("starting Ray"):
            left.enter_context(cluster)
        yield Backend(cluster.precision, load, cluster)
    if cluster.deaths:
        typer.echo(f"remask: workers died and were replaced, {cluster.deaths} in all.", err=True)
