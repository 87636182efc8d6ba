"""Exports of what was read; those that parse the original are made by a child."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden import exports
from pagewarden.exports import files
from pagewarden.reading.sandbox import deaths, host, wire

if TYPE_CHECKING:
    from pathlib import Path

    from pagewarden.reading import limits, spool

RESULT = "export"
"""What a child calls its work, in its own folder."""


@dataclass(frozen=True, slots=True)
class Export:
    """What is to be written: pages that were read of source, in a format of pagewarden.exports.

    name is what the document is called inside it.
    """

    format: str
    pages: spool.Spool
    source: Path
    name: str
    languages: tuple[str, ...] = ()
    password: str | None = None

    @property
    def needs_original(self) -> bool:
        """Say whether the original has to be parsed, which only a child may do."""
        return exports.FORMATS[self.format].needs_original

    def write(self, target: Path) -> None:
        """Write it here and now."""
        exports.write(
            self.format,
            self.pages,
            self.source,
            target,
            name=self.name,
            languages=self.languages,
            password=self.password or "",
        )

    def message(self, folder: Path, bounds: limits.Limits) -> wire.Message:
        """Give the child what it has to know."""
        return {
            "format": self.format,
            "pages": str(self.pages.path),
            "path": str(self.source),
            "name": self.name,
            "languages": self.languages,
            "password": self.password,
            "folder": str(folder),
            "limits": dataclasses.asdict(bounds),
        }


async def write_in(child: host.Child, export: Export, target: Path, bounds: limits.Limits) -> None:
    """Have a child write it, and take over what it wrote."""
    try:
        message, _ = await child.ask(
            export.message(child.folder, bounds), seconds=bounds.document_seconds
        )
    except host.Died as death:
        raise deaths.explain(death, export.name, bounds) from death
    if "error" in message:
        raise wire.unpack_error(message["error"])
    await asyncio.to_thread(_take_over, child.folder / RESULT, export.source, target)


def _take_over(made: Path, source: Path, target: Path) -> None:
    # A child that was taken over might hand us a link to a file that it may not read itself.
    descriptor = os.open(made, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as result, files.replacing(target, original=source) as out:
        shutil.copyfileobj(result, out)
