"""Write exports of stored pages; formats that parse the original run in the sandbox.

Pages are spooled to disk, so memory use does not depend on the length of the document.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pagewarden import exports
from pagewarden.exports import base
from pagewarden.ocr.sandbox import protocol, tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pagewarden.ocr.pages import ReadPage
    from pagewarden.ocr.reader import Reader

PRELOAD = (__name__, *(name for entry in exports.FORMATS.values() for name in entry.preload))
"""Modules to preload into a `Reader` that writes exports."""

_RESULT = "export"  # in the child's folder


@dataclass(frozen=True, slots=True)
class PageSpool:
    """A file of pages, one per line; it can be iterated any number of times."""

    path: Path

    def add(self, page: ReadPage) -> None:
        """Append a page."""
        with self.path.open("ab") as file:
            file.write(protocol.pack_page(page) + b"\n")

    def __iter__(self) -> Iterator[ReadPage]:
        with self.path.open("rb") as file:
            for line in file:
                yield protocol.unpack_page(line)


@contextlib.contextmanager
def open_spool(reader: Reader) -> Iterator[PageSpool]:
    """Open a spool that is removed with the temporary files of the reader, even if it is killed."""
    with tempfile.NamedTemporaryFile(dir=reader.folder) as file:
        yield PageSpool(Path(file.name))


@dataclass(frozen=True, slots=True)
class ExportJob:
    """The pages of a document and the format to write; name is used inside the export."""

    format: str
    pages: PageSpool
    source: Path
    name: str
    languages: tuple[str, ...] = ()
    password: str | None = None

    @property
    def needs_original(self) -> bool:
        """Whether the original is parsed, which only the sandbox may do."""
        return exports.FORMATS[self.format].needs_original


async def write_export(reader: Reader, export: ExportJob, target: Path) -> None:
    """Write an export to target, completely or not at all."""
    if not export.needs_original:
        await asyncio.to_thread(_write, export, target)
        return
    options = {
        "format_name": export.format,
        "pages": str(export.pages.path.absolute()),
        "source": str(export.source.absolute()),
        "name": export.name,
        "languages": export.languages,
        "password": export.password,
    }
    task = tasks.SandboxTask(__name__, ExportTask.__name__, options, whole_document=True)
    async with reader.run_task(task, export.name) as result:
        await asyncio.to_thread(_copy_result, result.folder / _RESULT, export.source, target)


class ExportTask:
    """Writes an export into the folder of its child; runs in the sandbox."""

    version = ""

    def __init__(  # noqa: PLR0913  # the fields of an export
        self,
        *,
        format_name: str,
        pages: str,
        source: str,
        name: str,
        languages: Sequence[str],
        password: str | None,
    ) -> None:
        spool = PageSpool(Path(pages))
        self._export = ExportJob(format_name, spool, Path(source), name, tuple(languages), password)

    def run(self, request: tasks.TaskRequest) -> tuple[protocol.Message, bytes]:
        """Write the export."""
        del request
        _write(self._export, Path(_RESULT))  # relative to the child's own folder
        return {"written": True}, b""


def _write(export: ExportJob, target: Path) -> None:
    exports.write(
        export.format,
        export.pages,
        export.source,
        target,
        name=export.name,
        languages=export.languages,
        password=export.password or "",
    )


def _copy_result(result: Path, source: Path, target: Path) -> None:
    # A compromised child could leave a link to a file that it cannot read itself.
    descriptor = os.open(result, os.O_RDONLY | os.O_NOFOLLOW)
    with (
        os.fdopen(descriptor, "rb") as file,
        base.replace_atomically(target, source=source) as out,
    ):
        shutil.copyfileobj(file, out)
