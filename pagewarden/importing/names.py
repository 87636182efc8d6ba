"""What files of a tree are called as documents: a name tells the folders they are in.

Documents of one name in one case are versions of one another, so no two files may share a name.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import PurePath
from typing import TYPE_CHECKING

from pagewarden import files
from pagewarden.files import paths

if TYPE_CHECKING:
    from pathlib import Path

SEPARATOR = "__"

_DIGITS = 12
_MARKED = re.compile(rf"\[[0-9a-f]{{{_DIGITS}}}\](\.[^.]*)?\Z")
_LONGEST_SUFFIX = 16


def plain(folder: Path, path: Path) -> str:
    """Name a file after the folder that is taken in, and those below it: Letters__1921__a.pdf.

    Where that could be misread, or is no good as a name, a mark tells it from all others.
    """
    parts = tuple(part for part in (folder.name, *path.relative_to(folder).parts) if part)
    joined = SEPARATOR.join(parts)
    if _is_clear(joined, parts):
        return joined
    return _mark(joined, os.fsencode("/".join(parts)))


def own(folder: Path, path: Path) -> str:
    """Name a file whose plain name is another file's."""
    return _mark(plain(folder, path), os.fsencode(path))


def _is_clear(joined: str, parts: tuple[str, ...]) -> bool:
    """Tell whether the name leads back to the file, and looks like no marked one."""
    return (
        tuple(joined.split(SEPARATOR)) == parts
        and files.safe_name(joined) == joined
        and _MARKED.search(joined) is None
    )


def _mark(name: str, key: bytes) -> str:
    mark = f"[{hashlib.sha256(key).hexdigest()[:_DIGITS]}]"
    safe = files.safe_name(name.replace("\\", "_"))
    suffix = PurePath(safe).suffix
    if len(suffix.encode()) > _LONGEST_SUFFIX:
        suffix = ""
    room = paths.MAX_NAME_BYTES - len(mark) - len(suffix.encode())
    stem = safe.removesuffix(suffix).encode()[:room].decode(errors="ignore")
    return f"{stem}{mark}{suffix}"
