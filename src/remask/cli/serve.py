"""The command that puts a model behind HTTP."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from remask.cli import settings as opt
from remask.cli.app import load_model, tell
from remask.cli.fitted import read_verifier_flags
from remask.cli.flags import FlagsOf, UsageError
from remask.serve.settings import ServeSettings
from remask.settings import Setting
from remask.values import ROUNDTRIPS

_FLAGS = (
    "scorer", "fitted", "max_forwards", "host", "max_queue", "max_tokens", "seconds", "metrics",
    "log_prompts",
)  # fmt: skip
ServeFlags = Annotated[dict[str, Any], FlagsOf(kind=ServeSettings, only=_FLAGS)]
Port = Annotated[int, Setting("Port to listen at; 0 takes a free one.", least=0, most=65_535)]
KeyFile = Annotated[
    Path | None, Setting("File with the key; REMASK_API_KEY is the other way to give one.")
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(help="A further name that clients call this machine; again for more."),
]
Show = Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")]


def serve(
    *,
    model: opt.ModelSettings,
    flags: ServeFlags,
    port: Port = 7575,
    key_file: KeyFile = None,
    allow_host: AllowHost = None,
    show: Show = False,
    as_json: opt.Json = False,
) -> None:
    """Put a model behind HTTP, with a page to watch it."""
    opt.require_model(model)
    from remask.serve.service import build_service, check_extra, run_in_thread

    check_extra()  # before what imports the web framework
    from remask.serve.run import KEY_VARIABLE, bound, read_key
    from remask.serve.run import serve as run

    settings = ServeSettings(
        model=model.model,
        allowed_hosts=tuple(allow_host or ()),
        key=read_key(key_file, os.environ.get(KEY_VARIABLE)),
        **flags,
    )
    _check_scorer(settings)

    def say(url: str) -> None:
        name = model.model
        tell({"model": name, "url": url}, f"{name} is at {url} (Ctrl-C ends)", as_json)

    with bound(settings.host, port) as made:
        service = run_in_thread(lambda: build_service(load_model(model), settings))
        run(service, made, say, show)


def _check_scorer(settings: ServeSettings) -> None:
    """Refuse, before a model is loaded, a scorer that is none, and flags that are not its own."""
    judge = opt.JudgeSettings(
        scorer=settings.scorer, fitted=settings.fitted, max_forwards=settings.max_forwards
    )
    read_verifier_flags(judge)
    if settings.scorer == ROUNDTRIPS:
        return
    from remask import api
    from remask.extension import resolve

    if settings.metrics != ServeSettings.metrics:
        raise UsageError(f"--metrics belongs to round trips, not to --scorer {settings.scorer}")
    resolve("scorer", settings.scorer, api.SCORERS)
