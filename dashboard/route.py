"""One kind of route for all pages: nothing foreign runs in them, and refusals are pages too."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlencode, urlsplit

from fastapi import Request, Response, routing
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException

from dashboard import parts, rendering, visitors
from pagewarden import errors, small_bodies

SIGN_IN = "/sign-in"
_RETRY_SECONDS = 5

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with that, browsers send no origin with our own forms.
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


_Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Route(small_bodies.Route):
    """A route of the dashboard; notes of 2,000 signs fit in any script."""

    max_bytes = 65_536

    def get_route_handler(self) -> _Handler:
        """Wrap the usual handler."""
        return _wrapped(super().get_route_handler())


class Writing(Route):
    """A route that takes what people wrote: a million signs of any script, as forms encode them."""

    max_bytes = 16_000_000
    seconds = 120.0  # over a phone


class Taking(routing.APIRoute):
    """A route that takes in files: its body may be large."""

    def get_route_handler(self) -> _Handler:
        """Wrap the usual handler."""
        return _wrapped(super().get_route_handler())


def _wrapped(handle: _Handler) -> _Handler:
    async def answer(request: Request) -> Response:
        try:
            response = await handle(request)
        except (errors.PagewardenError, HTTPException, RequestValidationError) as exc:
            response = _refuse(request, exc)
        renewed = getattr(request.state, "renewed", None)
        if renewed is not None:
            visitors.keep(response, parts.of_request(request), renewed)
        return guarded(response)

    return answer


def guarded(response: Response) -> Response:
    """Tell the browser what it must not do with an answer."""
    response.headers.update(_HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def _refuse(request: Request, exc: Exception) -> Response:
    match exc:
        case errors.NotSignedIn():
            return _to_sign_in(request)
        case errors.Forbidden():
            return _page(request, 403, "Not allowed", str(exc))
        case errors.InvalidCall():
            return _page(request, 400, "That makes no sense", str(exc))
        case errors.PagewardenError() if exc.retryable:
            return _page(request, 503, "Out of order", f"{exc}; try again soon")
        case HTTPException():
            return _page(request, exc.status_code, "Not possible", str(exc.detail))
        case RequestValidationError():
            return _page(request, 404, "Not found", "There is nothing at this address.")
    raise exc


def _page(request: Request, status: int, title: str, message: str) -> Response:
    if is_script(request):
        return JSONResponse({"message": message}, status)
    part = bool(request.headers.get("HX-Request"))
    response = rendering.page(
        request, "error.html", status, part=part, title=title, message=message
    )
    if part:
        response.headers.update({"HX-Retarget": "#notice", "HX-Reswap": "innerHTML"})
    if status == 503:
        response.headers["Retry-After"] = str(math.ceil(_RETRY_SECONDS))
    return response


def is_script(request: Request) -> bool:
    """Tell whether a script of ours asks, to which nothing is said in pages."""
    return request.headers.get("Accept") == "application/json"


def _to_sign_in(request: Request) -> Response:
    """Lead to the sign-in, and from there back to the page that was wanted."""
    if is_script(request):
        return JSONResponse({"message": "your session has ended; sign in again"}, 401)
    if request.headers.get("HX-Request"):
        wanted = urlsplit(request.headers.get("HX-Current-URL", ""))
        target = f"{SIGN_IN}?{urlencode({'next': _address(wanted.path, wanted.query)})}"
        return Response(status_code=401, headers={"HX-Redirect": target})
    wanted = urlsplit(str(request.url) if request.method == "GET" else _sender(request))
    address = _address(wanted.path, wanted.query)
    return RedirectResponse(f"{SIGN_IN}?{urlencode({'next': address})}", 303)


def _sender(request: Request) -> str:
    """Name the page of ours whose form was sent; whoever signs in again is led back to it."""
    sender = request.headers.get("referer", "")
    return sender if urlsplit(sender).netloc == request.headers.get("host") else "/"


def _address(path: str, query: str) -> str:
    return f"{path}?{query}" if query else path or "/"


def own_path(wanted: str) -> str:
    """Give back a path of ours, whatever was asked for."""
    # Browsers read a backslash as a slash, and leave out tabs and line ends.
    if not wanted.startswith("/") or wanted[1:2] in {"/", "\\"} or not wanted.isprintable():
        return "/"
    return wanted
