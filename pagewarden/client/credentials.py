"""What a call carries to show who makes it: a person's token, or the key of the installation."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol

from pagewarden import errors, keys
from pagewarden.client import sessions, sign_in

if TYPE_CHECKING:
    from pagewarden.client import calls
    from pagewarden.settings import Settings

# A token that ends so soon may end on the way.
EARLY_SECONDS = 60.0


class Credentials(Protocol):
    """Whoever calls; account tells one from another, and is no secret."""

    @property
    def account(self) -> str:
        """Name whoever calls."""

    async def headers(self) -> dict[str, str]:
        """Give what a call carries."""

    async def renew(self, refused: dict[str, str]) -> None:
        """Get others in the place of those that were refused, or raise NotSignedIn."""


class Key:
    """The secret key of this installation."""

    account = "service"

    def __init__(self, secret: str, url: str) -> None:
        self._secret = secret
        self._url = url

    async def headers(self) -> dict[str, str]:
        """Give the key."""
        return {"apikey": self._secret}

    async def renew(self, refused: dict[str, str]) -> None:  # noqa: ARG002  # of the protocol
        """Give up: there is only one key."""
        raise errors.NotSignedIn(
            f"{self._url} does not know the secret key of this installation; sign in with "
            "`pagewarden login`"
        )


class Person:
    """Somebody who signed in; the session is refreshed when it is about to end."""

    def __init__(
        self, server: calls.Calls, kept: sessions.Sessions, publishable_key: str | None
    ) -> None:
        self._server = server
        self._kept = kept
        self._session = _require(kept.get(server.url), server.url)
        self._apikey = apikey(publishable_key)
        self._refreshing = asyncio.Lock()

    @property
    def account(self) -> str:
        """Give the address."""
        return self._session.email

    async def headers(self) -> dict[str, str]:
        """Give a token that counts."""
        if not _is_fresh(self._session):
            await self._refresh(self._session)
        return self._headers()

    async def renew(self, refused: dict[str, str]) -> None:
        """Refresh the session, unless that was done while the call was under way."""
        if refused == self._headers():
            await self._refresh(self._session)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._session.access_token}", **self._apikey}

    async def _refresh(self, old: sessions.Session) -> None:
        """Get another session than the old one: that of another task or process, or a new one."""
        async with self._refreshing, self._kept.locked():
            url = self._server.url
            self._session = _require(self._kept.get(url), url)
            if self._session != old and _is_fresh(self._session):
                return
            try:
                self._session = await sign_in.go_on(self._server, self._session, self._apikey)
            except errors.NotSignedIn:
                self._kept.remove(url)
                raise
            self._kept.keep(url, self._session)


def find(settings: Settings, server: calls.Calls, kept: sessions.Sessions) -> Credentials:
    """Find out who calls: whoever signed in there, otherwise the installation itself."""
    if kept.get(server.url) is not None:
        return Person(server, kept, settings.publishable_key)
    # The key goes nowhere but to the installation it belongs to.
    if server.url in {settings.site_url, settings.supabase_url}:
        secret = keys.find_secret_key(settings)
        if secret is not None:
            return Key(secret, server.url)
    return Person(server, kept, settings.publishable_key)


def apikey(publishable_key: str | None) -> dict[str, str]:
    """Give the header that a Supabase project wants beside a token."""
    return {"apikey": publishable_key} if publishable_key else {}


def _is_fresh(session: sessions.Session) -> bool:
    return session.expires_at > time.time() + EARLY_SECONDS


def _require(session: sessions.Session | None, url: str) -> sessions.Session:
    if session is None:
        raise errors.NotSignedIn(f"you are not signed in at {url}; sign in with `pagewarden login`")
    return session
