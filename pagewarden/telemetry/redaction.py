"""Remove secrets from logs and traces.

Two filters: patterns of anything that looks like a secret, and the exact secrets of this process,
which it passes to register_secrets().
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

HIDDEN = "***"

# Shorter secrets may be ordinary words.
_MIN_LENGTH = 12
_NAMES = r"password|passwd|secret|token|signature|credential|api_?key|authorization|cookie"
_SECRET_NAME = re.compile(rf".*(?:{_NAMES})", re.IGNORECASE)
# Text without any of these needs no pattern matching.
_MARKERS = ("://", "=", "bearer", "basic", "hooks.slack", "eyj", "sb_secret_", "whsec_")
# The groups keep what precedes a secret.
_PATTERN = re.compile(
    r"(://[^\s/:@]*:)[^\s/]+(?=@)"  # the password of a URL
    rf"|((?:{_NAMES})=)[^\s&\"']+"  # in a query, or in words for libpq
    r"|(\b(?:bearer|basic)\s+)[\w.~+/=-]{6,}"
    r"|(hooks\.slack\.com/)\S+"
    r"|()\beyJ[\w-]+\.[\w-]+\.[\w-]*"  # a signed token
    r"|()\b(?:sb_secret_|whsec_)[\w+/=-]+",
    re.IGNORECASE,
)

_registered: set[str] = set()


def register_secrets(*secrets: str | None) -> None:
    """Redact these values from now on; of a URL, also its password alone."""
    for secret in filter(None, secrets):
        parts = {secret}
        if "://" in secret:
            password = _find_password(secret)
            parts |= {password, unquote(password)}
        _registered.update(part for part in parts if len(part) >= _MIN_LENGTH)


def redact(value: object, *, name: str = "") -> object:
    """Return a copy without secrets, of JSON types; name is the key of the value."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if _is_secret_name(name):
        return HIDDEN
    if isinstance(value, Mapping):
        return {str(key): redact(part, name=str(key)) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [redact(part) for part in value]
    return redact_text(str(value))


def redact_text(text: str) -> str:
    """Return the text without secrets."""
    for secret in _registered:
        text = text.replace(secret, HIDDEN)
    lowered = text.lower()
    if not any(marker in lowered for marker in _MARKERS):
        return text
    return _PATTERN.sub(lambda match: f"{match[match.lastindex or 0]}{HIDDEN}", text)


@functools.lru_cache(1000)
def _is_secret_name(name: str) -> bool:
    return _SECRET_NAME.fullmatch(name) is not None


def _find_password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:  # not a URL
        return ""
