"""Who lets people in: the sign-in of this process, or that of a Supabase project."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

from pagewarden import errors
from pagewarden.local.sign_in import grants, service, sessions

_TIMEOUT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Session:
    """The tokens of somebody who is signed in."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)


class Entrance(Protocol):
    """What the dashboard asks of a sign-in; refusals are errors.SignInRefused."""

    async def sign_in(self, email: str, password: str, origin: sessions.Origin) -> Session:
        """Let somebody in who knows the password."""

    async def refresh(self, token: str, origin: sessions.Origin) -> Session:
        """Go on with the next tokens."""

    async def sign_out(self, access_token: str) -> None:
        """End this one session."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """The sign-in of this process."""

    service: service.Service

    async def sign_in(self, email: str, password: str, origin: sessions.Origin) -> Session:
        """Let somebody in who knows the password."""
        return _of_grant(await self.service.sign_in(email, password, origin))

    async def refresh(self, token: str, origin: sessions.Origin) -> Session:
        """Go on with the next tokens."""
        return _of_grant(await self.service.refresh(token, origin))

    async def sign_out(self, access_token: str) -> None:
        """End this one session."""
        who = await self.service.signed_in(access_token)
        await self.service.sign_out(who, sessions.Scope.LOCAL)


@dataclass(frozen=True, slots=True)
class Hosted:
    """Supabase Auth of a project; http knows its address and the publishable key."""

    http: httpx.AsyncClient

    async def sign_in(self, email: str, password: str, origin: sessions.Origin) -> Session:
        """Let somebody in who knows the password."""
        return await self._grant("password", origin, email=email, password=password)

    async def refresh(self, token: str, origin: sessions.Origin) -> Session:
        """Go on with the next tokens."""
        return await self._grant("refresh_token", origin, refresh_token=token)

    async def sign_out(self, access_token: str) -> None:
        """End this one session."""
        bearer = {"Authorization": f"Bearer {access_token}"}
        await self._post("/auth/v1/logout", {"scope": "local"}, headers=bearer)

    async def _grant(self, kind: str, origin: sessions.Origin, **given: str) -> Session:
        agent = {"User-Agent": origin.user_agent}
        answer = await self._post("/auth/v1/token", {"grant_type": kind}, headers=agent, json=given)
        granted = answer.json()
        return Session(granted["access_token"], granted["refresh_token"])

    async def _post(self, path: str, params: dict[str, str], **options: Any) -> httpx.Response:  # noqa: ANN401  # httpx's
        try:
            answer = await self.http.post(path, params=params, **options)
        except httpx.HTTPError as exc:
            raise errors.SignInAway(f"the sign-in does not answer ({exc}); try again") from exc
        if answer.status_code >= 500:
            raise errors.SignInAway("the sign-in is out of order at the moment; try again")
        if answer.is_error:
            raise _refusal(answer)
        return answer


@contextlib.asynccontextmanager
async def hosted(url: str, publishable_key: str) -> AsyncIterator[Hosted]:
    """Connect to the Supabase Auth of a project."""
    async with httpx.AsyncClient(
        base_url=url, headers={"apikey": publishable_key}, timeout=_TIMEOUT_SECONDS
    ) as http:
        yield Hosted(http)


def _of_grant(grant: grants.Grant) -> Session:
    return Session(grant.access_token, grant.refresh_token)


def _refusal(answer: httpx.Response) -> errors.SignInRefused:
    try:
        said = answer.json()
    except ValueError:
        said = {}
    wait = answer.headers.get("Retry-After", "")
    return errors.SignInRefused(
        str(said.get("msg") or answer.reason_phrase),
        status=answer.status_code,
        code=str(said.get("error_code") or "unexpected_failure"),
        retry_after=int(wait) if wait.isdecimal() else None,
    )
