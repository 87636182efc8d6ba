"""One kind of route for all of them: bodies are bounded, refusals have the shape clients know."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response, exceptions, routing
from starlette.exceptions import HTTPException

from pagewarden import errors
from pagewarden.local.sign_in import answers

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.types import Message, Receive

MAX_BODY_BYTES = 16_384
BODY_SECONDS = 10.0
_RETRY_SECONDS = 5

_CODES = {408: "request_timeout", 400: "bad_json"}


class Route(routing.APIRoute):
    """A route that answers as Supabase Auth does, whatever goes wrong."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the usual handler."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                response = await handle(Request(request.scope, _bounded(request.receive)))
            except (
                errors.PagewardenError,
                HTTPException,
                exceptions.RequestValidationError,
            ) as exc:
                response = answers.refuse(_refusal(exc))
            response.headers.setdefault("Cache-Control", "no-store")
            return response

        return answer


def _bounded(receive: Receive) -> Receive:
    """Read no more than a sign-in needs, and wait no longer than that takes."""
    deadline = asyncio.get_running_loop().time() + BODY_SECONDS
    left = MAX_BODY_BYTES

    async def bounded() -> Message:
        nonlocal left
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError as exc:
            raise HTTPException(408, "the request took too long to arrive") from exc
        left -= len(message.get("body", b""))
        if left < 0:
            raise HTTPException(413, f"a request has at most {MAX_BODY_BYTES} bytes")
        return message

    return bounded


def _refusal(exc: Exception) -> errors.SignInRefused:
    match exc:
        case errors.SignInRefused():
            return exc
        case exceptions.RequestValidationError():
            # Not all of it: the rest of the error quotes the request, and so the password.
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors())
            return errors.SignInRefused(wrong, status=400, code="validation_failed")
        case HTTPException():
            code = _CODES.get(exc.status_code, "validation_failed")
            return errors.SignInRefused(str(exc.detail), status=exc.status_code, code=code)
        case errors.InvalidCall() if (exc.sqlstate or "").startswith("22"):
            return errors.SignInRefused(str(exc), status=400, code="validation_failed")
        case errors.PagewardenError() if exc.retryable:
            return errors.SignInRefused(
                "signing in is not possible at the moment; try again soon",
                status=503,
                code="unexpected_failure",
                retry_after=_RETRY_SECONDS,
            )
    raise exc
