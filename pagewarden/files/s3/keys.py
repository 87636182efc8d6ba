"""Paths as keys that every bucket takes: Supabase Storage wants ASCII, and not all of it."""

from __future__ import annotations

from urllib.parse import quote, unquote

from pagewarden import errors

_MAX_BYTES = 1024


def of_path(path: str, prefix: str | None) -> str:
    """Write what is unusual in a path as `=` and two hexadecimal digits for each byte."""
    key = quote(path, safe="/ ()").replace("%", "=").replace("~", "=7E")
    if len(key) + len(prefix or "") >= _MAX_BYTES:
        raise errors.UnsafePath(f"the path {path[:200]!r} is too long for a bucket; shorten it")
    return key


def to_path(key: str) -> str:
    """Undo it."""
    return unquote(key.replace("=", "%"))
