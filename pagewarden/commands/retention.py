"""pagewarden retention: remove what nobody needs any more, or say what that would be."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pagewarden import files, retention, settings
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
    "orphaned": "files of uploads that broke off",
    "unfinished": "files that were half written",
}


def command(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Remove what nobody needs any more; the schedule does the same every hour.

    How long things are kept are settings: PAGEWARDEN_CHECK_RESULT_DAYS,
    PAGEWARDEN_CHECK_INPUT_DAYS, PAGEWARDEN_BIN_DAYS, PAGEWARDEN_ERROR_DAYS,
    PAGEWARDEN_WEBHOOK_DAYS and PAGEWARDEN_MESSAGE_DAYS. A dry run counts up to 10,000 of each, and
    no files that are half written.
    """
    removed = dataclasses.asdict(asyncio.run(_run(settings.load(), dry_run=dry_run)))
    if json:
        out.print_json(data=removed)
        return
    table = Table("would go" if dry_run else "gone", "what", box=None, pad_edge=False)
    for name, words in _WORDS.items():
        table.add_row(f"{removed[name]:,}", words)
    out.print(table)


async def _run(chosen: settings.Settings, *, dry_run: bool) -> retention.Removed:
    act = retention.look if dry_run else retention.clean
    now = dt.datetime.now(dt.UTC)
    async with stack.connected(chosen) as database, files.open_store(chosen) as store:
        return await act(database, store, retention.Terms.of(chosen), now=now)
