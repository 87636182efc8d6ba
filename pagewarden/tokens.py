"""Who calls: tokens of people and keys of services, checked before anything else is done.

A token counts when its signature, algorithm, time, audience, issuer and role are right. Which
algorithm a key may be used with is decided by the key, never by the token.
"""

from __future__ import annotations

import base64
import enum
import hmac
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jwt

from pagewarden import database, errors, jwks
from pagewarden import keys as key_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pagewarden.settings import Settings

AUDIENCE = "authenticated"
LEEWAY_SECONDS = 10
SECRET_ALGORITHM = "HS256"  # noqa: S105  # the name of an algorithm
_MAX_LENGTH = 16_384


class Role(enum.StrEnum):
    """What a token or key makes of its bearer; also the role of Postgres that acts."""

    ANON = "anon"
    AUTHENTICATED = "authenticated"
    SERVICE = "service_role"


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody whose token or key was checked; user_id and email are None for keys."""

    role: Role
    user_id: str | None = None
    email: str | None = None
    claims: Mapping[str, Any] = field(default_factory=dict)
    token: str | None = field(default=None, repr=False)

    @property
    def is_service(self) -> bool:
        """Tell whether one of our own services calls."""
        return self.role is Role.SERVICE

    def user(self) -> database.User:
        """Give the person for Database.acting_as(); whoever is no person is refused."""
        if self.role is not Role.AUTHENTICATED or self.user_id is None:
            raise errors.NotSignedIn("this is for people who are signed in; sign in first")
        return database.User(self.user_id, self.token)


class Verifier:
    """Checks the tokens and keys of one project; issuer is checked where it is given."""

    def __init__(
        self,
        keys: key_module.Keys,
        *,
        public_keys: jwks.PublicKeys | None = None,
        issuer: str | None = None,
    ) -> None:
        self._keys = keys
        self._signing_key = signing_key(keys.jwt_secret) if keys.jwt_secret else None
        self._public_keys = public_keys
        self._issuer = issuer

    async def caller(self, headers: Mapping[str, str]) -> Caller:
        """Find out who sent a request with these headers (their names in lower case).

        A token in Authorization comes before a key in apikey: with both, the person acts.
        """
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        credential = bearer.strip() if scheme.lower() == "bearer" else ""
        credential = credential or headers.get("apikey", "")
        if not credential:
            raise errors.NotSignedIn(
                "there is no token; sign in, and send it as Authorization: Bearer …"
            )
        return self._by_key(credential) or await self.verify(credential)

    async def verify(self, token: str) -> Caller:
        """Check a token, and say whose it is."""
        try:
            return self._made_of(token, await self._claims(token))
        except jwt.ExpiredSignatureError as exc:
            raise errors.NotSignedIn("the token has expired; refresh it, or sign in") from exc
        except jwt.PyJWTError as exc:
            raise errors.NotSignedIn(f"the token does not count ({exc}); sign in") from exc

    def _by_key(self, credential: str) -> Caller | None:
        """Recognise a key, in a time that says nothing about how much of it was right."""
        given = credential.encode(errors="replace")
        if hmac.compare_digest(given, self._keys.secret_key.encode()):
            return Caller(Role.SERVICE, claims={"role": Role.SERVICE})
        publishable = self._keys.publishable_key
        if publishable is not None and hmac.compare_digest(given, publishable.encode()):
            return Caller(Role.ANON, claims={"role": Role.ANON})
        return None

    async def _claims(self, token: str) -> dict[str, Any]:
        if len(token) > _MAX_LENGTH:
            raise jwt.InvalidTokenError("it is too long")
        key = await self._key(jwt.get_unverified_header(token))
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[key.algorithm_name],
            leeway=LEEWAY_SECONDS,
            # Keys of the old kind are tokens without an audience, so it is checked by role.
            options={"require": ["exp"], "verify_aud": False},
        )
        return claims

    async def _key(self, header: Mapping[str, Any]) -> jwt.PyJWK:
        algorithm, key = str(header.get("alg")), None
        if algorithm == SECRET_ALGORITHM:
            key = self._signing_key
        elif algorithm in jwks.ALGORITHMS and self._public_keys and header.get("kid"):
            key = await self._public_keys.find(header["kid"])
        if key is None:
            raise jwt.InvalidKeyError("it is signed with a key that is not known here")
        return key

    def _made_of(self, token: str, claims: Mapping[str, Any]) -> Caller:
        try:
            role = Role(str(claims.get("role")))
        except ValueError as exc:
            raise jwt.InvalidTokenError("it names no role that is known here") from exc
        if role is not Role.AUTHENTICATED:
            return Caller(role, claims=claims, token=token)
        self._require_ours(claims)
        return Caller(role, _user_id(claims), claims.get("email") or None, claims, token)

    def _require_ours(self, claims: Mapping[str, Any]) -> None:
        audience = claims.get("aud")
        if AUDIENCE not in (audience if isinstance(audience, list) else [audience]):
            raise jwt.InvalidAudienceError("it is meant for somebody else")
        if self._issuer is not None and claims.get("iss") != self._issuer:
            raise jwt.InvalidIssuerError("it was issued by somebody else")


def make_verifier(settings: Settings) -> Verifier:
    """Make the verifier for the project, or the embedded server, that the settings name."""
    url = settings.supabase_url
    return Verifier(
        key_module.load(settings),
        public_keys=jwks.PublicKeys(url.rstrip("/") + jwks.PATH) if url else None,
        issuer=settings.jwt_issuer,
    )


def signing_key(secret: str) -> jwt.PyJWK:
    """Bind a secret to the one algorithm it may be used with."""
    encoded = base64.urlsafe_b64encode(secret.encode()).decode()
    return jwt.PyJWK({"kty": "oct", "k": encoded}, SECRET_ALGORITHM)


def _user_id(claims: Mapping[str, Any]) -> str:
    try:
        return str(uuid.UUID(claims.get("sub")))
    except (ValueError, TypeError, AttributeError) as exc:
        raise jwt.InvalidTokenError("it names no person") from exc
