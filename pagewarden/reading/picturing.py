"""The picture of a page for people to look at, made by a child.

It shows what the places of lines are measured on, only smaller: see pagewarden.reading.pages.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden.reading.sandbox import deaths, host, wire

if TYPE_CHECKING:
    from pathlib import Path

    from pagewarden.reading import limits

MEDIA_TYPE = "image/jpeg"
# A4 at 200 dpi: sharp when it is twice as large as a screen is wide.
_PIXELS = 4_000_000
_MAX_BYTES = 3 * _PIXELS


@dataclass(frozen=True, slots=True)
class Picture:
    """Which page of which file is to be shown; name stands for the document in messages."""

    source: Path
    name: str
    number: int

    def message(self, folder: Path, bounds: limits.Limits) -> wire.Message:
        """Give the child what it has to know."""
        return {
            "picture": self.number,
            "path": str(self.source.absolute()),
            "name": self.name,
            "folder": str(folder),
            "limits": dataclasses.asdict(bounds),
        }


async def draw_in(child: host.Child, picture: Picture, bounds: limits.Limits) -> bytes:
    """Have a child draw it."""
    small = dataclasses.replace(bounds, working_pixels=min(bounds.working_pixels, _PIXELS))
    try:
        message, drawn = await child.ask(
            picture.message(child.folder, small), seconds=bounds.page_seconds, max_blob=_MAX_BYTES
        )
    except host.Died as death:
        raise deaths.explain(death, picture.name, bounds) from death
    if "error" in message:
        raise wire.unpack_error(message["error"])
    return drawn
