"""The app on a socket, until it is stopped."""

import asyncio
import errno
import logging
import math
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn

from remask.errors import InputError
from remask.records.text_file import read_text
from remask.serve.app import build_app
from remask.serve.protocol import protocol
from remask.serve.service import Service

KEY_VARIABLE = "REMASK_API_KEY"
_BACKLOG = 2048
_TICK = 0.05  # seconds between two looks at a server that goes down


def read_key(file: Path | None, variable: str | None) -> str | None:
    """Return the key of a file, else that of the environment variable; None where there is none."""
    if file is None:
        return variable or None
    key = read_text(file, InputError).strip()
    if not key:
        raise InputError(f"{file} holds no key; write one into it.")
    return key


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens at this address, or raise where it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(_BACKLOG)  # clients that call before the server is up wait
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
    """Return where a browser finds the page."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{made.getsockname()[1]}"


def server(service: Service) -> uvicorn.Server:
    """Return the server, not yet running."""
    settings = service.settings

    class Server(uvicorn.Server):
        """One that closes the batcher first, and answers meanwhile: `/ready` with 503."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            closing = threading.Thread(
                target=service.batcher.close, args=(settings.drain_seconds,), daemon=True
            )
            closing.start()
            while closing.is_alive() and not self.force_exit:  # a second Ctrl-C waits for nothing
                await asyncio.sleep(_TICK)
            await super().shutdown(sockets)

    config = uvicorn.Config(
        build_app(service), http=protocol(settings.head_seconds), ws="none", log_config=None,
        access_log=False, server_header=False,
        timeout_graceful_shutdown=math.ceil(settings.last_seconds),
    )  # fmt: skip
    return Server(config)


def serve(service: Service, made: socket.socket, say: Callable[[str], None], show: bool) -> None:
    """Call `say` with the address and serve until interrupted; then finish what runs."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("remask.serve").setLevel(logging.INFO)
    url = url_of(service.settings.host, made)
    say(url)
    if show:
        threading.Timer(0.5, webbrowser.open, [url]).start()
    with suppress(KeyboardInterrupt):
        server(service).run(sockets=[made])
