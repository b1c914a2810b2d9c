"""A Ray Serve application: replicas of a model behind Ray's proxy.

    serve run remask.serve.ray_serve:app model=tiny num_replicas=2 num_gpus=1
    serve.run(app({"model": "tiny"}))                              # the same from Python

Every replica is a server with its own model and queue. Ray sends it requests, restarts it when it
dies, and may add replicas. Arguments are fields of `ReplicaSettings`, as strings or as numbers.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

from remask.denoisers.load import load
from remask.errors import MissingExtra
from remask.serve.settings import ServeSettings
from remask.settings import Setting, check, validate
from remask.values import ROUNDTRIPS


@dataclass(frozen=True, kw_only=True)
class ReplicaSettings:
    """The model to serve, and the number of replicas."""

    model: Annotated[str, Setting("The model: tiny, a folder, a hub id or module:name.")]
    preset: Annotated[str, Setting("Sample as the model's authors did for this task.")] = ""
    device: Annotated[str, Setting("auto, cpu or cuda: which GPU is up to Ray.")] = "auto"
    dtype: Annotated[str, Setting("Number format; auto is bfloat16 on CUDA.")] = "auto"
    weights: Annotated[
        str, Setting("Pack the weights into fewer bits: int8, nf4, or fp8 on Hopper.")
    ] = "full"
    scorer: Annotated[str, Setting("What scores answers.")] = ROUNDTRIPS
    metrics: Annotated[str, Setting("Metric set of the round trips: paper or core.")] = "paper"
    host: Annotated[
        str, Setting("Address of Ray's proxy; any other than loopback requires a key.")
    ] = "127.0.0.1"
    max_queue: Annotated[int, Setting("Most requests of a replica.", least=1)] = 64
    max_tokens: Annotated[int, Setting("Most tokens of a prompt and its canvas.", least=1)] = 4_096
    seconds: Annotated[float, Setting("Time limit of a request.", above=0)] = 120.0
    num_replicas: Annotated[int, Setting("Replicas of the model.", least=1)] = 1
    num_gpus: Annotated[float, Setting("GPUs of a replica; below 1 they share one.", least=0)] = 0.0

    def __post_init__(self) -> None:
        check(self)

    def served(self, key: str | None) -> ServeSettings:
        """Return the settings of a replica's server."""
        shared = {f.name for f in fields(ServeSettings)} & {f.name for f in fields(self)}
        given: dict[str, Any] = {name: getattr(self, name) for name in shared}
        return ServeSettings(**given, key=key)


class ModelReplica:
    """One replica: a server without a socket, which is Ray's."""

    def __init__(self, settings: ReplicaSettings, key: str | None) -> None:
        from remask.serve.service import (
            Service,
            build_service,
            run_in_thread,
            time_model,
        )

        def make() -> Service:
            model = load(
                settings.model,
                device=settings.device,
                dtype=settings.dtype,
                preset=settings.preset,
                weights=settings.weights,
            )
            return build_service(model, settings.served(key))

        self.service = run_in_thread(make)
        time_model(self.service)

    def __serve_build_asgi_app__(self) -> Any:
        """Return the app; Ray calls this when it makes the replica."""
        from remask.serve.app import build_app

        return build_app(self.service)

    def __del__(self) -> None:
        """Stop the model's thread; Ray has waited for the requests to end."""
        if hasattr(self, "service"):
            self.service.batcher.close(self.service.settings.drain_seconds)


def app(arguments: Mapping[str, Any]) -> Any:
    """Return the application of Ray Serve; the variable REMASK_API_KEY may hold a key."""
    try:
        from ray import serve
    except ImportError:
        raise MissingExtra("ray[serve]", "rayserve", "use remask serve") from None
    from remask.serve.run import KEY_VARIABLE

    settings = validate(ReplicaSettings, _numbers(arguments), "the arguments")
    key = os.environ.get(KEY_VARIABLE) or None
    settings.served(key)  # raises here, not in a replica
    deployment = serve.deployment(
        serve.ingress()(ModelReplica),
        name="remask",
        num_replicas=settings.num_replicas,
        max_ongoing_requests=settings.max_queue,
        ray_actor_options={"num_gpus": settings.num_gpus},
    )
    return deployment.bind(settings, key)


def _numbers(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with integers parsed: `serve run` passes strings."""
    whole = {"max_queue", "max_tokens", "num_replicas"}
    return {
        name: int(value) if name in whole and str(value).isdecimal() else value
        for name, value in arguments.items()
    }
