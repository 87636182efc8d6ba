"""What callers are told when something is not done: one shape, one status for each kind."""

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

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi import FastAPI, Request

RETRY_AFTER_SECONDS = 5

Answer = TypeVar("Answer", bound="Mapping[str, Any]")

# The first that fits counts, so the special ones come first.
_STATUS: tuple[tuple[type[errors.PagewardenError], int], ...] = (
    (errors.NotSignedIn, 401),
    (errors.Forbidden, 403),
    (errors.InvalidCall, 400),
    (errors.Conflict, 409),
    (errors.LockLost, 409),
    (errors.FileTooLarge, 413),
    (errors.TooLarge, 413),
    (errors.FileNotThere, 404),
    (errors.UnsafePath, 400),
    (errors.UnreadableFile, 422),
    (errors.RateLimited, 429),
    (errors.StoreFull, 507),
    (errors.FileAccessDenied, 503),
)
_REFUSALS = {
    "DOCUMENT_NOT_FOUND": 404,
    "CASE_NOT_FOUND": 404,
    "JOB_NOT_FOUND": 404,
    "WRONG_STATE": 409,
    "LOCK_LOST": 409,
}


class Problem(BaseModel):
    """One thing that is wrong, and with which part of what was sent."""

    problem: str
    image: str | None = None


class Refusal(BaseModel):
    """Why something was not done; problems says it of each thing, where there are several."""

    error: str
    message: str
    hint: str | None = None
    problems: list[Problem] | None = None


class RefusedError(Exception):
    """Ends a request with a Refusal."""

    def __init__(
        self,
        status: int,
        error: str,
        message: str,
        headers: Mapping[str, str] | None = None,
        *,
        problems: Sequence[Problem] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error = error
        self.headers = headers
        self.problems = problems


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Say in the OpenAPI document with which statuses a route may refuse."""
    return {status: {"model": Refusal} for status in statuses}


def require_success(answer: Answer) -> Answer:
    """Pass on the answer of an SQL function, or refuse as it did."""
    if answer["success"]:
        return answer
    error = answer["error"]
    raise RefusedError(_REFUSALS.get(error, 409), error, answer.get("message") or error)


def install(app: FastAPI) -> None:
    """Have every error answered in the one shape."""
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(errors.PagewardenError, _failed)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _gone)


def _answer(
    status: int, refusal: Refusal, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    return JSONResponse(refusal.model_dump(exclude_none=True), status, headers=dict(headers or {}))


async def _refused(_request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, RefusedError)  # noqa: S101  # for the type checker
    refusal = Refusal(error=exc.error, message=str(exc), problems=list(exc.problems) or None)
    return _answer(exc.status, refusal, exc.headers)


async def _failed(_request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, errors.PagewardenError)  # noqa: S101  # for the type checker
    status = status_of(exc)
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in {429, 503}:
        seconds = getattr(exc, "retry_after", None) or RETRY_AFTER_SECONDS
        headers["Retry-After"] = str(math.ceil(seconds))
    refusal = Refusal(error=_code(exc), message=str(exc), hint=getattr(exc, "hint", None))
    return _answer(status, refusal, headers)


def status_of(exc: errors.PagewardenError) -> int:
    """Give the status of an answer that tells of this error."""
    found = next((code for kind, code in _STATUS if isinstance(exc, kind)), None)
    return found or (503 if exc.outage else 500)


def _code(exc: errors.PagewardenError) -> str:
    """Write a class as codes are written: NotSignedIn becomes NOT_SIGNED_IN."""
    name = type(exc).__name__
    return "".join(f"_{c}" if c.isupper() else c for c in name).lstrip("_").upper()


async def _malformed(_request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, RequestValidationError)  # noqa: S101  # for the type checker
    return _answer(400, Refusal(error="INVALID_REQUEST", message=problems(exc)))


def problems(exc: RequestValidationError) -> str:
    """Say what in a request makes no sense."""
    return "; ".join(
        f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in exc.errors()
    )


async def _http(_request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, HTTPException)  # noqa: S101  # for the type checker
    error = http.HTTPStatus(exc.status_code).phrase.upper().replace(" ", "_")
    refusal = Refusal(error=error, message=str(exc.detail))
    return _answer(exc.status_code, refusal, exc.headers)


def unexpected(request_id: str) -> JSONResponse:
    """Answer when nobody knows what went wrong; the log does, under the id of the request."""
    message = f"something went wrong that should not; the log has it as request {request_id}"
    return _answer(500, Refusal(error="INTERNAL_ERROR", message=message))


async def _gone(_request: Request, _exc: Exception) -> JSONResponse:
    message = "the client left before it had sent everything"
    return _answer(400, Refusal(error="CLIENT_GONE", message=message))
