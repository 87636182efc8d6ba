"""Secrets that everybody knows, or could guess."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from pagewarden import unverified

MIN_LENGTH = 32
_MIN_DIFFERENT = 8
# What each installation of the Supabase CLI, and the example of a self-hosted one, starts with.
_DEFAULTS = frozenset(
    {
        "super-secret-jwt-token-with-at-least-32-characters-long",
        "your-super-secret-jwt-token-with-at-least-32-characters-long",
        "sb_secret_N7UND0UgjKTVK-Uodkm0Hg_xSvEMPvz",
    }
)
_ISSUER_OF_DEFAULTS = "supabase-demo"


def is_default(secret: str) -> bool:
    """Tell whether this is a secret, or a key, that comes with an installation."""
    if secret in _DEFAULTS:
        return True
    try:
        claims = unverified.claims(secret)
    except ValueError:
        return False
    return claims.get("iss") == _ISSUER_OF_DEFAULTS


def is_weak(secret: str) -> bool:
    """Tell whether this is a default, or too short or too plain to have been drawn at random."""
    return is_default(secret) or len(secret) < MIN_LENGTH or len(set(secret)) < _MIN_DIFFERENT


def is_this_machine(url: str) -> bool:
    """Tell whether a URL leads to this machine only, where defaults harm nobody."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
