"""Sessions: begun by whoever signs in, carried on by refresh tokens, ended by signing out."""

from __future__ import annotations

import datetime as dt
import enum
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from pagewarden import errors
from pagewarden.local.sign_in import refresh_tokens, statements

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable

    from pagewarden.local.sign_in.stores import Store

log = structlog.get_logger(__name__)

# A client that refreshes twice at once, or did not get the answer, may ask again for so long.
REUSE_INTERVAL = dt.timedelta(seconds=10)
# A session that nobody refreshes for so long is over.
IDLE_TIME = dt.timedelta(days=30)

_USER_AGENT_LENGTH = 500


class Scope(enum.StrEnum):
    """Which sessions signing out ends."""

    GLOBAL = "global"
    LOCAL = "local"
    OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a request comes from; address is empty when it is not known."""

    address: str
    user_agent: str

    def params(self) -> dict[str, Any]:
        """Give what is stored of it."""
        try:
            address = ipaddress.ip_address(self.address.partition("%")[0])
        except ValueError:
            address = None
        return {"address": address, "user_agent": self.user_agent[:_USER_AGENT_LENGTH]}


@dataclass(frozen=True, slots=True)
class Session:
    """A row of auth.sessions; counter is the number of the refresh token that is good."""

    id: uuid.UUID
    user_id: uuid.UUID
    counter: int
    refreshed_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Sessions:
    """Everything in auth.sessions."""

    store: Store
    tokens: refresh_tokens.RefreshTokens
    now: Callable[[], dt.datetime]

    async def begin(self, user_id: uuid.UUID, origin: Origin) -> Session:
        """Start a session of somebody who has shown who they are."""
        now = self.now()
        params = {"user": user_id, "now": now, "idle_since": now - IDLE_TIME, **origin.params()}
        (session,) = await self.store.all(Session, statements.BEGIN_SESSION, params)
        return session

    async def carry_on(self, token: str, origin: Origin) -> Session:
        """Use up a refresh token; the session that comes back has the next one.

        A token that was used before ends the session, for one of the two who had it is a thief.
        """
        read = self.tokens.read(token)
        if read is None:
            raise _refused("refresh_token_not_found", "Refresh Token Not Found")
        session_id, number = read
        now = self.now()
        params = {
            "id": session_id, "counter": number, "now": now, "idle_since": now - IDLE_TIME,
            **origin.params(),
        }  # fmt: skip
        session = await self.store.one(Session, statements.ADVANCE_SESSION, params)
        return session or await self._carried_on_by_another(session_id, number, now)

    async def _carried_on_by_another(
        self, session_id: uuid.UUID, number: int, now: dt.datetime
    ) -> Session:
        session = await self.get(session_id)
        if session is None:
            raise _refused("refresh_token_not_found", "Refresh Token Not Found")
        if session.counter == number + 1 and session.refreshed_at > now - REUSE_INTERVAL:
            return session
        await self.store.change(statements.END_SESSION, {"id": session_id})
        if session.counter == number:
            raise _refused("session_expired", "Session Expired (Inactivity)")
        log.warning("refresh_token_reused", session=str(session_id), user=str(session.user_id))
        raise _refused("refresh_token_already_used", "Already Used")

    async def get(self, session_id: uuid.UUID) -> Session | None:
        """Find a session."""
        return await self.store.one(Session, statements.GET_SESSION, {"id": session_id})

    async def end(self, session: Session, scope: Scope) -> None:
        """End this session, all of the person, or all but this one."""
        statement = {
            Scope.LOCAL: statements.END_SESSION,
            Scope.GLOBAL: statements.END_ALL_SESSIONS,
            Scope.OTHERS: statements.END_OTHER_SESSIONS,
        }[scope]
        await self.store.change(statement, {"id": session.id, "user": session.user_id})


def _refused(code: str, reason: str) -> errors.SignInRefused:
    return errors.SignInRefused(f"Invalid Refresh Token: {reason}", status=400, code=code)
