"""What callers are told when something is not done: one shape, that of a line with an error."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from pagewarden import errors
from pagewarden.gpu import protocol

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

RETRY_AFTER_SECONDS = 5

# The first that fits counts, so the special ones come first.
_STATUS: tuple[tuple[type[errors.PagewardenError], int], ...] = (
    (errors.NotSignedIn, 401),
    (errors.FileTooLarge, 413),
    (errors.TooLarge, 413),
    (errors.FileNotThere, 404),
    (errors.ReadingTimedOut, 504),
    (errors.ReadingError, 422),
    (errors.EngineMissing, 400),
    (errors.RateLimited, 429),
)
# What is left of the body is of no use, and need not be waited for.
_HANG_UP = {401, 408, 413, 415}
LINGER_SECONDS = 30.0


class Refused(Exception):
    """Ends a request that is none of our errors' business; ours: no document can help it."""

    def __init__(self, status: int, code: str, message: str, *, ours: bool = False) -> None:
        super().__init__(message)
        self.status = status
        category = errors.Category.CONFIGURATION if ours else errors.Category.PERMANENT
        self.fault = protocol.Fault(code, message, category, ours)


class Unavailable(Refused):
    """Ends a request that may be sent again soon; the handler says when."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(503, code, message, ours=True)
        self.fault = dataclasses.replace(self.fault, category=errors.Category.TRANSIENT)


class Parting(Response):
    """Says its word at once, and hangs up when the body has come, or goes on for too long.

    Hanging up while somebody is sending would destroy the answer on its way.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send, and wait."""
        del scope
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while (await receive()).get("more_body"):
                    pass
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def install(app: FastAPI) -> None:
    """Have every error answered in the one shape.

    app.state has retry_after, for those who come too early, and refusals, which counts.
    """
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(errors.PagewardenError, _failed)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unforeseen)


def _answer(request: Request, status: int, fault: protocol.Fault) -> Response:
    request.app.state.refusals.labels(fault.code).inc()
    headers = {}
    if status in {429, 503}:
        headers["Retry-After"] = str(math.ceil(fault.retry_after or RETRY_AFTER_SECONDS))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    kind = Parting if status in _HANG_UP else Response
    if kind is Parting:
        headers["Connection"] = "close"
    body = protocol.pack(protocol.Line(error=fault))
    return kind(body, status, headers, media_type="application/json")


async def _refused(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, Refused)  # noqa: S101  # for the type checker
    fault = exc.fault
    if isinstance(exc, Unavailable):
        fault = dataclasses.replace(fault, retry_after=request.app.state.retry_after)
    return _answer(request, exc.status, fault)


async def _failed(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, errors.PagewardenError)  # noqa: S101  # for the type checker
    status = next((code for kind, code in _STATUS if isinstance(exc, kind)), None)
    return _answer(request, status or (503 if exc.outage else 500), protocol.fault_of(exc))


async def _malformed(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)  # noqa: S101  # for the type checker
    problems = "; ".join(
        f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in exc.errors()
    )
    fault = protocol.Fault("InvalidRequest", problems, errors.Category.PERMANENT)
    return _answer(request, 400, fault)


async def _http(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)  # noqa: S101  # for the type checker
    words = str(exc.detail)
    fault = protocol.Fault(words.title().replace(" ", ""), words, errors.Category.PERMANENT)
    return _answer(request, exc.status_code, fault)


async def _gone(request: Request, _exc: Exception) -> Response:
    message = "the client left before it had sent everything"
    fault = protocol.Fault("ClientGone", message, errors.Category.TRANSIENT)
    return _answer(request, 400, fault)


async def _unforeseen(request: Request, exc: Exception) -> Response:
    return _answer(request, 500, protocol.fault_of(exc))
