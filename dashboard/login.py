"""Sign-in and sign-out."""

from __future__ import annotations

import contextlib
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from pagewarden import errors, services
from pagewarden.dashboard import csrf, rendering, route, sessions

router = APIRouter(route_class=route.Route, include_in_schema=False)


@router.get(route.SIGN_IN)
async def show_form(request: Request, next: str = "/") -> Response:  # noqa: A002  # its name in the query
    """Show the sign-in form."""
    return rendering.render_page(request, "login.html", next=next, email="", problem=None)


@router.post(route.SIGN_IN, dependencies=[csrf.OWN_ORIGIN])
async def sign_in(
    request: Request,
    services: services.Current,
    email: Annotated[str, Form()] = "",
    password: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "/",  # noqa: A002  # its name in the form
) -> Response:
    """Sign the user in, and redirect to the page in `next`."""
    try:
        session = await services.sign_in.sign_in(email, password, sessions.get_origin(request))
    except errors.SignInRejected as exc:
        status = 429 if exc.status == 429 else 401
        values = {"next": next, "email": email, "problem": _explain(exc)}
        return rendering.render_page(request, "login.html", status, **values)
    response = RedirectResponse(route.sanitize_next(next), 303)
    sessions.set_cookies(response, services, session)
    return response


@router.post("/sign-out")
async def sign_out(
    request: Request, services: services.Current, _token: csrf.FormToken
) -> Response:
    """End the session and delete its cookies."""
    renewed = getattr(request.state, "renewed", None)
    token = renewed.access_token if renewed else sessions.get_access_token(request, services)
    with contextlib.suppress(errors.SignInError):  # the session has ended, or expires soon
        await services.sign_in.sign_out(token)
    request.state.renewed = None
    response = RedirectResponse(route.SIGN_IN, 303)
    sessions.clear_cookies(response, services)
    return response


def _explain(exc: errors.SignInRejected) -> str:
    if exc.status == 429:
        wait = rendering.format_duration(exc.retry_after) if exc.retry_after else "a few minutes"
        return f"Too many attempts. Try again in {wait}."
    return "Invalid e-mail address or password."
