"""pagewarden retention: remove what is too old, or say what that would be; list unknown files."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagewarden import bars, files, retention, settings
from pagewarden.local import stack

out = Console(highlight=False)

_WORDS = {
    "purged": "check jobs whose results are too old",
    "erased_jobs": "check jobs that are too old altogether",
    "documents": "documents that are too long in the bin",
    "errors": "errors of documents that need nobody",
    "webhooks": "webhooks that were settled long ago",
    "messages": "messages about volumes that were dealt with long ago",
    "erased": "files of erased documents",
    "unfinished": "files that were half written",
}
_MAX_SHOWN = 20


def command(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Remove what is too old; the schedule does the same every hour.

    How long things are kept are settings: PAGEWARDEN_CHECK_RESULT_DAYS,
    PAGEWARDEN_CHECK_INPUT_DAYS, PAGEWARDEN_BIN_DAYS, PAGEWARDEN_ERROR_DAYS,
    PAGEWARDEN_WEBHOOK_DAYS and PAGEWARDEN_MESSAGE_DAYS. A dry run counts up to 10,000 of each, and
    no files that are half written.

    Uploaded files that no document names are listed and never removed. JSON lists up to 1,000.
    """
    done = asyncio.run(_run(settings.load(), dry_run=dry_run))
    if json:
        out.print_json(data=done.counts | {"unknown": [_listed(one) for one in done.unknown.first]})
        return
    counts = done.counts
    table = Table("would go" if dry_run else "gone", "what", box=None, pad_edge=False)
    for name, words in _WORDS.items():
        table.add_row(f"{counts[name]:,}", words)
    out.print(table)
    if done.unknown.count:
        _show_unknown(done.unknown)


def _listed(entry: files.Entry) -> dict[str, object]:
    return {"path": entry.path, "size": entry.size, "modified": entry.modified.isoformat()}


def _show_unknown(unknown: retention.UnknownFiles) -> None:
    shown = unknown.first[:_MAX_SHOWN]
    known = bars.count(unknown.count, "file")
    out.print(f"\nNo document names {known} ({unknown.size:,} bytes). Nothing of this was removed:")
    table = Table("bytes", "stored", "file", box=None, pad_edge=False)
    for entry in shown:
        table.add_row(f"{entry.size:,}", f"{entry.modified:%Y-%m-%d %H:%M}", Text(entry.path))
    out.print(table)
    if unknown.count > len(shown):
        out.print(f"and {unknown.count - len(shown):,} more; --json lists up to 1,000")
    out.print(
        "Check first that PAGEWARDEN_DATABASE_URL and PAGEWARDEN_FILES belong together, and that "
        "the database was restored completely.\nIf an upload broke off, its sender uploads the "
        "file again. Then delete the listed file from the store yourself."
    )


async def _run(chosen: settings.Settings, *, dry_run: bool) -> retention.Summary:
    act = retention.look if dry_run else retention.clean
    now = dt.datetime.now(dt.UTC)
    async with stack.connected(chosen) as database, files.open_store(chosen) as store:
        return await act(database, store, retention.Terms.of(chosen), now=now)
