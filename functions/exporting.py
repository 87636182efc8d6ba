"""What was read of a document, as a file in one of the formats of pagewarden.exports."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from functions import answers
from pagewarden import exports
from pagewarden.database import tables
from pagewarden.documents import languages, read_pages
from pagewarden.files import scratch
from pagewarden.reading import exporting, spool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from functions import services
    from pagewarden.database import Database

# Pages fetched at a time: few enough for memory, and for the rows a project hands out at once.
BATCH = 50


@dataclass(frozen=True, slots=True)
class Made:
    """An export on disk, for as long as it is needed."""

    path: Path
    name: str
    media_type: str


@contextlib.asynccontextmanager
async def made(
    used: services.Services, database: Database, document_id: str, format_name: str
) -> AsyncIterator[Made]:
    """Write an export of what the caller may see, and remove it afterwards."""
    document = await _find(database, document_id)
    form = exports.FORMATS[format_name]
    with scratch.folder() as folder:
        pages = spool.Spool(Path(folder, "pages"))
        await _collect(database, document, pages)
        export = exporting.Export(
            format_name,
            pages,
            Path(folder, "original"),
            document["name"],
            languages.for_engine(document["language"]),
        )
        if export.needs_original:
            await used.store.fetch(document["dropbox_path"].removeprefix("/"), export.source)
        target = Path(folder, "export")
        await (await used.exporter.get()).export(export, target)
        name = PurePosixPath(document["name"]).stem + form.suffix
        yield Made(target, name, form.media_type)


async def _find(database: Database, document_id: str) -> Mapping[str, Any]:
    rows = await database.select(
        tables.documents,
        columns="id,name,language,dropbox_path,run_id,page_count,ocr_status",
        where={"id": document_id, "deleted_at": None},
    )
    if not rows:
        raise answers.RefusedError(
            404, "DOCUMENT_NOT_FOUND", "there is no such document, or not for you"
        )
    if rows[0]["run_id"] is None:
        raise answers.RefusedError(
            409, "NOT_READ", f"it has no text yet, it is {rows[0]['ocr_status']}"
        )
    return rows[0]


async def _collect(database: Database, document: Mapping[str, Any], pages: spool.Spool) -> None:
    pages.path.touch()
    for first in range(1, (document["page_count"] or 0) + 1, BATCH):
        rows = await database.select(
            tables.page_texts,
            columns="page_number,text,lines,status,width,height,error,details,version",
            where={
                "document_id": document["id"],
                "page_number": list(range(first, first + BATCH)),
            },
            order="page_number",
        )
        for row in rows:
            pages.add(read_pages.from_row(row))
