"""The sign-in itself: what the routes do, without HTTP."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import structlog
from psycopg.types.json import Jsonb

from pagewarden import errors, tokens
from pagewarden import keys as key_module
from pagewarden.local.sign_in import (
    attempts,
    clock,
    grants,
    passwords,
    refresh_tokens,
    sessions,
    statements,
    stores,
    users,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import argon2

log = structlog.get_logger(__name__)

# Nobody gets more than one recovery link in so much time, however often it is asked for.
RECOVERY_PAUSE = dt.timedelta(minutes=1)
_METADATA_BYTES = 4096


class Deliver(Protocol):
    """How a recovery link reaches the person who has the address."""

    async def __call__(self, email: str, link: str) -> None:
        """Send the link."""


async def log_link(email: str, link: str) -> None:
    """Write the link to the log, for the operator to hand on."""
    log.warning("recovery_link", email=email, link=link)


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Somebody whose access token counts, and whose session goes on."""

    user: users.User
    session: sessions.Session


@dataclass(frozen=True, slots=True)
class Changes:
    """What a person changes of themselves; None leaves it as it is."""

    password: str | None = None
    current_password: str | None = None
    data: Mapping[str, Any] | None = None


class Service:
    """Signs people in whose home is the database of this URL (of a role that may use auth)."""

    def __init__(  # noqa: PLR0913  # clock and costs are the tests' to choose
        self,
        url: str,
        keys: key_module.Keys,
        *,
        site_url: str,
        deliver: Deliver = log_link,
        now: Callable[[], dt.datetime] = clock.utc_now,
        hasher: argon2.PasswordHasher | None = None,
    ) -> None:
        if keys.jwt_secret is None:
            raise errors.SettingsError("without PAGEWARDEN_JWT_SECRET nobody can be signed in")
        self.site_url = site_url
        self._verifier = tokens.Verifier(keys)
        self._deliver = deliver
        self._now = now
        self._store = stores.Store(url)
        self._passwords = passwords.Passwords(hasher or passwords.usual_hasher())
        numbered = refresh_tokens.RefreshTokens(keys.jwt_secret)
        self._grants = grants.Grants(site_url, tokens.signing_key(keys.jwt_secret), numbered, now)
        self.users = users.Users(self._store, self._passwords, site_url, now)
        self._sessions = sessions.Sessions(self._store, numbered, now)

    async def sign_in(self, email: str, password: str, origin: sessions.Origin) -> grants.Grant:
        """Let somebody in who knows the password."""
        email = email.strip().lower()[: users.EMAIL_LENGTH]
        attempt = attempts.Attempt.to_sign_in(email, origin.address)
        await attempts.count(self._store, attempt, self._now())
        user = await self.users.find(email)
        encrypted = user.encrypted_password if user else None
        right = await self._passwords.match(encrypted, password)
        if user is None or not right or user.is_banned(self._now()):
            log.info("sign_in_failed", address=origin.address)
            raise errors.SignInRefused(
                "Invalid login credentials", status=400, code="invalid_credentials"
            )
        await attempts.uncount(self._store, attempt)
        return self._grants.make(user, await self._sessions.begin(user.id, origin))

    async def refresh(self, token: str, origin: sessions.Origin) -> grants.Grant:
        """Let somebody stay in who has a refresh token that was not used yet."""
        session = await self._sessions.carry_on(token, origin)
        user = await self.users.get(session.user_id)
        if user is None or user.is_banned(self._now()):
            raise errors.SignInRefused(
                "Invalid Refresh Token: User Banned", status=400, code="user_banned"
            )
        return self._grants.make(user, session)

    async def count_recovery(self, origin: sessions.Origin) -> None:
        """Refuse somebody who asks for too many links."""
        await attempts.count(self._store, attempts.Attempt.to_recover(origin.address), self._now())

    async def recover(self, email: str) -> None:
        """Send a link to whoever has this address; no answer tells whether anybody has."""
        try:
            email = users.normal_email(email)
            link = await self.users.start_recovery(email, pause=RECOVERY_PAUSE)
            if link is not None:
                await self._deliver(email, link)
        except errors.PagewardenError as exc:
            log.warning("recovery_failed", error=str(exc))

    async def use_recovery(
        self, token: str, email: str | None, origin: sessions.Origin
    ) -> grants.Grant:
        """Let somebody in, once, who has the token of a link."""
        user = await self.users.use_recovery(token, email)
        if user is None or user.is_banned(self._now()):
            raise errors.SignInRefused(
                "Token has expired or is invalid", status=403, code="otp_expired"
            )
        return self._grants.make(user, await self._sessions.begin(user.id, origin))

    async def signed_in(self, token: str) -> SignedIn:
        """Say who has this access token; one whose session has ended counts no more."""
        try:
            caller = await self._verifier.verify(token)
            user_id, session_id = (uuid.UUID(caller.claims[name]) for name in ("sub", "session_id"))
        except errors.NotSignedIn as exc:
            raise errors.SignInRefused(str(exc), status=403, code="bad_jwt") from exc
        except (KeyError, ValueError, TypeError, AttributeError) as exc:
            raise errors.SignInRefused(
                "the token belongs to no session", status=403, code="bad_jwt"
            ) from exc
        session, user = await self._sessions.get(session_id), await self.users.get(user_id)
        if session is None or user is None or session.user_id != user_id:
            raise errors.SignInRefused(
                "Session from session_id claim in JWT does not exist",
                status=403,
                code="session_not_found",
            )
        if user.is_banned(self._now()):
            raise errors.SignInRefused("User is banned", status=403, code="user_banned")
        return SignedIn(user, session)

    async def change(self, who: SignedIn, changes: Changes) -> users.User:
        """Change what people may change of themselves."""
        if changes.password is not None:
            await self._change_password(who, changes.password, changes.current_password)
        if changes.data is not None:
            await self._change_metadata(who, changes.data)
        return await self.users.get(who.user.id) or who.user

    async def _change_password(self, who: SignedIn, password: str, current: str | None) -> None:
        old = who.user.encrypted_password
        if current is not None and not await self._passwords.match(old, current):
            raise errors.SignInRefused(
                "the current password is wrong", status=400, code="invalid_credentials"
            )
        encrypted = await self._passwords.encrypt(password)
        if await self._passwords.match(old, password):
            raise errors.SignInRefused(
                "New password should be different from the old password.",
                status=422,
                code="same_password",
            )
        params = {
            "id": who.user.id, "encrypted_password": encrypted, "kept": who.session.id,
            "now": self._now(),
        }  # fmt: skip
        await self._store.change(statements.SET_PASSWORD, params)

    async def _change_metadata(self, who: SignedIn, data: Mapping[str, Any]) -> None:
        merged = {k: v for k, v in {**who.user.user_metadata, **data}.items() if v is not None}
        # Each token carries it, and one that is too long is refused everywhere.
        if len(json.dumps(merged)) > _METADATA_BYTES:
            raise errors.SignInRefused(
                f"user_metadata has at most {_METADATA_BYTES} bytes; keep less there",
                status=422,
                code="validation_failed",
            )
        params = {"id": who.user.id, "data": Jsonb(merged), "now": self._now()}
        await self._store.change(statements.SET_METADATA, params)

    async def sign_out(self, who: SignedIn, scope: sessions.Scope) -> None:
        """End sessions; access tokens of theirs count until they expire, but not here."""
        await self._sessions.end(who.session, scope)

    async def require_home(self) -> None:
        """Refuse a database where Supabase Auth is at home, or one that is away."""
        await self._store.require_home()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._store.aclose()
