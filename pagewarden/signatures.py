"""Secrets and signatures of webhooks, as Standard Webhooks has them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

_PREFIX = "whsec_"
_RANDOM_BYTES = 32


def make_secret() -> str:
    """Make a secret as receivers' libraries take it."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_RANDOM_BYTES)).decode()


def key_of(secret: str) -> bytes:
    """Give the bytes that sign: a secret is their base64. Anything else is a ValueError."""
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error as exc:
        raise ValueError("the secret of webhooks is not base64") from exc


def headers(secret: str, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Write the headers by which a receiver knows who sent a message, when, and which one."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(secret, message_id, timestamp, body),
    }


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Write the header webhook-signature of a message."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.digest(key_of(secret), signed, hashlib.sha256)
    return "v1," + base64.b64encode(digest).decode()
