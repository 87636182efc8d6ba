"""JSON error bodies, exception handlers, and error responses in the OpenAPI document."""

from __future__ import annotations

import http
import math
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from pagewarden import errors
from pagewarden.errors import Problem
from pagewarden.web.errors import MEANINGS, get_status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI, Request

RETRY_AFTER_SECONDS = 5

Answer = TypeVar("Answer", bound="Mapping[str, Any]")


class ErrorResponse(BaseModel):
    """Why a request failed; `problems` lists every reason where there are several."""

    error: str
    message: str
    hint: str | None = None
    problems: list[Problem] | None = None


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Document the error statuses of a route in OpenAPI."""
    return {
        status: {"model": ErrorResponse, "description": MEANINGS[status]} for status in statuses
    }


def require_success(answer: Answer) -> Answer:
    """Return the answer of an SQL function, or raise RequestRejected if it reports an error."""
    if answer["success"]:
        return answer
    raise errors.RequestRejected(answer["error"], answer.get("message") or answer["error"])


def install_handlers(app: FastAPI) -> None:
    """Respond to all errors with a Refusal."""
    app.add_exception_handler(errors.PagewardenError, _handle_error)
    app.add_exception_handler(RequestValidationError, _handle_invalid_request)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.add_exception_handler(ClientDisconnect, _handle_disconnect)


def _to_response(
    status: int, refusal: ErrorResponse, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    return JSONResponse(refusal.model_dump(exclude_none=True), status, headers=dict(headers or {}))


async def _handle_error(_request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, errors.PagewardenError)  # noqa: S101  # for the type checker
    status = get_status(exc)
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in {429, 503}:
        seconds = getattr(exc, "retry_after", None) or RETRY_AFTER_SECONDS
        headers["Retry-After"] = str(math.ceil(seconds))
    refusal = ErrorResponse(
        error=_error_code(exc),
        message=str(exc),
        hint=getattr(exc, "hint", None),
        problems=list(getattr(exc, "problems", ())) or None,
    )
    return _to_response(status, refusal, headers)


def _error_code(exc: errors.PagewardenError) -> str:
    """Return the code of an error: its own, or its class in capitals: NOT_SIGNED_IN."""
    if isinstance(exc, errors.RequestRejected):
        return exc.code
    name = type(exc).__name__
    return "".join(f"_{c}" if c.isupper() else c for c in name).lstrip("_").upper()


async def _handle_invalid_request(_request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, RequestValidationError)  # noqa: S101  # for the type checker
    return _to_response(400, ErrorResponse(error="INVALID_REQUEST", message=describe_invalid(exc)))


def describe_invalid(exc: RequestValidationError) -> str:
    """Return which parts of a request are invalid, and why."""
    return "; ".join(
        f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in exc.errors()
    )


async def _handle_http_exception(_request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, HTTPException)  # noqa: S101  # for the type checker
    code = http.HTTPStatus(exc.status_code).phrase.upper().replace(" ", "_")
    return _to_response(
        exc.status_code, ErrorResponse(error=code, message=str(exc.detail)), exc.headers
    )


async def _handle_disconnect(_request: Request, _exc: Exception) -> JSONResponse:
    message = "the client disconnected before sending the complete request"
    return _to_response(400, ErrorResponse(error="CLIENT_GONE", message=message))


def unexpected_error(request_id: str) -> JSONResponse:
    """Return the response to an unexpected error; the log has its cause."""
    message = f"internal error; see the log entry for request {request_id}"
    return _to_response(500, ErrorResponse(error="INTERNAL_ERROR", message=message))
