"""Refresh tokens: the session, a number, and our signature over both.

Nothing of them is stored but the session's current number, so whoever reads the database
cannot make one; and a number below the current one tells that the token was used before.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import uuid

_PURPOSE = b"pagewarden refresh token"
_NUMBER_BYTES = 8
_MAC_BYTES = 24
_BYTES = 16 + _NUMBER_BYTES + _MAC_BYTES


class RefreshTokens:
    """Makes and reads them, with a key that is made of the secret of access tokens."""

    def __init__(self, secret: str) -> None:
        self._key = hmac.digest(secret.encode(), _PURPOSE, hashlib.sha256)

    def make(self, session: uuid.UUID, number: int) -> str:
        """Make the token of this number."""
        content = session.bytes + number.to_bytes(_NUMBER_BYTES)
        return base64.urlsafe_b64encode(content + self._mac(content)).decode()

    def read(self, token: str) -> tuple[uuid.UUID, int] | None:
        """Give session and number, or None if we did not make this token."""
        try:
            raw = base64.b64decode(token, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        content, mac = raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]
        if len(raw) != _BYTES or not hmac.compare_digest(mac, self._mac(content)):
            return None
        return uuid.UUID(bytes=content[:16]), int.from_bytes(content[16:])

    def _mac(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, hashlib.sha256)[:_MAC_BYTES]
