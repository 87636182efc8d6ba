"""pagewarden import: a folder with all below it goes to a server, nothing twice."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from pagewarden import client, settings
from pagewarden.commands import ending, options
from pagewarden.importing import growing, journal, looking, shown, summary, tree, work
from pagewarden.ocr_command import inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

REST_SECONDS = 3.0
POLL_SECONDS = 5.0


def command(  # noqa: PLR0913  # each is an option of the command
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", exists=True, file_okay=False, resolve_path=True)
    ],
    *,
    case: options.Case = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on, and take in what comes, until Ctrl-C.")
    ] = False,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB",
            help="Only what fits, such as '*.pdf' or '2026/*', of whatever type. May be repeated.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be sent, and as what.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Send what was taken in before, too.")
    ] = False,
    rest: Annotated[
        float, typer.Option(min=0, help="Seconds that a file must have been left alone.")
    ] = REST_SECONDS,
    poll: Annotated[
        float, typer.Option(min=0.01, help="Seconds between two looks, with --watch.")
    ] = POLL_SECONDS,
    lang: options.Lang = None,
    engine: options.Engine = None,
    profile: options.Profile = None,
    url: options.Url = None,
) -> None:
    """Take in a folder with all that is below it: images and PDFs.

    Nothing is sent twice, however often it is interrupted and started
    again; what changed since is sent as a new version, and what was deleted
    stays as it is on the server. A document is named after the folders it
    lies in, such as Letters__1921__scan.pdf, so that equal names stay apart.

    Exit code 0: everything is there. 1: some is not; which and why is said
    at the end. 2: the command makes no sense, and nothing was done.
    130: Ctrl-C, without --watch.
    """
    chosen = settings.load()
    try:
        wishes = options.wishes(case, lang, engine, profile)
    except inputs.Wrong as exc:
        raise typer.BadParameter(str(exc)) from exc
    wanted = tree.Tree(folder, tuple(include or ()), chosen.upload_max_bytes)
    seen, told = shown.Shown(Console(stderr=True, highlight=False)), summary.Summary()

    async def run() -> None:
        async with client.open_client(chosen, url) as server:
            with journal.opened(_target(server, case)) as known:
                looker = looking.Looker(wanted, known, growing.Resting(rest), told, again=again)
                if dry_run:
                    await asyncio.to_thread(_say_what_would_be, looker)
                    return
                taking = work.Import(looker, server, wishes, seen)
                await taking.require_same_server()
                await (taking.watch(poll) if watch else taking.once())

    sys.exit(_until_end(run, seen, told, interrupted=0 if watch else ending.INTERRUPTED))


def _target(server: client.Client, case: str | None) -> str:
    """Name what the journal is about: a case of a server."""
    return f"{server.url} {case or f'inbox of {server.account}'}"


def _until_end(
    run: Callable[[], Coroutine[None, None, None]],
    seen: shown.Shown,
    told: summary.Summary,
    *,
    interrupted: int,
) -> int:
    code = 0
    try:
        asyncio.run(ending.until_terminated(run()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        seen.say("interrupted; the same command again goes on from here")
        code = interrupted
    finally:
        for line in told.lines():
            seen.say(line)
    return code or (ending.SOME_FAILED if told.count(summary.Kind.FAILED) else 0)


def _say_what_would_be(looker: looking.Looker) -> None:
    for found in looker.look().ready:
        name = looker.known.name_of(looker.wanted.folder, found.path)
        line = f"{found.path}\t{name}\n"
        sys.stdout.buffer.write(line.encode(errors="surrogateescape"))
    sys.stdout.buffer.flush()
