"""Tokens of signed uploads to this server, in the form of Supabase Storage.

A token is a JWT that names one file of the store; ours also fix its size and SHA-256.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import jwt

from pagewarden.storage import paths
from pagewarden.storage.base import check_url_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

UPLOADS_PREFIX = "/storage/v1/object/upload/sign"

_PURPOSE = b"pagewarden upload"
_ALGORITHM = "HS256"
_CLAIMS = ["url", "size", "sha256", "iat", "exp"]


@dataclass(frozen=True, slots=True)
class UploadGrant:
    """The one file that a token allows to upload."""

    path: str
    size: int
    sha256: str


class UploadSigner:
    """Signs and verifies upload URLs with a key that is derived from the secret key."""

    def __init__(self, secret_key: str, *, now: Callable[[], float] = time.time) -> None:
        # No other token of the installation is signed with this key.
        self._key = hmac.new(secret_key.encode(), _PURPOSE, hashlib.sha256).digest()
        self._now = now

    def make_url(self, grant: UploadGrant, seconds: int) -> str:
        """Return the URL on this server to which the file can be PUT."""
        paths.check_path(grant.path)
        check_url_seconds(seconds)
        issued = int(self._now())
        claims = {
            "url": grant.path,
            "upsert": False,
            "size": grant.size,
            "sha256": grant.sha256,
            "iat": issued,
            "exp": issued + seconds,
        }
        token = jwt.encode(claims, self._key, _ALGORITHM)
        return f"{UPLOADS_PREFIX}/{quote(grant.path)}?{urlencode({'token': token})}"

    def verify(self, path: str, token: str) -> UploadGrant | None:
        """Return what a token allows at this (decoded) path now; None if nothing."""
        try:
            claims = jwt.decode(
                token,
                self._key,
                algorithms=[_ALGORITHM],
                options={"require": _CLAIMS, "verify_exp": False, "verify_iat": False},
            )
        except jwt.InvalidTokenError:
            return None
        if claims["url"] != path or not paths.is_path(path) or self._now() > claims["exp"]:
            return None
        return UploadGrant(path, claims["size"], claims["sha256"])
