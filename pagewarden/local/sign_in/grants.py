"""What somebody gets who was let in: an access token for an hour, and a refresh token."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import jwt

from pagewarden import tokens

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable

    from pagewarden.local.sign_in import refresh_tokens, sessions, users

ACCESS_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Grant:
    """The tokens of a session, and whose they are; expires_at is in seconds since 1970."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_at: int
    user: users.User


@dataclass(frozen=True, slots=True)
class Grants:
    """Signs tokens for people of this site."""

    site_url: str
    signing_key: jwt.PyJWK = field(repr=False)
    refresh_tokens: refresh_tokens.RefreshTokens
    now: Callable[[], dt.datetime]

    def make(self, user: users.User, session: sessions.Session) -> Grant:
        """Make the tokens of a session as it is now."""
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
        return Grant(
            jwt.encode(claims, self.signing_key, tokens.SECRET_ALGORITHM),
            self.refresh_tokens.make(session.id, session.counter),
            expires_at,
            user,
        )
