"""Sessions of users: cookies verified on every request and renewed before they expire."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import structlog
from fastapi import Depends, Request, Response

from pagewarden import errors, services
from pagewarden.auth import hosted, tokens
from pagewarden.auth.embedded import sessions
from pagewarden.database import Database, tables
from pagewarden.services import Services

RENEW_SECONDS = 300
"""Access tokens that expire within this time are renewed."""

# As long as an unused session lasts.
_COOKIE_SECONDS = int(sessions.IDLE_TIMEOUT.total_seconds())


@dataclass(frozen=True, slots=True)
class CurrentUser:
    """A signed-in user, and a database client that acts as this user."""

    caller: tokens.Caller
    database: Database
    is_admin: bool

    @property
    def session_id(self) -> str:
        """Return the session id, which does not change when tokens are renewed."""
        return str(self.caller.claims.get("session_id") or self.caller.user_id)


def get_origin(request: Request) -> sessions.RequestOrigin:
    """Return the address and user agent of a request."""
    address = request.client.host if request.client else ""
    return sessions.RequestOrigin(address, request.headers.get("user-agent", ""))


async def _require_user(request: Request, services: services.Current) -> CurrentUser:
    caller = await _authenticate(request, services)
    structlog.contextvars.bind_contextvars(user=caller.user_id)
    acting_user = caller.user()
    database = services.database.acting_as(acting_user)
    is_admin = await database.has_role(user_id=acting_user.id, role="admin")
    user = CurrentUser(caller, database, is_admin)
    request.state.user = user
    return user


SignedIn = Annotated[CurrentUser, Depends(_require_user)]
"""Route parameter type: the signed-in user; other requests redirect to the sign-in form."""


async def _require_admin(user: SignedIn) -> CurrentUser:
    if not user.is_admin:
        raise errors.Forbidden("this page requires the admin role (HAC)")
    return user


Admin = Annotated[CurrentUser, Depends(_require_admin)]
"""Route parameter type: a user with the admin role (HAC); other users get a 403."""


async def may_edit(user: CurrentUser, case_id: str) -> bool:
    """Tell whether to offer editing; the database checks the permission itself."""
    if user.is_admin:
        return True
    by_user: Mapping[str, object] = {"user_id": user.caller.user_id}
    select = user.database.select
    owned: Sequence[object] = await select(
        tables.cases, columns="id", where={"id": case_id, **by_user}
    )
    shared = {"case_id": case_id, "role": "editor", **by_user}
    return bool(owned or await select(tables.case_members, columns="role", where=shared))


async def _authenticate(request: Request, services: Services) -> tokens.Caller:
    access, refresh = (request.cookies.get(name, "") for name in _get_cookie_names(services))
    caller = None
    with contextlib.suppress(errors.NotSignedIn):
        caller = await services.verifier.verify(access)
    if caller is not None and caller.claims["exp"] - time.time() > RENEW_SECONDS:
        return caller
    try:
        return await _renew(request, services, refresh)
    except (errors.NotSignedIn, errors.SignInUnavailable):
        # The access token stays valid until it expires.
        if caller is None:
            raise
        return caller


async def _renew(request: Request, services: Services, refresh_token: str) -> tokens.Caller:
    if not refresh_token:
        raise errors.NotSignedIn("sign in first")
    try:
        session = await services.sign_in.refresh(refresh_token, get_origin(request))
    except errors.SignInRejected as exc:
        raise errors.NotSignedIn("your session has ended; sign in again") from exc
    caller = await services.verifier.verify(session.access_token)
    request.state.renewed = session
    return caller


def set_cookies(response: Response, services: Services, session: hosted.SessionTokens) -> None:
    """Store the session in cookies that scripts cannot read."""
    values = (session.access_token, session.refresh_token)
    for name, value in zip(_get_cookie_names(services), values, strict=True):
        response.set_cookie(
            name,
            value,
            max_age=_COOKIE_SECONDS,
            httponly=True,
            samesite="lax",
            secure=_is_secure(services),
        )


def clear_cookies(response: Response, services: Services) -> None:
    """Delete the session cookies."""
    for name in _get_cookie_names(services):
        response.delete_cookie(name, httponly=True, samesite="lax", secure=_is_secure(services))


def get_access_token(request: Request, services: Services) -> str:
    """Return the access token of a request without verifying it."""
    return request.cookies.get(_get_cookie_names(services)[0], "")


def _is_secure(services: Services) -> bool:
    return services.settings.site_url.startswith("https://")


def _get_cookie_names(services: Services) -> tuple[str, str]:
    """Return the cookie names; the prefix __Host- binds cookies to this host."""
    prefix = "__Host-" if _is_secure(services) else ""
    return f"{prefix}pagewarden-access", f"{prefix}pagewarden-refresh"
