"""What every request must pass: its host, its origin, its key, the size of its body.

Outermost of all, so that nothing gets around it: also given here are the request's id, the headers
that keep browsers careful, the line in the log, and the last word on errors. What passes has a body
that has arrived whole; then `receive` waits for the client to leave.
"""

import asyncio
import base64
import binascii
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from remask.serve.errors import Fault, defect, fault_of
from remask.serve.request import Left
from remask.serve.responses import new_id
from remask.serve.service import Service

log = logging.getLogger("remask.serve")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

OPEN_ROUTES = ("/health",)
# A body that is too large is heard to its end, up to so many times the limit, and thrown away:
# whoever is answered while still sending may see no answer but a broken connection.
_PATIENCE = 8
# The page is made of files of ours alone, and talks to nobody else.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Gate:
    """The app behind its checks."""

    def __init__(self, app: App, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        visit = _Visit(self.service, scope, send)
        try:
            headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
            self._check(scope["path"], headers)
            body = await _read(headers, receive, self.service)
            await self.app(scope, _after(body, receive), visit.send)
        except Left:
            visit.status = visit.status or 499  # nobody hears it; the log does
        except Exception as error:
            await visit.fail(error)
        visit.note()

    def _check(self, path: str, headers: dict[str, str]) -> None:
        """Refuse who may not ask."""
        settings = self.service.settings
        host = headers.get("host", "")
        if settings.hosts is not None and _name(host) not in settings.hosts:
            raise Fault(
                403, f"host {host!r} is not a name of this server; use {settings.host}, or start "
                "it with --allow-host.", code="wrong_host",
            )  # fmt: skip
        origin = headers.get("origin")
        if origin is not None and _place(origin) != host.lower():
            raise Fault(
                403, "pages from elsewhere may not use this server; open its own.",
                code="wrong_origin",
            )  # fmt: skip
        if settings.key is None or path in OPEN_ROUTES:
            return
        if not _same(_given_key(headers.get("authorization", "")), settings.key):
            challenge = 'Basic realm="remask"' if path == "/" else "Bearer"
            raise Fault(
                401, "the key is missing or wrong; send it as Authorization: Bearer KEY.",
                code="invalid_api_key", headers={"WWW-Authenticate": challenge},
            )  # fmt: skip


class _Visit:
    """One request on its way through, and what is noted of it."""

    def __init__(self, service: Service, scope: MutableMapping[str, Any], send: Send) -> None:
        self.service, self.scope, self._send = service, scope, send
        self.id = new_id("req")
        self.status = 0
        self.began = time.perf_counter()
        scope.setdefault("state", {})["request_id"] = self.id

    async def send(self, message: Message) -> None:
        """Pass on what the app says, with our headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            told = {k.decode("latin-1").lower() for k, _ in message["headers"]}
            ours = {"x-request-id": self.id, **HEADERS}
            new = [(k.encode(), v.encode()) for k, v in ours.items() if k not in told]
            message = {**message, "headers": [*message["headers"], *new]}
        await self._send(message)

    async def fail(self, error: Exception) -> None:
        """Answer with an error; a defect of ours goes to the log whole."""
        fault = fault_of(error)
        if fault is None:
            log.error("%s failed", self.id, exc_info=error)
            fault = defect()
        if self.status:
            return  # too late to say so
        body = json.dumps(fault.document(self.id)).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        listed = [(k.encode(), v.encode()) for k, v in {**headers, **fault.headers}.items()]
        await self.send({"type": "http.response.start", "status": fault.status, "headers": listed})
        await self.send({"type": "http.response.body", "body": body})

    def note(self) -> None:
        """Write the line in the log, and count."""
        seconds = time.perf_counter() - self.began
        route = getattr(self.scope.get("route"), "path", None) or "other"
        self.service.meters.answered(route, self.status, seconds)
        # Escaped: a path may hold what a terminal would obey.
        path = ascii(self.scope["path"])[1:-1]
        log.info(
            "%s %s %s %d %.0f ms", self.id, self.scope["method"], path, self.status, seconds * 1000
        )


async def _read(headers: dict[str, str], receive: Receive, service: Service) -> bytes:
    """Return the body, or raise where it is too large, or too slow."""
    settings = service.settings
    patience = _PATIENCE * settings.body_bytes
    declared = headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > patience:
        raise _too_large(settings.body_bytes)
    parts: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(settings.body_seconds):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Left
                part, more = message.get("body", b""), message.get("more_body", False)
                size += len(part)
                if size <= settings.body_bytes:
                    parts.append(part)
                elif size > patience:
                    raise _too_large(settings.body_bytes)
    except TimeoutError:
        raise Fault(
            408, f"the body did not arrive within {settings.body_seconds:g} s; send it again.",
            code="timeout",
        ) from None  # fmt: skip
    if size > settings.body_bytes:
        raise _too_large(settings.body_bytes)
    return b"".join(parts)


def _after(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that hands out the body once, and then what comes."""
    read = False

    async def again() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _too_large(limit: int) -> Fault:
    return Fault(
        413, f"the body is larger than {limit} bytes; send less.", code="body_too_large",
    )  # fmt: skip


def _place(origin: str) -> str:
    """Return the host and port of an Origin header."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _given_key(authorization: str) -> str:
    """Return the key of a Bearer token, or of the password that a browser asks for."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""


def _same(given: str, key: str) -> bool:
    """Compare without telling by the time it takes how much was right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), key.encode())
