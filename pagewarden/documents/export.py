"""Export a document from its saved pages and its original."""

from __future__ import annotations

import contextlib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pagewarden import exports
from pagewarden.database import tables
from pagewarden.documents.pages import parse_row
from pagewarden.errors import FileNotFound, RequestRejected
from pagewarden.exports import sandbox
from pagewarden.ocr import languages
from pagewarden.storage import scratch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden import concurrency
    from pagewarden.database import Database, rows
    from pagewarden.ocr.reader import Reader
    from pagewarden.storage.base import FileStore

# Pages per query: limits memory, and stays below the max_rows of a Supabase project.
BATCH = 50


@contextlib.asynccontextmanager
async def export_document(
    database: Database,
    store: FileStore,
    exporter: concurrency.LazyResource[Reader],
    document_id: str,
    format_name: str,
) -> AsyncIterator[scratch.LocalCopy]:
    """Export a document visible to the user of `database`; remove the file afterwards."""
    document = await _find_document(database, document_id)
    export_format = exports.FORMATS[format_name]
    with scratch.open_private_folder() as folder:
        pages = sandbox.PageSpool(Path(folder, "pages"))
        await _fetch_pages(database, document, pages)
        export = sandbox.ExportJob(
            format_name,
            pages,
            Path(folder, "original"),
            document["name"],
            languages.to_engine_codes(document["language"]),
        )
        if export.needs_original:
            await store.fetch(_get_stored_path(document), export.source)
        target = Path(folder, "export")
        await sandbox.write_export(await exporter.get(), export, target)
        name = PurePosixPath(document["name"]).stem + export_format.suffix
        yield scratch.LocalCopy(target, name, export_format.media_type)


async def _find_document(database: Database, document_id: str) -> rows.Documents:
    found = await database.select(
        tables.documents,
        columns="id,name,language,dropbox_path,run_id,page_count,ocr_status",
        where={"id": document_id, "deleted_at": None},
    )
    if not found:
        raise RequestRejected("DOCUMENT_NOT_FOUND", "no such document, or you have no access to it")
    if found[0]["run_id"] is None:
        raise RequestRejected(
            "NOT_READ", f"the document has no text yet; its status is {found[0]['ocr_status']}"
        )
    return found[0]


def _get_stored_path(document: rows.Documents) -> str:
    if document["dropbox_path"] is None:
        raise FileNotFound(f"{document['name']} has no file; upload it again")
    return document["dropbox_path"].removeprefix("/")


async def _fetch_pages(
    database: Database, document: rows.Documents, pages: sandbox.PageSpool
) -> None:
    pages.path.touch()
    for first in range(1, (document["page_count"] or 0) + 1, BATCH):
        found = await database.select(
            tables.page_texts,
            columns="page_number,text,lines,status,width,height,error,details,version",
            where={
                "document_id": document["id"],
                "page_number": list(range(first, first + BATCH)),
            },
            order="page_number",
        )
        for row in found:
            pages.add(parse_row(row))
