"""Verify access tokens and API keys; JWKS; Caller.

A token is valid if its signature, algorithm, expiry, audience, issuer and role are. The key decides
which algorithm it is used with, never the token.
"""

from __future__ import annotations

import asyncio
import base64
import enum
import hmac
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import jwt
import pydantic

from pagewarden import database, errors
from pagewarden.auth.keys import InstallationKeys, load_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pagewarden.settings import Settings

AUDIENCE = "authenticated"
SECRET_ALGORITHM = "HS256"  # noqa: S105  # the name of an algorithm
ALGORITHMS = frozenset({"RS256", "ES256"})
LEEWAY_SECONDS = 10
_MAX_TOKEN_LENGTH = 16_384

JWKS_PATH = "/auth/v1/.well-known/jwks.json"
_FRESH_SECONDS = 600.0
# While the project does not answer, its last keys remain valid for this time after their fetch.
_STALE_SECONDS = 3600.0
# A token may name any key id; unknown ids must not cause a request each.
_MIN_REFRESH_INTERVAL_SECONDS = 10.0
_TIMEOUT_SECONDS = 5.0
_MAX_JWKS_BYTES = 1_000_000


class Role(enum.StrEnum):
    """The role of a caller; also the role of Postgres that acts."""

    ANON = "anon"
    AUTHENTICATED = "authenticated"
    SERVICE = "service_role"


@dataclass(frozen=True, slots=True)
class Caller:
    """The verified sender of a request; a key has neither user_id nor email."""

    role: Role
    user_id: str | None = None
    email: str | None = None
    claims: Mapping[str, Any] = field(default_factory=dict)
    token: str | None = field(default=None, repr=False)

    @property
    def is_service(self) -> bool:
        """Tell whether the caller is one of our services."""
        return self.role is Role.SERVICE

    def user(self) -> database.User:
        """Return the user for Database.acting_as(); raise NotSignedIn if it is not a user."""
        if self.role is not Role.AUTHENTICATED or self.user_id is None:
            raise errors.NotSignedIn("this requires a signed-in user; sign in first")
        return database.User(self.user_id, self.token)


class TokenVerifier:
    """Verifies tokens and keys of one project; the issuer is verified if it is given."""

    def __init__(
        self,
        keys: InstallationKeys,
        *,
        public_keys: PublicKeys | None = None,
        issuer: str | None = None,
    ) -> None:
        self._keys = keys
        self._signing_key = make_signing_key(keys.jwt_secret) if keys.jwt_secret else None
        self._public_keys = public_keys
        self._issuer = issuer

    async def caller(self, headers: Mapping[str, str]) -> Caller:
        """Return the sender of a request with these headers, whose names are in lower case.

        A token in Authorization takes precedence over a key in apikey.
        """
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        credential = bearer.strip() if scheme.lower() == "bearer" else ""
        credential = credential or headers.get("apikey", "")
        if not credential:
            raise errors.NotSignedIn(
                "the request has no token; sign in, and send it as Authorization: Bearer …"
            )
        return self._find_by_key(credential) or await self.verify(credential)

    async def verify(self, token: str) -> Caller:
        """Verify a token, and return whose it is."""
        try:
            return self._make_caller(token, await self._decode_claims(token))
        except jwt.ExpiredSignatureError as exc:
            raise errors.NotSignedIn("the token has expired; refresh it, or sign in again") from exc
        except jwt.PyJWTError as exc:
            raise errors.NotSignedIn(f"the token is invalid ({exc}); sign in again") from exc

    def _find_by_key(self, credential: str) -> Caller | None:
        """Recognise a key; compared in constant time."""
        given = credential.encode(errors="replace")
        if hmac.compare_digest(given, self._keys.secret_key.encode()):
            return Caller(Role.SERVICE, claims={"role": Role.SERVICE})
        publishable = self._keys.publishable_key
        if publishable is not None and hmac.compare_digest(given, publishable.encode()):
            return Caller(Role.ANON, claims={"role": Role.ANON})
        return None

    async def _decode_claims(self, token: str) -> dict[str, Any]:
        if len(token) > _MAX_TOKEN_LENGTH:
            raise jwt.InvalidTokenError("it is too long")
        key = await self._find_key(jwt.get_unverified_header(token))
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[key.algorithm_name],
            leeway=LEEWAY_SECONDS,
            # Legacy API keys are tokens without an audience, so _make_caller verifies it by role.
            options={"require": ["exp"], "verify_aud": False},
        )
        return claims

    async def _find_key(self, header: Mapping[str, Any]) -> jwt.PyJWK:
        algorithm, key = str(header.get("alg")), None
        if algorithm == SECRET_ALGORITHM:
            key = self._signing_key
        elif algorithm in ALGORITHMS and self._public_keys and header.get("kid"):
            key = await self._public_keys.find(header["kid"])
        if key is None:
            raise jwt.InvalidKeyError("it is signed with an unknown key")
        return key

    def _make_caller(self, token: str, claims: Mapping[str, Any]) -> Caller:
        try:
            role = Role(str(claims.get("role")))
        except ValueError as exc:
            raise jwt.InvalidTokenError("its role is unknown") from exc
        if role is not Role.AUTHENTICATED:
            return Caller(role, claims=claims, token=token)
        self._require_audience_and_issuer(claims)
        return Caller(role, _get_user_id(claims), claims.get("email") or None, claims, token)

    def _require_audience_and_issuer(self, claims: Mapping[str, Any]) -> None:
        audience = claims.get("aud")
        if AUDIENCE not in (audience if isinstance(audience, list) else [audience]):
            raise jwt.InvalidAudienceError("its audience does not match")
        if self._issuer is not None and claims.get("iss") != self._issuer:
            raise jwt.InvalidIssuerError("its issuer does not match")


def make_verifier(settings: Settings) -> TokenVerifier:
    """Return the verifier of the project, or of the embedded server, by the settings."""
    url = settings.supabase_url
    return TokenVerifier(
        load_keys(settings),
        public_keys=PublicKeys(url.rstrip("/") + JWKS_PATH) if url else None,
        issuer=settings.jwt_issuer,
    )


def make_signing_key(secret: str) -> jwt.PyJWK:
    """Bind a secret to the one algorithm that it may be used with."""
    encoded = base64.urlsafe_b64encode(secret.encode()).decode()
    return jwt.PyJWK({"kty": "oct", "k": encoded}, SECRET_ALGORITHM)


def _get_user_id(claims: Mapping[str, Any]) -> str:
    try:
        return str(uuid.UUID(claims.get("sub")))
    except (ValueError, TypeError, AttributeError) as exc:
        raise jwt.InvalidTokenError("it has no user ID") from exc


class PublicKeys:
    """The public keys (JWKS) of a Supabase project, cached and fetched again when needed."""

    def __init__(self, url: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._now = now
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._fetching = asyncio.Lock()

    async def find(self, key_id: str) -> jwt.PyJWK | None:
        """Return the key with this id, None if the project does not have it.

        A project that does not answer raises SignInUnavailable, unless its last keys are valid.
        """
        if self._seconds_since_fetch() < _FRESH_SECONDS and (key := self._keys.get(key_id)):
            return key
        async with self._fetching:
            error = await self._refresh(key_id)
        key = self._keys.get(key_id) if self._seconds_since_fetch() < _STALE_SECONDS else None
        if key is None and error is not None:
            raise error
        return key

    def _seconds_since_fetch(self) -> float:
        return self._now() - self._fetched_at

    async def _refresh(self, key_id: str) -> errors.SignInUnavailable | None:
        """Fetch the keys, unless another task just did, or the last attempt was a moment ago."""
        if self._seconds_since_fetch() < _FRESH_SECONDS and key_id in self._keys:
            return None
        if self._now() - self._tried_at < _MIN_REFRESH_INTERVAL_SECONDS:
            last_succeeded = self._fetched_at >= self._tried_at
            return (
                None
                if last_succeeded
                else self._make_outage_error("the previous attempt failed; not retrying yet")
            )
        self._tried_at = self._now()
        try:
            self._keys = await self._fetch()
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as exc:
            return self._make_outage_error(str(exc) or type(exc).__name__)
        self._fetched_at = self._now()
        return None

    def _make_outage_error(self, reason: str) -> errors.SignInUnavailable:
        return errors.SignInUnavailable(
            f"the public keys for access tokens cannot be fetched from {self._url}: {reason}"
        )

    async def _fetch(self) -> dict[str, jwt.PyJWK]:
        async with (
            asyncio.timeout(_TIMEOUT_SECONDS),
            httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as client,
            client.stream("GET", self._url) as response,
        ):
            response.raise_for_status()
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MAX_JWKS_BYTES:
                    raise ValueError("the response is too long")
        return _parse_keys(bytes(body))


class _KeySet(pydantic.BaseModel):
    keys: list[dict[str, Any]]


def _parse_keys(body: bytes) -> dict[str, jwt.PyJWK]:
    found = map(_parse_key, _KeySet.model_validate_json(body).keys)
    return {key.key_id: key for key in found if key and key.key_id}


def _parse_key(entry: dict[str, Any]) -> jwt.PyJWK | None:
    """Parse a key; return None for a kind that is not supported."""
    try:
        key = jwt.PyJWK(entry)
    except (jwt.PyJWTError, TypeError):
        return None
    # Anyone could sign with a secret (kind oct) that is published.
    return key if key.algorithm_name in ALGORITHMS and key.public_key_use != "enc" else None
