"""Every request is counted, timed and told of in one line, under an id that its caller gets too."""

from __future__ import annotations

import re
import time
import uuid
from typing import TYPE_CHECKING

import structlog
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, MutableHeaders

from functions import answers
from pagewarden.telemetry import metrics

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = structlog.get_logger(__name__)

HEADER = "X-Request-Id"
UNMATCHED = "unmatched"

_WELL_FORMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Asked for again and again, and by nobody who wants to be told of it.
_QUIET = ("/healthz", "/readyz", "/metrics", "/static/")
# Nothing was answered: the caller left.
_NO_STATUS = 0


class Observed:
    """Wraps an app. What it did not expect is logged, and answered without a word of why."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the app answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _id_of(scope)
        with structlog.contextvars.bound_contextvars(request=request_id):
            try:
                await self._answer(_Exchange(scope, send, request_id), receive)
            finally:
                structlog.contextvars.unbind_contextvars("user", "document")

    async def _answer(self, exchange: _Exchange, receive: Receive) -> None:
        try:
            await self._app(exchange.scope, receive, exchange.send)
        except Exception as exc:
            log.exception("request_failed", error=type(exc).__name__)
            if exchange.status != _NO_STATUS:
                raise  # half of an answer must not look like a whole one
            await answers.unexpected(exchange.request_id)(exchange.scope, receive, exchange.send)
        finally:
            exchange.tell()


class _Exchange:
    """A request, and its answer as far as it has come."""

    def __init__(self, scope: Scope, send: Send, request_id: str) -> None:
        self.scope = scope
        self.request_id = request_id
        self.status = _NO_STATUS
        self._send = send
        self._began = time.monotonic()

    async def send(self, message: Message) -> None:
        """Pass the answer on, with the id of the request."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message)[HEADER] = self.request_id
        await self._send(message)

    def tell(self) -> None:
        """Count it, and write the line."""
        seconds = time.monotonic() - self._began
        method = self.scope["method"]
        route = route_of(self.scope)
        labels = (method if method in _METHODS else "other", route)
        counted = metrics.current()
        counted.requests.labels(*labels, str(self.status)).inc()
        counted.request_seconds.labels(*labels).observe(seconds)
        # The path is not written: it may name files, and the query may have signatures.
        about = {
            "method": labels[0],
            "route": route,
            "status": self.status,
            "seconds": round(seconds, 4),
            "document": _document_of(self.scope),
        }
        write = log.debug if route.startswith(_QUIET) else log.info
        if self.status >= 500:
            write = log.warning
        write("request", **{key: value for key, value in about.items() if value is not None})


def _id_of(scope: Scope) -> str:
    """Take the caller's id over if it is one, so that both sides speak of the same thing."""
    given = Headers(scope=scope).get(HEADER, "")
    return given if _WELL_FORMED.fullmatch(given) else uuid.uuid4().hex


def _document_of(scope: Scope) -> str | None:
    """Tell which document a path names; what is none could be anything, line ends included."""
    try:
        return str(uuid.UUID(scope.get("path_params", {}).get("document_id", "")))
    except ValueError:
        return None


def route_of(scope: Scope) -> str:
    """Name the route of a request as it was declared: there are only so many of them."""
    route, path = scope.get("route"), scope["path"]
    if not isinstance(route, APIRoute):
        return UNMATCHED
    # A route does not know below which prefix it was included.
    for found in re.finditer("/", path):
        if route.path_regex.match(path[found.start() :]):
            return f"{path[: found.start()]}{route.path}"
    return route.path
