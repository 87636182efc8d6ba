"""`pagewarden retention`: apply the retention policy or preview it; list unknown files."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagewarden import storage
from pagewarden.cli import progress
from pagewarden.documents import retention
from pagewarden.local import stack
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    from pagewarden.settings import Settings


out = Console(highlight=False)

_LABELS = {
    "purged": "results of old check jobs",
    "erased_jobs": "old check jobs",
    "documents": "documents in the bin",
    "errors": "resolved document errors",
    "webhooks": "finished webhooks",
    "messages": "archived volume messages",
    "erased": "files of erased documents",
    "expired": "unconfirmed uploads and old export files",
    "unfinished": "incomplete files",
}
_MAX_SHOWN = 20


def command(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed without removing it.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Apply the retention policy now; the scheduler does so every hour.

    Settings define the retention periods: PAGEWARDEN_CHECK_RESULT_DAYS,
    PAGEWARDEN_CHECK_INPUT_DAYS, PAGEWARDEN_BIN_DAYS, PAGEWARDEN_ERROR_DAYS,
    PAGEWARDEN_WEBHOOK_DAYS and PAGEWARDEN_MESSAGE_DAYS. A dry run counts up to 10,000 of each kind,
    and does not count incomplete files.

    Uploaded files that do not belong to a document are listed but never
    removed; JSON output lists up to 1,000.
    """
    done = asyncio.run(_run(load_settings(), dry_run=dry_run))
    if json:
        unknown = [_to_json(entry) for entry in done.unknown.first]
        out.print_json(data=done.counts | {"unknown": unknown})
        return
    counts = done.counts
    table = Table("would remove" if dry_run else "removed", "kind", box=None, pad_edge=False)
    for name, label in _LABELS.items():
        table.add_row(f"{counts[name]:,}", label)
    out.print(table)
    if done.unknown.count:
        _print_unknown(done.unknown)


def _to_json(entry: storage.Entry) -> dict[str, object]:
    return {"path": entry.path, "size": entry.size, "modified": entry.modified.isoformat()}


def _print_unknown(unknown_files: retention.UnknownFiles) -> None:
    shown = unknown_files.first[:_MAX_SHOWN]
    count = progress.format_count(unknown_files.count, "file")
    out.print(f"\nNot removed: {count} ({unknown_files.size:,} bytes) belonging to no document:")
    table = Table("bytes", "stored", "file", box=None, pad_edge=False)
    for entry in shown:
        table.add_row(f"{entry.size:,}", f"{entry.modified:%Y-%m-%d %H:%M}", Text(entry.path))
    out.print(table)
    if unknown_files.count > len(shown):
        out.print(f"and {unknown_files.count - len(shown):,} more; --json lists up to 1,000")
    out.print(
        "First check that PAGEWARDEN_DATABASE_URL and PAGEWARDEN_FILES belong together, and that "
        "the database was fully restored.\nClients resend the files of interrupted "
        "uploads. Then delete the listed files from the store yourself."
    )


async def _run(settings: Settings, *, dry_run: bool) -> retention.Summary:
    act = retention.preview_retention if dry_run else retention.apply_retention
    now = dt.datetime.now(dt.UTC)
    async with stack.open_database(settings) as database, storage.open_store(settings) as store:
        return await act(
            database, store, retention.RetentionPolicy.from_settings(settings), now=now
        )
