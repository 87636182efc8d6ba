"""Who calls: credentials of a call, sign-in, and sessions on disk that only their owner reads."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pydantic

from pagewarden import errors, keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from pagewarden.client import http
    from pagewarden.settings import Settings

# A token that ends so soon may end on the way.
EARLY_SECONDS = 60.0
_LOCK_POLL_SECONDS = 0.05
_TOKEN = "/auth/v1/token"  # noqa: S105  # a path
_LOGOUT = "/auth/v1/logout"


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

    def __init__(self, server: http.Calls, kept: Sessions, publishable_key: str | None) -> None:
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

    async def _refresh(self, old: Session) -> None:
        """Get another session than the old one: that of another task or process, or a new one."""
        async with self._refreshing, self._kept.locked():
            url = self._server.url
            self._session = _require(self._kept.get(url), url)
            if self._session != old and _is_fresh(self._session):
                return
            try:
                self._session = await go_on(self._server, self._session, self._apikey)
            except errors.NotSignedIn:
                self._kept.remove(url)
                raise
            self._kept.keep(url, self._session)


def find(settings: Settings, server: http.Calls, kept: Sessions) -> Credentials:
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


def _is_fresh(session: Session) -> bool:
    return session.expires_at > time.time() + EARLY_SECONDS


def _require(session: Session | None, url: str) -> Session:
    if session is None:
        raise errors.NotSignedIn(f"you are not signed in at {url}; sign in with `pagewarden login`")
    return session


class _User(pydantic.BaseModel):
    email: str


class _Grant(pydantic.BaseModel):
    access_token: str
    refresh_token: str
    expires_in: float
    user: _User

    def session(self) -> Session:
        # By our own clock, which may differ from the server's.
        expires_at = time.time() + self.expires_in
        return Session(self.user.email, self.access_token, self.refresh_token, expires_at)


async def with_password(
    server: http.Calls, email: str, password: str, headers: Mapping[str, str]
) -> Session:
    """Sign in; a wrong address or password is NotSignedIn."""
    try:
        return await _granted(server, "password", headers, email=email, password=password)
    except errors.CallRefused as exc:
        raise errors.NotSignedIn(
            f"{server.url} does not let you in: {exc}. Passwords are given out with "
            "`pagewarden user reset`"
        ) from exc


async def go_on(server: http.Calls, session: Session, headers: Mapping[str, str]) -> Session:
    """Use up the refresh token; a session that has ended is NotSignedIn."""
    try:
        return await _granted(server, "refresh_token", headers, refresh_token=session.refresh_token)
    except errors.CallRefused as exc:
        raise errors.NotSignedIn(
            f"your session at {server.url} has ended; sign in again with `pagewarden login`"
        ) from exc


async def sign_out(server: http.Calls, headers: Mapping[str, str]) -> None:
    """End the session that these headers are of; others of the same person go on."""
    await server.call("POST", _LOGOUT, params={"scope": "local"}, headers=headers)


async def _granted(
    server: http.Calls, kind: str, headers: Mapping[str, str], **given: str
) -> Session:
    answer = await server.call(
        "POST", _TOKEN, params={"grant_type": kind}, json=given, headers=headers
    )
    return _Grant.model_validate_json(answer.content).session()


@dataclass(frozen=True, slots=True)
class Session:
    """The tokens of somebody who signed in; expires_at is in seconds since 1970."""

    email: str
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_at: float


_CONTENT = pydantic.TypeAdapter(dict[str, Session])


def default_path() -> Path:
    """Give the place in the user's folder for settings."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "pagewarden" / "session.json"


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of one person, by the address of the server; change them when locked()."""

    path: Path = field(default_factory=default_path)

    def get(self, url: str) -> Session | None:
        """Find the session at this server."""
        return self._all().get(url)

    def keep(self, url: str, session: Session) -> None:
        """Put a session in the place of the last one at this server."""
        self._write(self._all() | {url: session})

    def remove(self, url: str) -> None:
        """Forget the session at this server."""
        self._write({known: kept for known, kept in self._all().items() if known != url})

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Keep every other process from changing the sessions.

        A refresh token can be used once, so of two processes only one may use it.
        """
        with self._translated():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            number = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not _is_locked(number):  # noqa: ASYNC110  # other processes set no event of ours
                await asyncio.sleep(_LOCK_POLL_SECONDS)
            yield
        finally:
            os.close(number)

    def _all(self) -> dict[str, Session]:
        with self._translated():
            if not self.path.exists():
                return {}
            return _CONTENT.validate_json(self.path.read_bytes())

    def _write(self, sessions: dict[str, Session]) -> None:
        """Replace the file when the new one is complete and on disk."""
        with self._translated():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            number, unfinished = tempfile.mkstemp(dir=self.path.parent)  # open to its owner only
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(_CONTENT.dump_json(sessions))
                    file.flush()
                    os.fsync(number)
                Path(unfinished).replace(self.path)
            except BaseException:
                Path(unfinished).unlink(missing_ok=True)
                raise

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise errors.LocalFileError(
                f"{self.path} cannot be used ({exc.strerror}); see to it, or set XDG_CONFIG_HOME "
                "to a folder of yours"
            ) from exc
        except pydantic.ValidationError as exc:
            # Not its own words, for they quote the tokens.
            raise errors.LocalFileError(
                f"{self.path} is broken; remove it, and sign in again"
            ) from exc.__cause__


def _is_locked(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
