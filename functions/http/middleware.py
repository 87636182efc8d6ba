"""Security headers, request ids, the access log and request metrics."""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from typing import TYPE_CHECKING

import structlog
from fastapi import Request
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, MutableHeaders

from pagewarden.functions.http import errors
from pagewarden.telemetry import metrics

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = structlog.get_logger(__name__)

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",  # plain text stays plain text
    "Referrer-Policy": "no-referrer",  # signed URLs must not leak
}


class SecurityHeadersMiddleware:
    """Adds security headers to responses that do not set them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


REQUEST_ID_HEADER = "X-Request-Id"
UNMATCHED = "unmatched"

_WELL_FORMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Frequent and uninteresting requests, logged at level debug.
_DEBUG_ROUTES = ("/healthz", "/readyz", "/metrics", "/static/")
UNITS = ("document", "job", "volume")
"""Log fields for what a request is about."""
_VOLUME_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,400}")
# No response was sent: the client disconnected.
_NO_STATUS = 0


class RequestLogMiddleware:
    """Logs and counts every request; logs unexpected errors and hides them from the client."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app under a request id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        with structlog.contextvars.bound_contextvars(request=request_id):
            try:
                await self._run(_RequestRecord(scope, send, request_id), receive)
            finally:
                structlog.contextvars.unbind_contextvars("user", *UNITS)

    async def _run(self, exchange: _RequestRecord, receive: Receive) -> None:
        try:
            await self._app(exchange.scope, receive, exchange.send)
        except Exception as exc:
            log.exception("request_failed", error=type(exc).__name__)
            if exchange.status != _NO_STATUS:
                raise  # a truncated response must not look complete
            await errors.unexpected_error(exchange.request_id)(
                exchange.scope, receive, exchange.send
            )
        finally:
            exchange.record()


class _RequestRecord:
    """A request and the response sent so far."""

    def __init__(self, scope: Scope, send: Send, request_id: str) -> None:
        self.scope = scope
        self.request_id = request_id
        self.status = _NO_STATUS
        self._send = send
        self._started = time.monotonic()

    async def send(self, message: Message) -> None:
        """Send a part of the response, with the request id in its headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message)[REQUEST_ID_HEADER] = self.request_id
        await self._send(message)

    def record(self) -> None:
        """Update the metrics, and write a line to the access log."""
        seconds = time.monotonic() - self._started
        method = self.scope["method"]
        route = find_route(self.scope)
        labels = (method if method in _METHODS else "other", route)
        process_metrics = metrics.current()
        process_metrics.requests.labels(*labels, str(self.status)).inc()
        process_metrics.request_seconds.labels(*labels).observe(seconds)
        # Not the path: it may contain file names, and the query signatures.
        fields = {
            "method": labels[0],
            "route": route,
            "status": self.status,
            "seconds": round(seconds, 4),
            **find_units(self.scope),
        }
        write = log.debug if route.startswith(_DEBUG_ROUTES) else log.info
        if self.status >= 500:
            write = log.warning
        write("request", **fields)


def _request_id(scope: Scope) -> str:
    """Return the client's request id if it is well-formed, so that its logs match; or a new one."""
    client_id = Headers(scope=scope).get(REQUEST_ID_HEADER, "")
    return client_id if _WELL_FORMED.fullmatch(client_id) else uuid.uuid4().hex


def _parse_uuid(text: str) -> str:
    return str(uuid.UUID(text))


def _parse_name(text: str) -> str:
    if not _VOLUME_NAME.fullmatch(text):
        raise ValueError(text)
    return text


_UNIT_PARAMS = {
    "document_id": ("document", _parse_uuid),
    "job_id": ("job", _parse_uuid),
    "job_key": ("job", _parse_name),
    "volume": ("volume", _parse_name),
}


async def bind_units(request: Request) -> None:
    """Add the document, job and volume in the path to all log lines of a request."""
    structlog.contextvars.bind_contextvars(**find_units(request.scope))


def find_units(scope: Scope) -> dict[str, str]:
    """Return the document, job and volume in a path, as log fields; other text is not logged."""
    found = {}
    for name, value in scope.get("path_params", {}).items():
        if name in _UNIT_PARAMS:
            field, parse = _UNIT_PARAMS[name]
            with contextlib.suppress(ValueError):
                found[field] = parse(str(value))
    return found


def find_route(scope: Scope) -> str:
    """Return the route template of a request, which keeps the number of metric labels bounded."""
    route, path = scope.get("route"), scope["path"]
    if not isinstance(route, APIRoute):
        return UNMATCHED
    # A route does not know the prefix of the router that includes it.
    for slash in re.finditer("/", path):
        if route.path_regex.match(path[slash.start() :]):
            return f"{path[: slash.start()]}{route.path}"
    return route.path
