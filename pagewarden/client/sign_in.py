"""Signing in and out by the routes of Supabase Auth, which the embedded server has too."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pydantic

from pagewarden import errors
from pagewarden.client import sessions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pagewarden.client import calls

_TOKEN = "/auth/v1/token"  # noqa: S105  # a path
_LOGOUT = "/auth/v1/logout"


class _User(pydantic.BaseModel):
    email: str


class _Grant(pydantic.BaseModel):
    access_token: str
    refresh_token: str
    expires_in: float
    user: _User

    def session(self) -> sessions.Session:
        # By our own clock, which may differ from the server's.
        expires_at = time.time() + self.expires_in
        return sessions.Session(self.user.email, self.access_token, self.refresh_token, expires_at)


async def with_password(
    server: calls.Calls, email: str, password: str, headers: Mapping[str, str]
) -> sessions.Session:
    """Sign in; a wrong address or password is NotSignedIn."""
    try:
        return await _granted(server, "password", headers, email=email, password=password)
    except errors.CallRefused as exc:
        raise errors.NotSignedIn(
            f"{server.url} does not let you in: {exc}. Passwords are given out with "
            "`pagewarden user reset`"
        ) from exc


async def go_on(
    server: calls.Calls, session: sessions.Session, headers: Mapping[str, str]
) -> sessions.Session:
    """Use up the refresh token; a session that has ended is NotSignedIn."""
    try:
        return await _granted(server, "refresh_token", headers, refresh_token=session.refresh_token)
    except errors.CallRefused as exc:
        raise errors.NotSignedIn(
            f"your session at {server.url} has ended; sign in again with `pagewarden login`"
        ) from exc


async def sign_out(server: calls.Calls, headers: Mapping[str, str]) -> None:
    """End the session that these headers are of; others of the same person go on."""
    await server.call("POST", _LOGOUT, params={"scope": "local"}, headers=headers)


async def _granted(
    server: calls.Calls, kind: str, headers: Mapping[str, str], **given: str
) -> sessions.Session:
    answer = await server.call(
        "POST", _TOKEN, params={"grant_type": kind}, json=given, headers=headers
    )
    return _Grant.model_validate_json(answer.content).session()
