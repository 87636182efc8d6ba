"""Sessions in auth.sessions, and their rotating refresh tokens.

A refresh token is the id of its session, a number, and our signature over both. The database holds
only the current number of each session: reading it does not allow making a token, and a token with
a lower number has been used before.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import enum
import hashlib
import hmac
import ipaddress
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from pagewarden import errors
from pagewarden.auth.embedded.store import (
    ADVANCE_SESSION,
    END_ALL_SESSIONS,
    END_OTHER_SESSIONS,
    END_SESSION,
    GET_SESSION,
    START_SESSION,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagewarden.auth.embedded.store import AuthDatabase

log = structlog.get_logger(__name__)

# A client that refreshes twice at once, or lost the answer, may repeat the request for this time.
REUSE_INTERVAL = dt.timedelta(seconds=10)
# A session that is not refreshed for this time has ended.
IDLE_TIMEOUT = dt.timedelta(days=30)
_MAX_USER_AGENT_LENGTH = 500

_PURPOSE = b"pagewarden refresh token"
_NUMBER_BYTES = 8
_MAC_BYTES = 24
_TOKEN_BYTES = 16 + _NUMBER_BYTES + _MAC_BYTES


class RefreshTokenCodec:
    """Creates and verifies refresh tokens, with a key derived from the secret of access tokens."""

    def __init__(self, secret: str) -> None:
        self._key = hmac.digest(secret.encode(), _PURPOSE, hashlib.sha256)

    def encode(self, session: uuid.UUID, number: int) -> str:
        """Return the token of a session with this number."""
        content = session.bytes + number.to_bytes(_NUMBER_BYTES)
        return base64.urlsafe_b64encode(content + self._sign(content)).decode()

    def decode(self, token: str) -> tuple[uuid.UUID, int] | None:
        """Return session and number, or None if the signature is not ours."""
        try:
            raw = base64.b64decode(token, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        content, mac = raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]
        if len(raw) != _TOKEN_BYTES or not hmac.compare_digest(mac, self._sign(content)):
            return None
        return uuid.UUID(bytes=content[:16]), int.from_bytes(content[16:])

    def _sign(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, hashlib.sha256)[:_MAC_BYTES]


class SignOutScope(enum.StrEnum):
    """Which sessions of a user a sign-out ends."""

    GLOBAL = "global"
    LOCAL = "local"
    OTHERS = "others"


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """Where a request comes from; the address is empty if it is unknown."""

    address: str
    user_agent: str

    def params(self) -> dict[str, Any]:
        """Return the parameters of the statements that store it."""
        try:
            address = ipaddress.ip_address(self.address.partition("%")[0])
        except ValueError:
            address = None
        return {"address": address, "user_agent": self.user_agent[:_MAX_USER_AGENT_LENGTH]}


@dataclass(frozen=True, slots=True)
class Session:
    """A row of auth.sessions; counter is the number of the valid refresh token."""

    id: uuid.UUID
    user_id: uuid.UUID
    counter: int
    refreshed_at: dt.datetime


@dataclass(frozen=True, slots=True)
class SessionManager:
    """Starts, refreshes and ends the sessions in auth.sessions."""

    store: AuthDatabase
    tokens: RefreshTokenCodec
    now: Callable[[], dt.datetime]

    async def start(self, user_id: uuid.UUID, origin: RequestOrigin) -> Session:
        """Start a session of a user who has proved their identity."""
        now = self.now()
        params = {"user": user_id, "now": now, "idle_since": now - IDLE_TIMEOUT, **origin.params()}
        (session,) = await self.store.fetch_all(Session, START_SESSION, params)
        return session

    async def refresh(self, token: str, origin: RequestOrigin) -> Session:
        """Use up a refresh token; the session that is returned has the next one.

        A token that was used before ends the session: two clients had it, so it was stolen.
        """
        content = self.tokens.decode(token)
        if content is None:
            raise _refusal("refresh_token_not_found", "Refresh Token Not Found")
        session_id, number = content
        now = self.now()
        params = {
            "id": session_id, "counter": number, "now": now, "idle_since": now - IDLE_TIMEOUT,
            **origin.params(),
        }  # fmt: skip
        session = await self.store.fetch_one(Session, ADVANCE_SESSION, params)
        return session or await self._find_refreshed_session(session_id, number, now)

    async def _find_refreshed_session(
        self, session_id: uuid.UUID, number: int, now: dt.datetime
    ) -> Session:
        """Return the session if another request has just used the token; else refuse the token."""
        session = await self.get(session_id)
        if session is None:
            raise _refusal("refresh_token_not_found", "Refresh Token Not Found")
        if session.counter == number + 1 and session.refreshed_at > now - REUSE_INTERVAL:
            return session
        await self.store.change(END_SESSION, {"id": session_id})
        if session.counter == number:
            raise _refusal("session_expired", "Session Expired (Inactivity)")
        log.warning("refresh_token_reused", session=str(session_id), user=str(session.user_id))
        raise _refusal("refresh_token_already_used", "Already Used")

    async def get(self, session_id: uuid.UUID) -> Session | None:
        """Return a session, or None if it has ended."""
        return await self.store.fetch_one(Session, GET_SESSION, {"id": session_id})

    async def end(self, session: Session, scope: SignOutScope) -> None:
        """End this session, all sessions of its user, or all others."""
        statement = {
            SignOutScope.LOCAL: END_SESSION,
            SignOutScope.GLOBAL: END_ALL_SESSIONS,
            SignOutScope.OTHERS: END_OTHER_SESSIONS,
        }[scope]
        await self.store.change(statement, {"id": session.id, "user": session.user_id})


def _refusal(code: str, reason: str) -> errors.SignInRejected:
    return errors.SignInRejected(f"Invalid Refresh Token: {reason}", status=400, code=code)
