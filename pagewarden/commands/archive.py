"""pagewarden archive: put old documents away, into a folder."""

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

from pagewarden import archiving, bars, errors, files, settings
from pagewarden.commands import ending
from pagewarden.local import stack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.database import Database, rows
    from pagewarden.files import FileStore

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


@dataclass(slots=True)
class _Tally:
    put: int = 0
    size: int = 0
    there: int = 0
    erased: int = 0
    failed: int = 0


def command(
    folder: Annotated[Path, typer.Argument(help="Where they go; may have earlier ones.")],
    *,
    older_than: Annotated[
        int, typer.Option(metavar="DAYS", min=1, help="Documents uploaded so long ago.")
    ],
    case: Annotated[
        uuid.UUID | None, typer.Option(metavar="ID", help="Only of this case. Default: of all.")
    ] = None,
    erase: Annotated[
        bool, typer.Option("--erase", help="Erase each for good, once it is in the archive.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many.")] = False,
) -> None:
    """Put documents that were read long ago into a folder: file, text, and all that is known.

    Each has a folder of its own, <case>/<document>, and a line in manifest.jsonl with the SHA-256
    of its files. Called again it goes on where it was, and archives again what has changed since.
    With --erase a document is removed from the system once its line is on disk; an audit line
    stays. A document that differs from its copy in the archive is named and not erased.
    """
    before = dt.datetime.now(dt.UTC) - dt.timedelta(days=older_than)
    case_id = str(case) if case else None
    tally = asyncio.run(_run(folder, before, case_id, erase=erase, dry_run=dry_run))
    if dry_run:
        words = f"{bars.count(tally.put, 'document')} would be put away"
        out.print(f"{words}, {tally.there:,} are there already")
        return
    out.print(
        f"{bars.count(tally.put, 'document')} put away ({tally.size / 1e6:,.1f} MB), "
        f"{tally.there:,} there already, {tally.erased:,} erased"
    )
    if tally.failed:
        sys.exit(ending.SOME_FAILED)


async def _run(
    folder: Path, before: dt.datetime, case_id: str | None, *, erase: bool, dry_run: bool
) -> _Tally:
    chosen, archive = settings.load(), archiving.Archive.open(folder)
    async with stack.connected(chosen) as database, files.open_store(chosen) as store:
        found = [row async for row in archiving.old_documents(database, before, case_id)]
        new = [row for row in found if row["document_id"] not in archive.files]
        known = [row for row in found if row["document_id"] in archive.files]
        if not erase:
            new += await _changed(archive, known, database)
        tally = _Tally(put=len(new), there=len(found) - len(new))
        if not dry_run:
            done = await _put(archive, new, database, store, tally)
            for row in known + done if erase else ():
                await _erase(archive, row, database, tally)
    return tally


async def _changed(
    archive: archiving.Archive, known: Sequence[rows.ListedDocument], database: Database
) -> list[rows.ListedDocument]:
    """Find the documents whose copy in the archive is outdated."""
    return [row for row in known if await _contents(archive, row, database) is not None]


async def _contents(
    archive: archiving.Archive, row: rows.ListedDocument, database: Database
) -> str | None:
    """Get what is to be written of a document; None when the archive has it, or it is gone."""
    key = row["document_id"]
    return await database.document_archive(document_id=key, known_sha256=archive.sha256_of(key))


async def _put(
    archive: archiving.Archive,
    found: Sequence[rows.ListedDocument],
    database: Database,
    store: FileStore,
    tally: _Tally,
) -> list[rows.ListedDocument]:
    """Put documents away, and give those that are; one that fails stops no other."""
    done = []
    bar = bars.one_bar(err)
    task = bar.add_task("putting away", total=len(found), unit="documents")
    with bar:
        for row in found:
            try:
                text = await _contents(archive, row, database)
                if text is not None:
                    tally.size += await archive.put(text, store)
                done.append(row)
            except (errors.FileStoreError, errors.LocalFileError, OSError) as exc:
                tally.put -= 1
                tally.failed += 1
                bars.say(err, f"{row['name']}: {exc}")
            bar.advance(task)
    return done


async def _erase(
    archive: archiving.Archive, row: rows.ListedDocument, database: Database, tally: _Tally
) -> None:
    """Erase a document, if it is in the archive as it is now: the database compares, locked."""
    key, why = row["document_id"], "its files in the archive are damaged or missing"
    if archived := archive.sha256_of(key):
        answer = await database.erase_archived_document(document_id=key, archive_sha256=archived)
        if answer["success"]:
            tally.erased += 1
            return
        why = answer["message"] or "the database refused"
    tally.failed += 1
    advice = "Run the command without --erase to archive it again, then with --erase."
    bars.say(err, f"{row['name']} ({key}) was not erased: {why}. {advice}")
