"""`pagewarden import`: upload a folder tree, once or continuously; each file only once."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from pagewarden import client
from pagewarden.cli import options, program
from pagewarden.cli.import_ import journal, scan
from pagewarden.cli.import_.run import FileResult, ImportProgress, ImportRun, ImportSummary, Scanner
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

SETTLE_SECONDS = 3.0
POLL_SECONDS = 5.0


def command(  # noqa: PLR0913  # each is an option of the command
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", exists=True, file_okay=False, resolve_path=True)
    ],
    *,
    case: options.Case = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep watching for new files until Ctrl-C.")
    ] = False,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB",
            help="Import only matching files, such as '*.pdf' or '2026/*', of any type. "
            "May be repeated.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="List the files to upload, with their document names, without uploading them.",
        ),
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Also upload files that were imported before.")
    ] = False,
    rest: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds for which a file must remain unchanged before it is uploaded."
        ),
    ] = SETTLE_SECONDS,
    poll: Annotated[
        float, typer.Option(min=0.01, help="Seconds between scans with --watch.")
    ] = POLL_SECONDS,
    lang: options.Lang = None,
    engine: options.Engine = None,
    profile: options.Profile = None,
    url: options.Url = None,
) -> None:
    """Import all images and PDFs in a folder and its subfolders.

    A repeated import resumes and uploads each file only once. A changed file
    is uploaded as a new version; a deleted file remains on the server. A
    document is named after its folders, such as Letters__1921__scan.pdf, so
    that names are distinct.

    Exit code 0: all files are on the server. 1: some are not; the summary
    says which and why. 2: invalid arguments; nothing was done. 130:
    interrupted, without --watch.
    """
    settings = load_settings()
    try:
        upload_options = options.make_upload_options(case, lang, engine, profile)
    except options.UsageError as exc:
        raise typer.BadParameter(str(exc)) from exc
    tree = scan.SourceTree(folder, tuple(include or ()), settings.upload_max_bytes)
    progress, summary = ImportProgress(Console(stderr=True, highlight=False)), ImportSummary()

    async def run() -> None:
        async with client.open_client(settings, url) as server:
            with journal.open_journal(_make_target(server, case)) as known_files:
                scanner = Scanner(
                    tree, known_files, scan.StabilityTracker(rest), summary, again=again
                )
                if dry_run:
                    await asyncio.to_thread(_print_dry_run, scanner)
                    return
                running = ImportRun(scanner, server, upload_options, progress)
                await running.require_same_server()
                await (running.watch(poll) if watch else running.run_once())

    sys.exit(_run(run, progress, summary, interrupted=0 if watch else program.INTERRUPTED))


def _make_target(server: client.Client, case: str | None) -> str:
    """Name the target of the journal: a case on a server."""
    return f"{server.url} {case or f'inbox of {server.account}'}"


def _run(
    run: Callable[[], Coroutine[None, None, None]],
    progress: ImportProgress,
    summary: ImportSummary,
    *,
    interrupted: int,
) -> int:
    code = 0
    try:
        asyncio.run(program.run_until_terminated(run()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        progress.print_line("interrupted; run the command again to resume")
        code = interrupted
    finally:
        for line in summary.lines():
            progress.print_line(line)
    return code or (program.SOME_FAILED if summary.count(FileResult.FAILED) else 0)


def _print_dry_run(scanner: Scanner) -> None:
    for found_file in scanner.find_files().ready:
        name = scanner.journal.choose_name(scanner.tree.folder, found_file.path)
        line = f"{found_file.path}\t{name}\n"
        sys.stdout.buffer.write(line.encode(errors="surrogateescape"))
    sys.stdout.buffer.flush()
