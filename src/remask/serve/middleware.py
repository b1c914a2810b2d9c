"""The outermost layer: checks host, origin, key and body size of every request.

It also sets the request id and the security headers, answers errors, and writes the log. It reads
the whole body before the app sees the request; `receive` then waits for the client to disconnect.

Starlette's own host check answers in plain text and ignores `Origin`.
"""

import asyncio
import base64
import binascii
import hmac
import json
import logging
import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from remask.serve.errors import ApiError, api_error
from remask.serve.request import ClientLeft
from remask.serve.responses import new_id
from remask.serve.service import Service
from remask.serve.settings import ServeSettings

log = logging.getLogger("remask.serve")

OPEN_ROUTES = ("/health",)
# A body beyond the limit is read to its end, up to this many times the limit, and dropped: a client
# that is answered while it sends may see a broken connection instead of the answer.
_PATIENCE = 8
# The page uses only the server's own files and routes.
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
    "cross-origin-resource-policy": "same-origin",  # hides the server from other sites
}


class Middleware:
    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service
        self.hosts = service.settings.hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        call = _Call(self.service, scope, receive, send)
        try:
            headers = Headers(scope=scope)
            self._check(scope["path"], headers)
            body = await _read(headers, receive, self.service.settings)
            call.scope["state"]["began"] = self.service.batcher.clock()
            await self.app(call.scope, _replay(body, receive), call.send)
        except ClientLeft:
            call.status = call.status or 499  # client closed the request; only logged
        except asyncio.CancelledError:  # by the server that stops
            await call.fail(ApiError(503, "The server is shutting down.", code="going_down"))
        except Exception as error:
            await call.fail(error)
        call.log()

    def _check(self, path: str, headers: Headers) -> None:
        """Raise for a wrong host, origin or key."""
        settings, host = self.service.settings, headers.get("host", "")
        if self.hosts is not None and _host_name(host) not in self.hosts:
            message = f"Host must be {settings.host} or a name set by --allow-host, got {host!r}."
            raise ApiError(403, message, param="Host", code="wrong_host")
        origin = headers.get("origin")
        if origin is not None and _origin_host(origin) != host.lower():
            message = "Pages of other sites may not use this server."
            raise ApiError(403, message, param="Origin", code="wrong_origin")
        if settings.key is None or path in OPEN_ROUTES:
            return
        if not _equal(_given_key(headers.get("authorization", "")), settings.key):
            challenge = 'Basic realm="remask"' if path == "/" else "Bearer"
            raise ApiError(
                401,
                "The key is missing or wrong; send it as Authorization: Bearer KEY.",
                param="Authorization",
                code="invalid_api_key",
                headers={"WWW-Authenticate": challenge},
            )


class _Call:
    """One request on its way through the app."""

    def __init__(self, service: Service, scope: Scope, receive: Receive, send: Send) -> None:
        self.service, self.receive, self._send = service, receive, send
        self.method = scope["method"]
        # A HEAD is answered like a GET, without the body.
        self.scope = {**scope, "method": "GET"} if self.method == "HEAD" else scope
        self.id = new_id("req")
        self.status = 0
        self.began = time.perf_counter()
        self.scope.setdefault("state", {})["request_id"] = self.id

    async def send(self, message: Message) -> None:
        """Send a message of the app, with the headers of every response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in {"x-request-id": self.id, **HEADERS}.items():
                headers.setdefault(name, value)
        elif self.method == "HEAD":
            message = {**message, "body": b""}
        await self._send(message)

    async def fail(self, error: Exception) -> None:
        """Answer with an error, unless the response has begun."""
        failure = api_error(error, self.id)
        if self.status:
            return
        body = json.dumps(failure.response(self.id).model_dump())  # ASCII
        response = Response(body, failure.status, failure.headers, "application/json")
        await response(self.scope, self.receive, self.send)

    def log(self) -> None:
        seconds = time.perf_counter() - self.began
        route = getattr(self.scope.get("route"), "path", None) or "other"
        self.service.metrics.count_request(route, self.status, seconds)
        # Escaped: a path may hold control characters.
        path = ascii(self.scope["path"])[1:-1]
        log.info("%s %s %s %d %.0f ms", self.id, self.method, path, self.status, seconds * 1000)


async def _read(headers: Headers, receive: Receive, settings: ServeSettings) -> bytes:
    """Return the body, or raise if it is too large or too slow."""
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
                    raise ClientLeft
                part, more = message.get("body", b""), message.get("more_body", False)
                size += len(part)
                if size <= settings.body_bytes:
                    parts.append(part)
                elif size > patience:
                    raise _too_large(settings.body_bytes)
    except TimeoutError:
        cause = f"The body did not arrive within {settings.body_seconds:g} s."
        raise ApiError(408, cause, param="body", code="timeout") from None
    if size > settings.body_bytes:
        raise _too_large(settings.body_bytes)
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that returns the body once, and then the client's messages."""
    read = False

    async def again() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _too_large(limit: int) -> ApiError:
    message = f"The body must have at most {limit} bytes."
    return ApiError(413, message, param="body", code="body_too_large")


def _origin_host(origin: str) -> str:
    """Return the host and port of an Origin header."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _host_name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _given_key(authorization: str) -> str:
    """Return the key of a Bearer token, or the password of Basic authentication."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""


def _equal(given: str, key: str) -> bool:
    """Compare two keys in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), key.encode())
