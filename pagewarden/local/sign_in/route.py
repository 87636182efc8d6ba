"""One kind of route for all of them: bodies are bounded, refusals have the shape clients know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import Request, Response, exceptions
from starlette.exceptions import HTTPException

from pagewarden import errors, small_bodies
from pagewarden.local.sign_in import answers

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_RETRY_SECONDS = 5

_CODES = {408: "request_timeout", 400: "bad_json"}


class Route(small_bodies.Route):
    """A route that answers as Supabase Auth does, whatever goes wrong."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the usual handler."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                response = await handle(request)
            except (
                errors.PagewardenError,
                HTTPException,
                exceptions.RequestValidationError,
            ) as exc:
                response = answers.refuse(_refusal(exc))
            response.headers.setdefault("Cache-Control", "no-store")
            return response

        return answer


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
