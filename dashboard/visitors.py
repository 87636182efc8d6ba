"""Who looks at a page: a session in cookies, checked at every request and renewed in time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import structlog
from fastapi import Depends, Request, Response

from dashboard import entrances, parts
from pagewarden import database, errors, tokens
from pagewarden.database import tables
from pagewarden.local.sign_in import sessions

RENEW_SECONDS = 300
"""How long before the end of an access token the next one is fetched."""

# The browser forgets the cookies when an unused session is over anyway.
_COOKIE_SECONDS = int(sessions.IDLE_TIME.total_seconds())


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody signed in, and the database as this person sees it."""

    caller: tokens.Caller
    database: database.Database
    is_admin: bool

    @property
    def session_id(self) -> str:
        """Name the session; it stays the same when tokens are renewed."""
        return str(self.caller.claims.get("session_id") or self.caller.user_id)


def origin_of(request: Request) -> sessions.Origin:
    """Say where a request comes from."""
    address = request.client.host if request.client else ""
    return sessions.Origin(address, request.headers.get("user-agent", ""))


async def _visitor(request: Request, used: parts.Used) -> Visitor:
    caller = await _caller(request, used)
    structlog.contextvars.bind_contextvars(user=caller.user_id)
    user = caller.user()
    seen = used.database.acting_as(user)
    is_admin = await seen.has_role(user_id=user.id, role="admin")
    visitor = Visitor(caller, seen, is_admin)
    request.state.visitor = visitor
    return visitor


Signed = Annotated[Visitor, Depends(_visitor)]
"""A parameter of this type is whoever is signed in; nobody else gets the page."""


async def _admin(visitor: Signed) -> Visitor:
    if not visitor.is_admin:
        raise errors.Forbidden("this page is for HAC; ask an administrator for the role admin")
    return visitor


Admin = Annotated[Visitor, Depends(_admin)]
"""A parameter of this type is one of HAC."""


async def may_edit(visitor: Visitor, case_id: str) -> bool:
    """Tell whether it makes sense to offer it; whether somebody may is the database's to say."""
    if visitor.is_admin:
        return True
    me: Mapping[str, object] = {"user_id": visitor.caller.user_id}
    select = visitor.database.select
    owned: Sequence[object] = await select(tables.cases, columns="id", where={"id": case_id, **me})
    shared = {"case_id": case_id, "role": "editor", **me}
    return bool(owned or await select(tables.case_members, columns="role", where=shared))


async def _caller(request: Request, used: parts.Parts) -> tokens.Caller:
    access, refresh = (request.cookies.get(name, "") for name in _names(used))
    caller = None
    with contextlib.suppress(errors.NotSignedIn):
        caller = await used.verifier.verify(access)
    if caller is not None and caller.claims["exp"] - time.time() > RENEW_SECONDS:
        return caller
    try:
        return await _renewed(request, used, refresh)
    except (errors.NotSignedIn, errors.SignInAway):
        # What is not renewed today counts to its end.
        if caller is None:
            raise
        return caller


async def _renewed(request: Request, used: parts.Parts, refresh: str) -> tokens.Caller:
    if not refresh:
        raise errors.NotSignedIn("sign in first")
    try:
        session = await used.entrance.refresh(refresh, origin_of(request))
    except errors.SignInRefused as exc:
        raise errors.NotSignedIn("your session has ended; sign in again") from exc
    caller = await used.verifier.verify(session.access_token)
    request.state.renewed = session
    return caller


def keep(response: Response, used: parts.Parts, session: entrances.Session) -> None:
    """Give the browser the session, where no script can read it."""
    values = (session.access_token, session.refresh_token)
    for name, value in zip(_names(used), values, strict=True):
        response.set_cookie(
            name,
            value,
            max_age=_COOKIE_SECONDS,
            httponly=True,
            samesite="lax",
            secure=_is_secure(used),
        )


def forget(response: Response, used: parts.Parts) -> None:
    """Take the session from the browser."""
    for name in _names(used):
        response.delete_cookie(name, httponly=True, samesite="lax", secure=_is_secure(used))


def access_token(request: Request, used: parts.Parts) -> str:
    """Give the access token that the browser sent, checked or not."""
    return request.cookies.get(_names(used)[0], "")


def _is_secure(used: parts.Parts) -> bool:
    return used.site_url.startswith("https://")


def _names(used: parts.Parts) -> tuple[str, str]:
    """Name the cookies; with this prefix browsers take them from our own host only."""
    prefix = "__Host-" if _is_secure(used) else ""
    return f"{prefix}pagewarden-access", f"{prefix}pagewarden-refresh"
