"""Runs the app on a socket until it is stopped."""

import asyncio
import errno
import logging
import math
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import uvicorn

from remask.errors import InputError
from remask.records.text_file import read_text
from remask.serve.app import build_app
from remask.serve.protocol import protocol
from remask.serve.service import Service, time_model

KEY_VARIABLE = "REMASK_API_KEY"
log = logging.getLogger("remask.serve")
_BACKLOG = 2048
_TICK = 0.05  # seconds between two checks during the shutdown


def read_key(file: Path | None, variable: str | None) -> str | None:
    """Return the key in a file, else the value of the environment variable, else None."""
    if file is None:
        return variable or None
    key = read_text(file, InputError).strip()
    if not key:
        raise InputError(f"{file} holds no key.")
    return key


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens at this address, or raise."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(_BACKLOG)  # clients wait until the server has started
    except OSError as error:
        made.close()
        raise InputError(_refused(host, port, error)) from None
    return made


def _refused(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is taken; choose another with --port, 0 for a free one."
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights than you have; choose one above 1023 with --port."
    return f"cannot listen at {host}, port {port} ({error.strerror}); choose another with --host."


def url_of(host: str, made: socket.socket) -> str:
    """Return the address of the page."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{made.getsockname()[1]}"


def server(service: Service) -> uvicorn.Server:
    """Return the server, not yet running."""
    settings = service.settings

    class Server(uvicorn.Server):
        """Server that drains the batcher on shutdown and answers meanwhile: `/ready` with 503."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Drain at the first signal and end the requests at the second.

            Unlike uvicorn's, it does not raise the signals again after the shutdown.
            """
            self.force_exit = self.should_exit
            self.should_exit = True

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            num_jobs = service.batcher.num_jobs
            log.info("shutting down; %d requests run or wait, a second signal ends them", num_jobs)
            closing = threading.Thread(
                target=service.batcher.close, args=(settings.drain_seconds,), daemon=True
            )
            closing.start()
            while closing.is_alive() and not self.force_exit:
                await asyncio.sleep(_TICK)
            service.batcher.stop()
            self.force_exit = False  # the ended requests are answered, unless there is a third one
            await super().shutdown(sockets)

    config = uvicorn.Config(
        build_app(service),
        http=protocol(settings.head_seconds),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=math.ceil(settings.last_seconds),
    )
    return Server(config)


def serve(service: Service, made: socket.socket, say: Callable[[str], None], show: bool) -> None:
    """Time the model, call `say` with the address, and serve until interrupted; then drain."""
    time_model(service)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("remask.serve").setLevel(logging.INFO)
    url = url_of(service.settings.host, made)
    say(url)
    if show:
        threading.Timer(0.5, webbrowser.open, [url]).start()
    server(service).run(sockets=[made])
    service.batcher.join(service.settings.last_seconds)  # the model must not run at exit
