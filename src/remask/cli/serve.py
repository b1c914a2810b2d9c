"""The command that puts a model behind HTTP."""

import os
from pathlib import Path
from typing import Annotated

import typer

from remask.cli import settings as opt
from remask.cli.app import load_model, tell
from remask.consistency.settings import Metrics, MetricSet


def _flag(help_line: str, *names: str, least: float | None = None) -> typer.models.OptionInfo:
    made: typer.models.OptionInfo = typer.Option(*names, help=help_line, min=least)
    return made


Host = Annotated[str, _flag("Address to listen at; elsewhere than loopback a key is needed.")]
Port = Annotated[
    int, typer.Option(help="Port to listen at; 0 takes a free one.", min=0, max=65_535)
]
KeyFile = Annotated[
    Path | None, _flag("File with the key; REMASK_API_KEY is the other way to give one.")
]
AllowHost = Annotated[
    list[str] | None, _flag("A further name that clients call this machine; again for more.")
]
MaxQueue = Annotated[int, _flag("Most requests that run or wait; others get 429.", least=1)]
MaxTokens = Annotated[int, _flag("Most tokens of a prompt and its canvas.", least=1)]
Seconds = Annotated[float, _flag("Time limit of a request.", "--seconds", least=0.1)]
LogPrompts = Annotated[bool, _flag("Write prompts and answers to the log.", "--log-prompts")]
Show = Annotated[bool, _flag("Open the page in a browser.", "--open/--no-open")]


def serve(
    *,
    model: opt.ModelSettings,
    host: Host = "127.0.0.1",
    port: Port = 7575,
    key_file: KeyFile = None,
    allow_host: AllowHost = None,
    max_queue: MaxQueue = 64,
    max_tokens: MaxTokens = 4096,
    seconds: Seconds = 120.0,
    metrics: Metrics = "paper",
    log_prompts: LogPrompts = False,
    show: Show = False,
    as_json: opt.Json = False,
) -> None:
    """Put a model behind HTTP, with a page to watch it."""
    opt.require_model(model)
    from remask.serve.service import build_service, check_extra
    from remask.serve.settings import ServeSettings

    check_extra()  # before what imports the web framework
    from remask.serve.run import KEY_VARIABLE, bound, read_key
    from remask.serve.run import serve as run

    settings = ServeSettings(
        model=model.model, preset=model.preset, dtype=model.dtype, metrics=metrics, host=host,
        allowed_hosts=tuple(allow_host or ()), max_queue=max_queue, max_tokens=max_tokens,
        key=read_key(key_file, os.environ.get(KEY_VARIABLE)), seconds=seconds,
        log_prompts=log_prompts,
    )  # fmt: skip

    def say(url: str) -> None:
        name = model.model
        tell({"model": name, "url": url}, f"{name} is at {url} (Ctrl-C ends)", as_json)

    with bound(host, port) as made:
        denoiser = load_model(model)
        _warm(metrics, denoiser.device.type)
        run(build_service(denoiser, settings), made, say, show)


def _warm(metrics: MetricSet, device: str) -> None:
    """Load the sentence encoder where it will be needed: a missing one is told at once."""
    if metrics == "paper":
        from remask.consistency.semantic import sentence_encoder

        sentence_encoder(device)
