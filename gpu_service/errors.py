"""Error responses: an HTTP status and one line of JSON."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from pagewarden import errors
from pagewarden.ocr import gpu_protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.types import Receive, Scope, Send

# For errors without a delay of their own.
RETRY_AFTER_SECONDS = 5

# The first match counts, so subclasses come first.
_STATUS: tuple[tuple[type[errors.PagewardenError], int], ...] = (
    (errors.NotSignedIn, 401),
    (errors.FileTooLarge, 413),
    (errors.DocumentTooLarge, 413),
    (errors.FileNotFound, 404),
    (errors.ReadingTimedOut, 504),
    (errors.ReadingError, 422),
    (errors.EngineNotInstalled, 400),
    (errors.RateLimited, 429),
)
# The rest of the body is not needed: respond before it arrives, then close the connection.
_CLOSING_STATUSES = {401, 408, 413, 415}
LINGER_SECONDS = 30.0


class RequestRejected(Exception):
    """A request refused for a reason that `pagewarden.errors` has no class for.

    With `outage` the setup is at fault, not the document.
    """

    def __init__(self, status: int, code: str, message: str, *, outage: bool = False) -> None:
        super().__init__(message)
        self.status = status
        category = errors.Category.CONFIGURATION if outage else errors.Category.PERMANENT
        self.fault = gpu_protocol.ErrorPayload(code, message, category, outage)


class ServiceUnavailable(RequestRejected):
    """A request that the service cannot accept now; the handler adds Retry-After."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(503, code, message, outage=True)
        self.fault = dataclasses.replace(self.fault, category=errors.Category.TRANSIENT)


class LingeringResponse(Response):
    """Responds immediately, then closes the connection after the body has arrived or a timeout.

    Closing while the client is still sending would discard the response in transit.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, then wait for the end of the body."""
        del scope
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while (await receive()).get("more_body"):
                    pass
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def install_handlers(app: FastAPI) -> None:
    """Install handlers that respond to every error in the wire format.

    The handlers read `app.state.retry_after` (seconds, for `Unavailable`) and count in
    `app.state.refusals`.
    """
    app.add_exception_handler(RequestRejected, _handle_rejection)
    app.add_exception_handler(errors.PagewardenError, _handle_pagewarden_error)
    app.add_exception_handler(RequestValidationError, _handle_invalid_request)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.add_exception_handler(ClientDisconnect, _handle_disconnect)
    app.add_exception_handler(Exception, _handle_unexpected)


def format_validation_error(problems: Iterable[Mapping[str, Any]]) -> str:
    """Join the problems that pydantic found in one message."""
    return "; ".join(
        f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems
    )


def _respond(request: Request, status: int, fault: gpu_protocol.ErrorPayload) -> Response:
    request.app.state.refusals.labels(fault.code).inc()
    headers = {}
    if status in {429, 503}:
        headers["Retry-After"] = str(math.ceil(fault.retry_after or RETRY_AFTER_SECONDS))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    response_class = LingeringResponse if status in _CLOSING_STATUSES else Response
    if response_class is LingeringResponse:
        headers["Connection"] = "close"
    body = gpu_protocol.pack(gpu_protocol.ResponseLine(error=fault))
    return response_class(body, status, headers, media_type="application/json")


async def _handle_rejection(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestRejected)  # noqa: S101  # for the type checker
    fault = exc.fault
    if isinstance(exc, ServiceUnavailable):
        fault = dataclasses.replace(fault, retry_after=request.app.state.retry_after)
    return _respond(request, exc.status, fault)


async def _handle_pagewarden_error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, errors.PagewardenError)  # noqa: S101  # for the type checker
    status = next((code for kind, code in _STATUS if isinstance(exc, kind)), None)
    return _respond(request, status or (503 if exc.outage else 500), gpu_protocol.to_fault(exc))


async def _handle_invalid_request(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)  # noqa: S101  # for the type checker
    message = format_validation_error(exc.errors())
    fault = gpu_protocol.ErrorPayload("InvalidRequest", message, errors.Category.PERMANENT)
    return _respond(request, 400, fault)


async def _handle_http_exception(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)  # noqa: S101  # for the type checker
    detail = str(exc.detail)
    fault = gpu_protocol.ErrorPayload(
        detail.title().replace(" ", ""), detail, errors.Category.PERMANENT
    )
    return _respond(request, exc.status_code, fault)


async def _handle_disconnect(request: Request, _exc: Exception) -> Response:
    message = "the client disconnected before sending the whole document"
    fault = gpu_protocol.ErrorPayload("ClientGone", message, errors.Category.TRANSIENT)
    return _respond(request, 400, fault)


async def _handle_unexpected(request: Request, exc: Exception) -> Response:
    return _respond(request, 500, gpu_protocol.to_fault(exc))
