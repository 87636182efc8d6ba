"""Credentials of a call, sign-in and sign-out, and sessions on disk."""

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

from pagewarden import errors
from pagewarden.auth import keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from pagewarden.client import http
    from pagewarden.settings import Settings

# A token that expires sooner may do so before the server checks it.
EXPIRY_MARGIN_SECONDS = 60.0
_LOCK_POLL_SECONDS = 0.05
_TOKEN = "/auth/v1/token"  # noqa: S105  # a path
_LOGOUT = "/auth/v1/logout"


class Credentials(Protocol):
    """Authenticates calls; account identifies the caller and is not secret."""

    @property
    def account(self) -> str:
        """Return the name of the caller."""

    async def get_headers(self) -> dict[str, str]:
        """Return the headers of a call."""

    async def renew(self, rejected_headers: dict[str, str]) -> None:
        """Replace headers that the server refused, or raise NotSignedIn."""


class KeyCredentials:
    """The secret key of this installation."""

    account = "service"

    def __init__(self, secret: str, url: str) -> None:
        self._secret = secret
        self._url = url

    async def get_headers(self) -> dict[str, str]:
        """Return the header with the key."""
        return {"apikey": self._secret}

    async def renew(self, rejected_headers: dict[str, str]) -> None:  # noqa: ARG002  # of the protocol
        """Raise NotSignedIn: there is no other key."""
        raise errors.NotSignedIn(
            f"{self._url} rejects the secret key of this installation; sign in with "
            "`pagewarden login`"
        )


class SessionCredentials:
    """A signed-in user; the session is refreshed before it expires."""

    def __init__(
        self, server: http.Connection, sessions: SessionStore, publishable_key: str | None
    ) -> None:
        self._server = server
        self._sessions = sessions
        self._session = _require_session(sessions.get(server.url), server.url)
        self._apikey = make_apikey_header(publishable_key)
        self._refreshing = asyncio.Lock()

    @property
    def account(self) -> str:
        """Return the e-mail address."""
        return self._session.email

    async def get_headers(self) -> dict[str, str]:
        """Return a valid token."""
        if not _is_valid(self._session):
            await self._refresh(self._session)
        return self._make_headers()

    async def renew(self, rejected_headers: dict[str, str]) -> None:
        """Refresh the session, unless another task did so during the call."""
        if rejected_headers == self._make_headers():
            await self._refresh(self._session)

    def _make_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._session.access_token}", **self._apikey}

    async def _refresh(self, old_session: Session) -> None:
        """Replace the old session, by that of another task or process if there is one."""
        async with self._refreshing, self._sessions.locked():
            url = self._server.url
            self._session = _require_session(self._sessions.get(url), url)
            if self._session != old_session and _is_valid(self._session):
                return
            try:
                self._session = await refresh(self._server, self._session, self._apikey)
            except errors.NotSignedIn:
                self._sessions.remove(url)
                raise
            self._sessions.save(url, self._session)


def find_credentials(
    settings: Settings, server: http.Connection, sessions: SessionStore
) -> Credentials:
    """Use the session at this server, or else the secret key of this installation."""
    if sessions.get(server.url) is not None:
        return SessionCredentials(server, sessions, settings.publishable_key)
    # The key is sent only to the installation it belongs to.
    if server.url in {settings.site_url, settings.supabase_url}:
        secret = keys.find_secret_key(settings)
        if secret is not None:
            return KeyCredentials(secret, server.url)
    return SessionCredentials(server, sessions, settings.publishable_key)


def make_apikey_header(publishable_key: str | None) -> dict[str, str]:
    """Return the header that a Supabase project requires beside a token."""
    return {"apikey": publishable_key} if publishable_key else {}


def _is_valid(session: Session) -> bool:
    return session.expires_at > time.time() + EXPIRY_MARGIN_SECONDS


def _require_session(session: Session | None, url: str) -> Session:
    if session is None:
        raise errors.NotSignedIn(f"you are not signed in at {url}; sign in with `pagewarden login`")
    return session


class _User(pydantic.BaseModel):
    email: str


class _TokenResponse(pydantic.BaseModel):
    access_token: str
    refresh_token: str
    expires_in: float
    user: _User

    def session(self) -> Session:
        # By the local clock, which may differ from the server's.
        expires_at = time.time() + self.expires_in
        return Session(self.user.email, self.access_token, self.refresh_token, expires_at)


async def sign_in(
    server: http.Connection, email: str, password: str, headers: Mapping[str, str]
) -> Session:
    """Sign in with a password; raise NotSignedIn if address or password is wrong."""
    try:
        return await _request_tokens(server, "password", headers, email=email, password=password)
    except errors.CallRejected as exc:
        raise errors.NotSignedIn(
            f"{server.url} rejected the sign-in: {exc}. An administrator can reset passwords with "
            "`pagewarden user reset`"
        ) from exc


async def refresh(server: http.Connection, session: Session, headers: Mapping[str, str]) -> Session:
    """Exchange the refresh token for a new session; raise NotSignedIn if it has ended."""
    try:
        return await _request_tokens(
            server, "refresh_token", headers, refresh_token=session.refresh_token
        )
    except errors.CallRejected as exc:
        raise errors.NotSignedIn(
            f"your session at {server.url} has ended; sign in again with `pagewarden login`"
        ) from exc


async def sign_out(server: http.Connection, headers: Mapping[str, str]) -> None:
    """End the session of these headers; other sessions of the user remain."""
    await server.call("POST", _LOGOUT, params={"scope": "local"}, headers=headers)


async def _request_tokens(
    server: http.Connection, grant_type: str, headers: Mapping[str, str], **fields: str
) -> Session:
    response = await server.call(
        "POST", _TOKEN, params={"grant_type": grant_type}, json=fields, headers=headers
    )
    return _TokenResponse.model_validate_json(response.content).session()


@dataclass(frozen=True, slots=True)
class Session:
    """Tokens of a signed-in user; expires_at is in seconds since 1970."""

    email: str
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_at: float


_CONTENT = pydantic.TypeAdapter(dict[str, Session])


def default_path() -> Path:
    """Return the default path, below the user's configuration folder."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "pagewarden" / "session.json"


@dataclass(frozen=True, slots=True)
class SessionStore:
    """Sessions of one user by server URL, in a private file; hold locked() to change them."""

    path: Path = field(default_factory=default_path)

    def get(self, url: str) -> Session | None:
        """Return the session at this server."""
        return self._load_all().get(url)

    def save(self, url: str, session: Session) -> None:
        """Save the session at this server."""
        self._write(self._load_all() | {url: session})

    def remove(self, url: str) -> None:
        """Remove the session at this server."""
        self._write({key: session for key, session in self._load_all().items() if key != url})

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Lock the sessions against changes by other processes.

        A refresh token is valid once, so only one process may use it.
        """
        with self._translate_errors():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not _is_locked(descriptor):  # noqa: ASYNC110  # another process holds the lock
                await asyncio.sleep(_LOCK_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _load_all(self) -> dict[str, Session]:
        with self._translate_errors():
            if not self.path.exists():
                return {}
            return _CONTENT.validate_json(self.path.read_bytes())

    def _write(self, sessions: dict[str, Session]) -> None:
        """Replace the file atomically."""
        with self._translate_errors():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=self.path.parent)  # mode 0600
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(_CONTENT.dump_json(sessions))
                    file.flush()
                    os.fsync(descriptor)
                Path(temporary).replace(self.path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise errors.LocalFileError(
                f"{self.path} cannot be used ({exc.strerror}); fix this, or set XDG_CONFIG_HOME "
                "to a writable folder"
            ) from exc
        except pydantic.ValidationError as exc:
            # Do not chain the message: it quotes the tokens.
            raise errors.LocalFileError(
                f"{self.path} is corrupt; remove it, and sign in again"
            ) from exc.__cause__


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
