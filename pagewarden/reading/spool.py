"""Pages on disk until they are exported, so that a document of any length fits into memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden.reading.sandbox import wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pagewarden.reading import pages


@dataclass(frozen=True, slots=True)
class Spool:
    """A file of pages, one to a line; it can be gone through as often as needed."""

    path: Path

    def add(self, page: pages.ReadPage) -> None:
        """Append a page."""
        with self.path.open("ab") as file:
            file.write(wire.pack_page(page) + b"\n")

    def __iter__(self) -> Iterator[pages.ReadPage]:
        with self.path.open("rb") as file:
            for line in file:
                yield wire.unpack_page(line)
