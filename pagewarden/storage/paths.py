"""The rules for paths in a store, and safe file names made from untrusted ones.

A path that passes `check_path` means the same in every store and on every system.
"""

from __future__ import annotations

import operator
import re
import unicodedata
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 1024

DEFAULT_NAME = "file"

_MAX_SUFFIX_BYTES = 16
_SEPARATORS = re.compile(r"[/\\]")
# A leading dot hides a file (stores use it for their own files), a leading tilde marks a temporary
# one, and Windows drops dots and spaces at the end.
_EDGES = re.compile(r"^[\s.~]+|[\s.]+\Z")
_SPECIAL = frozenset('/\\:*?"<>|')
_JOINERS = frozenset("\u200c\u200d")  # Persian, Indic scripts and emoji are written with them
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # controls, bidi overrides, lone surrogates
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(port + n for port in ("com", "lpt") for n in "123456789¹²³")}
)
_NOT_SYNCED = frozenset({"desktop.ini", "thumbs.db"})


def check_path(path: str) -> tuple[str, ...]:
    """Return the parts of a path; UnsafePath if it is not allowed."""
    parts = tuple(path.split("/"))
    for part in parts:
        if problem := _find_problem(part):
            raise errors.UnsafePath(
                f"the path {path[:200]!r} cannot be used: {problem}; "
                "create names with make_safe_name"
            )
    if len(path.encode()) > MAX_PATH_BYTES:
        raise errors.UnsafePath(f"a path may not exceed {MAX_PATH_BYTES} bytes; use shorter names")
    return parts


def check_prefix(prefix: str) -> tuple[str, ...]:
    """Return the parts of the path of a folder; an empty path is the whole store."""
    return check_path(prefix.removesuffix("/")) if prefix else ()


def is_path(path: str) -> bool:
    """Return whether check_path accepts the path."""
    try:
        check_path(path)
    except errors.UnsafePath:
        return False
    return True


def make_safe_name(name: str) -> str:
    """Turn any name into a valid one that is as similar as possible."""
    last = next((part for part in reversed(_SEPARATORS.split(name)) if part.strip()), "")
    visible = "".join(char for char in last if _is_visible(char))
    plain = "".join("_" if char in _SPECIAL else char for char in visible)
    trimmed = _EDGES.sub("", unicodedata.normalize("NFC", plain))
    if _is_reserved(trimmed):
        trimmed = f"_{trimmed}"
    return _shorten_name(trimmed) or DEFAULT_NAME


def _find_problem(part: str) -> str | None:
    return next((problem for problem, applies in _PROBLEMS if applies(part)), None)


def _has_invalid_characters(part: str) -> bool:
    return bool(_SPECIAL.intersection(part)) or not all(map(_is_visible, part))


def _is_too_long(part: str) -> bool:
    return len(part.encode()) > MAX_NAME_BYTES


def _has_invalid_edges(part: str) -> bool:
    return _EDGES.search(part) is not None


def _is_decomposed(part: str) -> bool:
    return not unicodedata.is_normalized("NFC", part)


def _is_visible(char: str) -> bool:
    return unicodedata.category(char) not in _INVISIBLE or char in _JOINERS


def _is_reserved(name: str) -> bool:
    lower = name.lower()
    return lower in _NOT_SYNCED or lower.partition(".")[0].rstrip() in _DEVICES


def _shorten_name(name: str) -> str:
    """Shorten a name to the limit of file systems, keeping its suffix."""
    encoded = name.encode()
    if len(encoded) <= MAX_NAME_BYTES:
        return name
    suffix = f".{name.rpartition('.')[2]}" if "." in name else ""
    if len(suffix.encode()) > _MAX_SUFFIX_BYTES:
        suffix = ""
    stem = encoded[: MAX_NAME_BYTES - len(suffix.encode())].decode(errors="ignore")
    return _EDGES.sub("", stem) + suffix


# In this order: lone surrogates have no encoding, so they are rejected before measuring lengths.
_PROBLEMS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("it has an empty component", operator.not_),
    ("it contains characters that are invalid in file names", _has_invalid_characters),
    (f"one of its components is longer than {MAX_NAME_BYTES} bytes", _is_too_long),
    ("one of its components begins or ends with a dot, a space or a tilde", _has_invalid_edges),
    ("one of its components is a name reserved by Windows or Dropbox", _is_reserved),
    ("it is not in Unicode normalization form C (composed)", _is_decomposed),
)
