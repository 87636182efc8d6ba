"""pagewarden archive: put old documents away, into a folder."""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
import uuid  # noqa: TC003  # typer reads the annotations
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from pagewarden import archiving, bars, errors, files, settings
from pagewarden.commands import ending
from pagewarden.local import stack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pagewarden.database import Database
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
    of its files. Called again it goes on where it was. With --erase a document is removed from the
    system once its line is on disk; an audit line stays.
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
        new = [row for row in found if row["document_id"] not in archive.known]
        tally = _Tally(put=len(new), there=len(found) - len(new))
        if not dry_run:
            kept = [row for row in found if row["document_id"] in archive.known]
            kept += await _put(archive, new, database, store, tally)
            for row in kept if erase else ():
                answer = await database.rpc("erase_document", p_document_id=row["document_id"])
                tally.erased += bool(answer["success"])
    return tally


async def _put(
    archive: archiving.Archive,
    rows: Sequence[Mapping[str, Any]],
    database: Database,
    store: FileStore,
    tally: _Tally,
) -> list[Mapping[str, Any]]:
    """Put documents away, and give those that are; one that fails stops no other."""
    done = []
    bar = bars.one_bar(err)
    task = bar.add_task("putting away", total=len(rows), unit="documents")
    with bar:
        for row in rows:
            try:
                tally.size += await archive.put(row, database, store)
                done.append(row)
            except (errors.FileStoreError, OSError) as exc:
                tally.put -= 1
                tally.failed += 1
                bars.say(err, f"{row['name']}: {exc}")
            bar.advance(task)
    return done
