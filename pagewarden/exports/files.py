"""Write a file whole or not at all, and never over the original."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO


@contextlib.contextmanager
def replacing(target: Path, *, original: Path) -> Iterator[BinaryIO]:
    """Open a new file that becomes the target once everything is written."""
    if target.exists() and original.exists() and target.samefile(original):
        raise errors.SettingsError(
            f"{target} is the original itself; choose another file or folder for the export"
        )
    unfinished = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with unfinished.open("xb") as out:
            yield out
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
