"""Detect default, weak and malformed secrets; make webhook secrets; read unverified claims."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import secrets
from typing import Any
from urllib.parse import urlsplit

MIN_LENGTH = 32
_MIN_DISTINCT_CHARACTERS = 8

# Secrets that the Supabase CLI and the self-hosting example of Supabase come with.
_DEFAULTS = frozenset(
    {
        "super-secret-jwt-token-with-at-least-32-characters-long",
        "your-super-secret-jwt-token-with-at-least-32-characters-long",
        "sb_secret_N7UND0UgjKTVK-Uodkm0Hg_xSvEMPvz",
    }
)
_ISSUER_OF_DEFAULTS = "supabase-demo"

_WEBHOOK_PREFIX = "whsec_"
_WEBHOOK_KEY_BYTES = 32


def is_default(secret: str) -> bool:
    """Return whether this is a published secret, or a key signed with one."""
    if secret in _DEFAULTS:
        return True
    try:
        claims = read_unverified_claims(secret)
    except ValueError:
        return False
    return claims.get("iss") == _ISSUER_OF_DEFAULTS


def is_weak(secret: str) -> bool:
    """Return whether this is a default secret, too short, or too repetitive to be random."""
    distinct = len(set(secret))
    return is_default(secret) or len(secret) < MIN_LENGTH or distinct < _MIN_DISTINCT_CHARACTERS


def is_loopback_url(url: str) -> bool:
    """Return whether a URL leads to this machine only, where default secrets are safe."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_unverified_claims(token: str) -> dict[str, Any]:
    """Read the claims of a token without verifying it; ValueError if it is not a token."""
    import jwt  # noqa: PLC0415  # loads cryptography, which few processes need here

    try:
        return jwt.decode(token, options={"verify_signature": False})
    except jwt.InvalidTokenError as exc:
        raise ValueError(str(exc)) from exc


def make_webhook_secret() -> str:
    """Generate a webhook secret in the format of Standard Webhooks."""
    return _WEBHOOK_PREFIX + base64.b64encode(secrets.token_bytes(_WEBHOOK_KEY_BYTES)).decode()


def decode_webhook_secret(secret: str) -> bytes:
    """Return the signing key that a webhook secret encodes; ValueError if it is not base64."""
    try:
        return base64.b64decode(secret.removeprefix(_WEBHOOK_PREFIX), validate=True)
    except binascii.Error as exc:
        raise ValueError("the webhook secret is not base64") from exc
