"""`pagewarden archive`: copy old documents to an archive folder."""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
import uuid  # noqa: TC003  # typer reads the annotations
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from pagewarden import errors, storage
from pagewarden.cli import program, progress
from pagewarden.documents.archive import Archive, list_old_documents
from pagewarden.local import stack
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.database import Database, rows
    from pagewarden.storage import FileStore

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


@dataclass(slots=True)
class _ArchiveCounts:
    archived: int = 0
    size: int = 0
    unchanged: int = 0
    erased: int = 0
    failed: int = 0


def command(
    folder: Annotated[Path, typer.Argument(help="Archive folder, new or from an earlier run.")],
    *,
    older_than: Annotated[
        int, typer.Option(metavar="DAYS", min=1, help="Minimum age of the documents in days.")
    ],
    case: Annotated[
        uuid.UUID | None, typer.Option(metavar="ID", help="Only this case. Default: all cases.")
    ] = None,
    erase: Annotated[
        bool, typer.Option("--erase", help="Erase each document permanently once archived.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the documents without archiving them.")
    ] = False,
) -> None:
    """Archive old documents in a folder, with their text and history.

    Each document has its own folder, <case>/<document>, and a line in manifest.jsonl with the
    SHA-256 of its files. A repeated run resumes, and updates documents that have changed since.
    With --erase, a document is erased from the system once its line is on disk; an audit log
    entry remains. A document that differs from its archived copy is reported and not erased.
    """
    before = dt.datetime.now(dt.UTC) - dt.timedelta(days=older_than)
    case_id = str(case) if case else None
    counts = asyncio.run(_archive_documents(folder, before, case_id, erase=erase, dry_run=dry_run))
    if dry_run:
        count = progress.format_count(counts.archived, "document")
        out.print(f"{count} would be archived, {counts.unchanged:,} already archived")
        return
    out.print(
        f"{progress.format_count(counts.archived, 'document')} archived "
        f"({counts.size / 1e6:,.1f} MB), {counts.unchanged:,} already archived, "
        f"{counts.erased:,} erased"
    )
    if counts.failed:
        sys.exit(program.SOME_FAILED)


async def _archive_documents(
    folder: Path, before: dt.datetime, case_id: str | None, *, erase: bool, dry_run: bool
) -> _ArchiveCounts:
    settings, archive = load_settings(), Archive.open(folder)
    async with stack.open_database(settings) as database, storage.open_store(settings) as store:
        old_rows = [row async for row in list_old_documents(database, before, case_id)]
        new_rows = [row for row in old_rows if row["document_id"] not in archive.files]
        archived_rows = [row for row in old_rows if row["document_id"] in archive.files]
        if not erase:
            new_rows += await _find_outdated(archive, archived_rows, database)
        counts = _ArchiveCounts(archived=len(new_rows), unchanged=len(old_rows) - len(new_rows))
        if not dry_run:
            succeeded = await _archive_all(archive, new_rows, database, store, counts)
            for row in archived_rows + succeeded if erase else ():
                await _erase(archive, row, database, counts)
    return counts


async def _find_outdated(
    archive: Archive, archived_rows: Sequence[rows.ListedDocument], database: Database
) -> list[rows.ListedDocument]:
    """Return the documents whose archived copy is outdated."""
    return [
        row for row in archived_rows if await _fetch_changes(archive, row, database) is not None
    ]


async def _fetch_changes(
    archive: Archive, row: rows.ListedDocument, database: Database
) -> str | None:
    """Return the document as JSON; None if the archived copy is current or it no longer exists."""
    key = row["document_id"]
    return await database.document_archive(document_id=key, known_sha256=archive.find_sha256(key))


async def _archive_all(
    archive: Archive,
    old_rows: Sequence[rows.ListedDocument],
    database: Database,
    store: FileStore,
    counts: _ArchiveCounts,
) -> list[rows.ListedDocument]:
    """Archive documents; return those that succeeded. A failure does not stop the others."""
    succeeded = []
    bar = progress.make_progress_bar(err)
    task = bar.add_task("archiving", total=len(old_rows), unit="documents")
    with bar:
        for row in old_rows:
            try:
                text = await _fetch_changes(archive, row, database)
                if text is not None:
                    counts.size += await archive.add(text, store)
                succeeded.append(row)
            except (errors.FileStoreError, errors.LocalFileError, OSError) as exc:
                counts.archived -= 1
                counts.failed += 1
                progress.print_line(err, f"{row['name']}: {exc}")
            bar.advance(task)
    return succeeded


async def _erase(
    archive: Archive, row: rows.ListedDocument, database: Database, counts: _ArchiveCounts
) -> None:
    """Erase a document if its archived copy is current; the database compares under a lock."""
    key, reason = row["document_id"], "its archived files are damaged or missing"
    if archived := archive.find_sha256(key):
        answer = await database.erase_archived_document(document_id=key, archive_sha256=archived)
        if answer["success"]:
            counts.erased += 1
            return
        reason = answer["message"] or "the database rejected the request"
    counts.failed += 1
    advice = "Run the command without --erase to archive the document again, then with --erase."
    progress.print_line(err, f"{row['name']} ({key}) was not erased: {reason}. {advice}")
