"""AuthService: sign in, refresh, recover, issue tokens."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import jwt
import structlog
from psycopg.types.json import Jsonb

from pagewarden import errors
from pagewarden.auth import tokens
from pagewarden.auth.embedded import login_limits, sessions, store, users

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import argon2

    from pagewarden.auth.embedded.sessions import RefreshTokenCodec
    from pagewarden.auth.keys import InstallationKeys

log = structlog.get_logger(__name__)

ACCESS_SECONDS = 3600
# A user gets at most one recovery link in this time.
RECOVERY_PAUSE = dt.timedelta(minutes=1)
_MAX_METADATA_BYTES = 4096


@dataclass(frozen=True, slots=True)
class TokenPair:
    """Access and refresh token of a session; expires_at is in seconds since 1970."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_at: int
    user: users.User


@dataclass(frozen=True, slots=True)
class TokenIssuer:
    """Issues the tokens of sessions: an access token for an hour, and a refresh token."""

    site_url: str
    signing_key: jwt.PyJWK = field(repr=False)
    refresh_tokens: RefreshTokenCodec
    now: Callable[[], dt.datetime]

    def issue_tokens(self, user: users.User, session: sessions.Session) -> TokenPair:
        """Return the current tokens of a session."""
        issued_at = int(self.now().timestamp())
        expires_at = issued_at + ACCESS_SECONDS
        claims = {
            "iss": f"{self.site_url}/auth/v1",
            "sub": str(user.id),
            "aud": tokens.AUDIENCE,
            "iat": issued_at,
            "exp": expires_at,
            "role": tokens.Role.AUTHENTICATED,
            "email": user.email,
            "phone": "",
            "app_metadata": user.app_metadata,
            "user_metadata": user.user_metadata,
            "aal": "aal1",
            "session_id": str(session.id),
            "is_anonymous": False,
        }
        return TokenPair(
            jwt.encode(claims, self.signing_key, tokens.SECRET_ALGORITHM),
            self.refresh_tokens.encode(session.id, session.counter),
            expires_at,
            user,
        )


class RecoveryLinkSender(Protocol):
    """Sends a recovery link to the user of an email address."""

    async def __call__(self, email: str, link: str) -> None:
        """Send the link."""


async def log_link(email: str, link: str) -> None:
    """Write the link to the log, for the operator to forward."""
    log.warning("recovery_link", email=email, link=link)


@dataclass(frozen=True, slots=True)
class AuthenticatedUser:
    """The user of a valid access token, and the session that it belongs to."""

    user: users.User
    session: sessions.Session


@dataclass(frozen=True, slots=True)
class AccountChanges:
    """What a user changes of their own account; None leaves a value as it is."""

    password: str | None = None
    current_password: str | None = None
    data: Mapping[str, Any] | None = None


class AuthService:
    """Signs users in; `url` is that of the database, with a role that may use schema auth."""

    def __init__(  # noqa: PLR0913  # tests replace clock and hasher
        self,
        url: str,
        keys: InstallationKeys,
        *,
        site_url: str,
        deliver: RecoveryLinkSender = log_link,
        now: Callable[[], dt.datetime] = store.utc_now,
        hasher: argon2.PasswordHasher | None = None,
    ) -> None:
        if keys.jwt_secret is None:
            raise errors.SettingsError(
                "PAGEWARDEN_JWT_SECRET is not set; users cannot sign in without it"
            )
        self.site_url = site_url
        self._verifier = tokens.TokenVerifier(keys)
        self._deliver = deliver
        self._now = now
        self._store = store.AuthDatabase(url)
        self._passwords = users.ThreadedPasswordHasher(hasher or users.make_hasher())
        refresh_tokens = sessions.RefreshTokenCodec(keys.jwt_secret)
        self._issuer = TokenIssuer(
            site_url, tokens.make_signing_key(keys.jwt_secret), refresh_tokens, now
        )
        self.users = users.UserManager(self._store, self._passwords, site_url, now)
        self._sessions = sessions.SessionManager(self._store, refresh_tokens, now)

    async def sign_in(self, email: str, password: str, origin: sessions.RequestOrigin) -> TokenPair:
        """Start a session of the user with this password; failed attempts are limited."""
        email = email.strip().lower()[: users.MAX_EMAIL_LENGTH]
        attempt = login_limits.LoginAttempt.for_sign_in(email, origin.address)
        await login_limits.count_attempt(self._store, attempt, self._now())
        user = await self.users.find(email)
        encrypted = user.encrypted_password if user else None
        is_right = await self._passwords.is_correct(encrypted, password)
        if user is None or not is_right or user.is_banned(self._now()):
            log.info("sign_in_failed", address=origin.address)
            raise errors.SignInRejected(
                "Invalid login credentials", status=400, code="invalid_credentials"
            )
        await login_limits.uncount_attempt(self._store, attempt)
        return self._issuer.issue_tokens(user, await self._sessions.start(user.id, origin))

    async def refresh(self, token: str, origin: sessions.RequestOrigin) -> TokenPair:
        """Continue a session by a refresh token that has not been used."""
        session = await self._sessions.refresh(token, origin)
        user = await self.users.get(session.user_id)
        if user is None or user.is_banned(self._now()):
            raise errors.SignInRejected(
                "Invalid Refresh Token: User Banned", status=400, code="user_banned"
            )
        return self._issuer.issue_tokens(user, session)

    async def count_recovery(self, origin: sessions.RequestOrigin) -> None:
        """Count a recovery request; raise SignInRejected (429) if there were too many."""
        await login_limits.count_attempt(
            self._store, login_limits.LoginAttempt.for_recovery(origin.address), self._now()
        )

    async def recover(self, email: str) -> None:
        """Send a link to the user of this address; do not reveal whether there is one."""
        try:
            email = users.normalize_email(email)
            link = await self.users.start_recovery(email, min_interval=RECOVERY_PAUSE)
            if link is not None:
                await self._deliver(email, link)
        except errors.PagewardenError as exc:
            log.warning("recovery_failed", error=str(exc))

    async def use_recovery(
        self, token: str, email: str | None, origin: sessions.RequestOrigin
    ) -> TokenPair:
        """Start a session by the token of a recovery link, which is valid once."""
        user = await self.users.use_recovery(token, email)
        if user is None or user.is_banned(self._now()):
            raise errors.SignInRejected(
                "Token has expired or is invalid", status=403, code="otp_expired"
            )
        return self._issuer.issue_tokens(user, await self._sessions.start(user.id, origin))

    async def authenticate(self, token: str) -> AuthenticatedUser:
        """Return user and session of an access token; raise SignInRejected if it is invalid."""
        try:
            caller = await self._verifier.verify(token)
            user_id, session_id = (uuid.UUID(caller.claims[name]) for name in ("sub", "session_id"))
        except errors.NotSignedIn as exc:
            raise errors.SignInRejected(str(exc), status=403, code="bad_jwt") from exc
        except (KeyError, ValueError, TypeError, AttributeError) as exc:
            raise errors.SignInRejected(
                "the token does not belong to a session", status=403, code="bad_jwt"
            ) from exc
        session, user = await self._sessions.get(session_id), await self.users.get(user_id)
        if session is None or user is None or session.user_id != user_id:
            raise errors.SignInRejected(
                "Session from session_id claim in JWT does not exist",
                status=403,
                code="session_not_found",
            )
        if user.is_banned(self._now()):
            raise errors.SignInRejected("User is banned", status=403, code="user_banned")
        return AuthenticatedUser(user, session)

    async def change(self, user: AuthenticatedUser, changes: AccountChanges) -> users.User:
        """Change the password or the metadata of a user."""
        if changes.password is not None:
            await self._change_password(user, changes.password, changes.current_password)
        if changes.data is not None:
            await self._change_metadata(user, changes.data)
        return await self.users.get(user.user.id) or user.user

    async def _change_password(
        self, current: AuthenticatedUser, password: str, old_password: str | None
    ) -> None:
        old_hash = current.user.encrypted_password
        if old_password is not None and not await self._passwords.is_correct(
            old_hash, old_password
        ):
            raise errors.SignInRejected(
                "the current password is incorrect", status=400, code="invalid_credentials"
            )
        encrypted = await self._passwords.hash_password(password)
        if await self._passwords.is_correct(old_hash, password):
            raise errors.SignInRejected(
                "New password should be different from the old password.",
                status=422,
                code="same_password",
            )
        params = {
            "id": current.user.id, "encrypted_password": encrypted, "kept": current.session.id,
            "now": self._now(),
        }  # fmt: skip
        await self._store.change(store.SET_PASSWORD, params)

    async def _change_metadata(self, current: AuthenticatedUser, data: Mapping[str, Any]) -> None:
        merged = {k: v for k, v in {**current.user.user_metadata, **data}.items() if v is not None}
        # Every token contains the metadata, and servers refuse tokens that are too long.
        if len(json.dumps(merged)) > _MAX_METADATA_BYTES:
            raise errors.SignInRejected(
                f"user_metadata is limited to {_MAX_METADATA_BYTES} bytes; store less in it",
                status=422,
                code="validation_failed",
            )
        params = {"id": current.user.id, "data": Jsonb(merged), "now": self._now()}
        await self._store.change(store.SET_METADATA, params)

    async def sign_out(
        self, token: str, scope: sessions.SignOutScope = sessions.SignOutScope.LOCAL
    ) -> None:
        """End the session of an access token, all sessions of its user, or all others.

        Other services accept their access tokens until they expire.
        """
        await self._sessions.end((await self.authenticate(token)).session, scope)

    async def require_ready(self) -> None:
        """Raise an error if the database is away, or belongs to a Supabase project."""
        await self._store.require_embedded_sign_in()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._store.aclose()
