"""Signing in and out."""

from __future__ import annotations

import contextlib
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from dashboard import forgery, parts, rendering, route, visitors
from pagewarden import errors

router = APIRouter(route_class=route.Route, include_in_schema=False)


@router.get(route.SIGN_IN)
async def ask(request: Request, next: str = "/") -> Response:  # noqa: A002  # its name in the query
    """Show the form."""
    return rendering.page(request, "sign_in.html", next=next, email="", problem=None)


@router.post(route.SIGN_IN, dependencies=[forgery.OWN_ORIGIN])
async def sign_in(
    request: Request,
    used: parts.Used,
    email: Annotated[str, Form()] = "",
    password: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "/",  # noqa: A002  # its name in the form
) -> Response:
    """Let somebody in, and lead to the page that was wanted."""
    try:
        session = await used.entrance.sign_in(email, password, visitors.origin_of(request))
    except errors.SignInRefused as exc:
        status = 429 if exc.status == 429 else 401
        said = {"next": next, "email": email, "problem": _explain(exc)}
        return rendering.page(request, "sign_in.html", status, **said)
    response = RedirectResponse(route.own_path(next), 303)
    visitors.keep(response, used, session)
    return response


@router.post("/sign-out")
async def sign_out(request: Request, used: parts.Used, _acting: forgery.Acting) -> Response:
    """End the session here and at the sign-in."""
    renewed = getattr(request.state, "renewed", None)
    token = renewed.access_token if renewed else visitors.access_token(request, used)
    with contextlib.suppress(errors.SignInError):  # over already, or soon
        await used.entrance.sign_out(token)
    request.state.renewed = None
    response = RedirectResponse(route.SIGN_IN, 303)
    visitors.forget(response, used)
    return response


def _explain(exc: errors.SignInRefused) -> str:
    if exc.status == 429:
        wait = rendering.duration(exc.retry_after) if exc.retry_after else "some minutes"
        return f"There were too many attempts. Try again in {wait}."
    return "The address or the password is wrong."
