"""Take secrets out of what is written down where others may read it: logs and traces.

Two nets, one behind the other: what looks like a secret wherever it stands, and the very secrets of
this process, which conceal() was told.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

HIDDEN = "***"

# Shorter ones may be ordinary words, and would make holes in every line.
_SHORTEST = 12
_NAMES = r"password|passwd|secret|token|signature|credential|api_?key|authorization|cookie"
_SECRET_NAME = re.compile(rf".*(?:{_NAMES})", re.IGNORECASE)
# Most words have none of these, and need no closer look.
_SIGNS = ("://", "=", "bearer", "basic", "hooks.slack", "eyj", "sb_secret_", "whsec_")
# What stands before a secret is kept, in the group.
_LOOKS = re.compile(
    r"(://[^\s/:@]*:)[^\s/]+(?=@)"  # the password of a URL
    rf"|((?:{_NAMES})=)[^\s&\"']+"  # in a query, or in words for libpq
    r"|(\b(?:bearer|basic)\s+)[\w.~+/=-]{6,}"
    r"|(hooks\.slack\.com/)\S+"
    r"|()\beyJ[\w-]+\.[\w-]+\.[\w-]*"  # a signed token
    r"|()\b(?:sb_secret_|whsec_)[\w+/=-]+",
    re.IGNORECASE,
)

_concealed: set[str] = set()


def conceal(*secrets: str | None) -> None:
    """Have these never written down; of a URL its password alone, too."""
    for secret in filter(None, secrets):
        parts = {secret}
        if "://" in secret:
            password = _password(secret)
            parts |= {password, unquote(password)}
        _concealed.update(part for part in parts if len(part) >= _SHORTEST)


def redacted(value: object, *, name: str = "") -> object:
    """Give the same without secrets, made of what JSON knows; name says what it is."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if _is_secret(name):
        return HIDDEN
    if isinstance(value, Mapping):
        return {str(key): redacted(part, name=str(key)) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [redacted(part) for part in value]
    return text(str(value))


def text(words: str) -> str:
    """Give the same words without secrets."""
    for secret in _concealed:
        words = words.replace(secret, HIDDEN)
    lowered = words.lower()
    if not any(sign in lowered for sign in _SIGNS):
        return words
    return _LOOKS.sub(lambda found: f"{found[found.lastindex or 0]}{HIDDEN}", words)


@functools.lru_cache(1000)
def _is_secret(name: str) -> bool:
    return _SECRET_NAME.fullmatch(name) is not None


def _password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:  # then it is no URL
        return ""
