"""What a path in a store may look like: the one place where names of others become harmless.

A path that passes here means the same in every store, and on every computer it is copied to.
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

NAMELESS = "file"

_MAX_SUFFIX_BYTES = 16
_SEPARATORS = re.compile(r"[/\\]")
# A leading dot hides a file (and is how stores name what is theirs), a leading tilde marks one as
# temporary, and Windows drops what stands at the end.
_EDGES = re.compile(r"^[\s.~]+|[\s.]+\Z")
_SPECIAL = frozenset('/\\:*?"<>|')
_JOINERS = frozenset("\u200c\u200d")  # Persian, Indic scripts and emoji are written with them
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # controls, bidi tricks, half characters
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(port + n for port in ("com", "lpt") for n in "123456789¹²³")}
)
_NOT_SYNCED = frozenset({"desktop.ini", "thumbs.db"})


def check_path(path: str) -> tuple[str, ...]:
    """Take a path apart, or refuse it with UnsafePath."""
    parts = tuple(path.split("/"))
    for part in parts:
        if trouble := _trouble(part):
            raise errors.UnsafePath(
                f"the path {path[:200]!r} cannot be used: {trouble}; make names with safe_name"
            )
    if len(path.encode()) > MAX_PATH_BYTES:
        raise errors.UnsafePath(f"a path of more than {MAX_PATH_BYTES} bytes cannot be used")
    return parts


def check_prefix(prefix: str) -> tuple[str, ...]:
    """Take the path of a folder apart; nothing stands for the whole store."""
    return check_path(prefix.removesuffix("/")) if prefix else ()


def is_path(path: str) -> bool:
    """Tell whether check_path would pass it."""
    try:
        check_path(path)
    except errors.UnsafePath:
        return False
    return True


def safe_name(name: str) -> str:
    """Make a name for one file of whatever somebody called it, keeping what can be kept."""
    last = next((part for part in reversed(_SEPARATORS.split(name)) if part.strip()), "")
    seen = "".join(char for char in last if _is_visible(char))
    plain = "".join("_" if char in _SPECIAL else char for char in seen)
    trimmed = _EDGES.sub("", unicodedata.normalize("NFC", plain))
    if _is_reserved(trimmed):
        trimmed = f"_{trimmed}"
    return _cut(trimmed) or NAMELESS


def _trouble(part: str) -> str | None:
    return next((trouble for trouble, is_so in _TROUBLES if is_so(part)), None)


def _has_bad_characters(part: str) -> bool:
    return bool(_SPECIAL.intersection(part)) or not all(map(_is_visible, part))


def _is_too_long(part: str) -> bool:
    return len(part.encode()) > MAX_NAME_BYTES


def _has_bad_edges(part: str) -> bool:
    return _EDGES.search(part) is not None


def _is_decomposed(part: str) -> bool:
    return not unicodedata.is_normalized("NFC", part)


def _is_visible(char: str) -> bool:
    return unicodedata.category(char) not in _INVISIBLE or char in _JOINERS


def _is_reserved(name: str) -> bool:
    lower = name.lower()
    return lower in _NOT_SYNCED or lower.partition(".")[0].rstrip() in _DEVICES


def _cut(name: str) -> str:
    """Shorten a name to what a disk can hold, in front of its suffix."""
    encoded = name.encode()
    if len(encoded) <= MAX_NAME_BYTES:
        return name
    suffix = f".{name.rpartition('.')[2]}" if "." in name else ""
    if len(suffix.encode()) > _MAX_SUFFIX_BYTES:
        suffix = ""
    stem = encoded[: MAX_NAME_BYTES - len(suffix.encode())].decode(errors="ignore")
    return _EDGES.sub("", stem) + suffix


# In this order: half characters cannot be encoded, so they go before the length is measured.
_TROUBLES: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("a part of it is empty", operator.not_),
    ("it has characters that are no good in a name", _has_bad_characters),
    (f"a part of it is longer than {MAX_NAME_BYTES} bytes", _is_too_long),
    ("a part of it begins or ends with a dot, a space or a tilde", _has_bad_edges),
    ("a part of it is a name that Windows or Dropbox keep for themselves", _is_reserved),
    ("it is not in Unicode's composed form", _is_decomposed),
)
