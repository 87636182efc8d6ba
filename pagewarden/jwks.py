"""The public keys of a Supabase project: fetched, kept for a while, fetched again when need be."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import httpx
import jwt
import pydantic

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Callable

PATH = "/auth/v1/.well-known/jwks.json"

ALGORITHMS = frozenset({"RS256", "ES256"})

_FRESH_SECONDS = 600.0
# While the project does not answer, its last keys count for so long after they were fetched.
_STALE_SECONDS = 3600.0
# Strangers can name keys that do not exist; that must not become a flood of requests.
_PAUSE_SECONDS = 10.0
_TIMEOUT_SECONDS = 5.0
_MAX_BYTES = 1_000_000


class _Answer(pydantic.BaseModel):
    keys: list[dict[str, Any]]


class PublicKeys:
    """The keys behind one URL."""

    def __init__(self, url: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._now = now
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._fetching = asyncio.Lock()

    async def find(self, key_id: str) -> jwt.PyJWK | None:
        """Give the key of this name, None if the project has none.

        A project that does not answer raises SignInAway, unless its last keys still count.
        """
        if self._age() < _FRESH_SECONDS and (key := self._keys.get(key_id)):
            return key
        async with self._fetching:
            trouble = await self._refresh(key_id)
        key = self._keys.get(key_id) if self._age() < _STALE_SECONDS else None
        if key is None and trouble is not None:
            raise trouble
        return key

    def _age(self) -> float:
        return self._now() - self._fetched_at

    async def _refresh(self, key_id: str) -> errors.SignInAway | None:
        """Fetch the keys, unless somebody did while we waited, or it was tried a moment ago."""
        if self._age() < _FRESH_SECONDS and key_id in self._keys:
            return None
        if self._now() - self._tried_at < _PAUSE_SECONDS:
            known = self._fetched_at >= self._tried_at
            return None if known else self._away("it did not answer a moment ago")
        self._tried_at = self._now()
        try:
            self._keys = await self._fetch()
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as exc:
            return self._away(str(exc) or type(exc).__name__)
        self._fetched_at = self._now()
        return None

    def _away(self, reason: str) -> errors.SignInAway:
        return errors.SignInAway(
            f"the keys that tokens are checked with cannot be fetched from {self._url}: {reason}"
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
                if len(body) > _MAX_BYTES:
                    raise ValueError("the answer is too long")
        return _parse(bytes(body))


def _parse(body: bytes) -> dict[str, jwt.PyJWK]:
    found = map(_key, _Answer.model_validate_json(body).keys)
    return {key.key_id: key for key in found if key and key.key_id}


def _key(entry: dict[str, Any]) -> jwt.PyJWK | None:
    """Read one key; of a kind that we do not use, nothing."""
    try:
        key = jwt.PyJWK(entry)
    except (jwt.PyJWTError, TypeError):
        return None
    # A secret that is published (kind oct) would let everybody sign.
    return key if key.algorithm_name in ALGORITHMS and key.public_key_use != "enc" else None
