"""What should be read in each picture that the user named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewarden.checks import references
from pagewarden.ocr_command import inputs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SUFFIX = ".txt"


def find(items: Sequence[inputs.Input], file: Path | None) -> list[list[str] | None]:
    """Find the strings of each picture: in the file, else in a text file beside the picture.

    None where there are none. A file that has strings for none of the pictures is a mistake.
    """
    try:
        known = references.parse(str(file), _bytes(file)) if file else None
        found = [_of(item, known) for item in items]
    except references.Wrong as exc:
        raise inputs.Wrong(str(exc)) from exc
    if known is not None and not any(known.of(item.name) is not None for item in items):
        some = ", ".join(known.names[:3])
        raise inputs.Wrong(f"{file} has strings for none of the pictures, but for {some}")
    return found


def _of(item: inputs.Input, known: references.References | None) -> list[str] | None:
    strings = known.of(item.name) if known is not None else None
    beside = item.path.with_suffix(SUFFIX)
    if strings is None and beside.is_file():
        return references.lines(str(beside), _bytes(beside))
    return strings


def _bytes(path: Path) -> bytes:
    """Read a file, but no more of it than is needed to see that it is too long."""
    try:
        with path.open("rb") as file:
            return file.read(references.MOST_BYTES + 1)
    except OSError as exc:
        raise inputs.Wrong(f"{path} cannot be read ({exc.strerror}); check the path") from exc
