"""Route classes of all pages: body limits, security headers, error pages; and menu entries."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from fastapi import Request, Response, routing
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException

from pagewarden import errors, services
from pagewarden.dashboard import rendering, sessions
from pagewarden.web import request_body
from pagewarden.web.errors import get_status

SIGN_IN = "/sign-in"
_RETRY_SECONDS = 5

_POLICY = "Content-Security-Policy"
_HEADERS = {
    _POLICY: (
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


class Route(request_body.BodyLimitRoute):
    """A route of the dashboard."""

    max_bytes = 65_536  # notes of 2,000 characters in any script, as forms encode them

    def get_route_handler(self) -> _Handler:
        """Wrap the handler, so that errors are pages and responses are protected."""
        return _wrap(super().get_route_handler())


class LargeFormRoute(Route):
    """A route for forms with the text of a document."""

    max_bytes = 16_000_000  # a million characters in any script, as forms encode them
    seconds = 120.0  # on a mobile connection


class UploadRoute(routing.APIRoute):
    """A route for file uploads, whose body may be large."""

    def get_route_handler(self) -> _Handler:
        """Wrap the handler, so that errors are pages and responses are protected."""
        return _wrap(super().get_route_handler())


def _wrap(handle: _Handler) -> _Handler:
    async def handle_safely(request: Request) -> Response:
        try:
            response = await handle(request)
        except (errors.PagewardenError, HTTPException, RequestValidationError) as exc:
            response = _render_error(request, exc)
        renewed = getattr(request.state, "renewed", None)
        if renewed is not None:
            sessions.set_cookies(response, services.from_request(request), renewed)
        return add_security_headers(response, getattr(request.state, "upload_origin", None))

    return handle_safely


def add_security_headers(response: Response, upload_origin: str | None = None) -> Response:
    """Add the security headers, and forbid caching unless the handler allowed it.

    Scripts of the page may also send files to `upload_origin`, the address of the file store.
    """
    response.headers.update(_HEADERS)
    if upload_origin:
        policy = f"connect-src 'self' {upload_origin};"
        response.headers[_POLICY] = _HEADERS[_POLICY].replace("connect-src 'self';", policy)
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def _render_error(
    request: Request, exc: errors.PagewardenError | HTTPException | RequestValidationError
) -> Response:
    match exc:
        case errors.NotSignedIn():
            return _redirect_to_sign_in(request)
        case errors.Forbidden():
            error = 403, "Access denied", str(exc)
        case errors.InvalidArgument():
            error = 400, "Invalid request", str(exc)
        case errors.PagewardenError() if exc.retryable:
            error = max(503, get_status(exc)), "Service unavailable", f"{exc}; try again later"
        case errors.PagewardenError():
            error = get_status(exc), "Request failed", str(exc)
        case HTTPException():
            error = exc.status_code, "Request failed", str(exc.detail)
        case RequestValidationError():
            error = 404, "Not found", "This page does not exist."
    return _render_error_page(request, *error)


def _render_error_page(request: Request, status: int, title: str, message: str) -> Response:
    if wants_json(request):
        return JSONResponse({"message": message}, status)
    is_fragment = bool(request.headers.get("HX-Request"))
    response = rendering.render_page(
        request, "error.html", status, is_fragment=is_fragment, title=title, message=message
    )
    if is_fragment:
        response.headers.update({"HX-Retarget": "#notice", "HX-Reswap": "innerHTML"})
    if status == 503:
        response.headers["Retry-After"] = str(math.ceil(_RETRY_SECONDS))
    return response


def wants_json(request: Request) -> bool:
    """Tell whether one of our scripts sent this request and expects JSON."""
    return request.headers.get("Accept") == "application/json"


def _redirect_to_sign_in(request: Request) -> Response:
    """Redirect to the sign-in form, which redirects back to the requested page."""
    if wants_json(request):
        return JSONResponse({"message": "your session has ended; sign in again"}, 401)
    if request.headers.get("HX-Request"):
        sign_in = _make_sign_in_url(request.headers.get("HX-Current-URL", ""))
        return Response(status_code=401, headers={"HX-Redirect": sign_in})
    requested = str(request.url) if request.method == "GET" else _get_form_page(request)
    return RedirectResponse(_make_sign_in_url(requested), 303)


def _get_form_page(request: Request) -> str:
    """Return the URL of the page with the submitted form, or / if it is on another site."""
    referrer = request.headers.get("referer", "")
    return referrer if urlsplit(referrer).netloc == request.headers.get("host") else "/"


def _make_sign_in_url(url: str) -> str:
    """Return the URL of the sign-in form that redirects to the path and query of `url`."""
    _, _, path, query, _ = urlsplit(url)
    target = f"{path}?{query}" if query else path or "/"
    return f"{SIGN_IN}?{urlencode({'next': target})}"


def sanitize_next(path: str) -> str:
    """Return the path, or / if it could lead to another site."""
    # Browsers treat a backslash as a slash, and drop tabs and line breaks.
    if not path.startswith("/") or path[1:2] in {"/", "\\"} or not path.isprintable():
        return "/"
    return path


class Audience(enum.StrEnum):
    """Who may open a page."""

    ALL_USERS = "all users"
    ADMIN = "admin"


OPERATION = "Operation"
"""Menu group for configuration and troubleshooting pages."""


@dataclass(frozen=True, slots=True)
class Page:
    """An entry of the menu, or of one of its groups."""

    title: str
    path: str
    audience: Audience = Audience.ALL_USERS
    group: str = ""

    def is_visible_to(self, *, is_admin: bool) -> bool:
        """Tell whether a user sees the page in the menu."""
        return is_admin or self.audience is Audience.ALL_USERS

    def contains(self, path: str) -> bool:
        """Tell whether a path is that of the page or of one of its subpages."""
        return path == self.path or path.startswith(f"{self.path}/")
