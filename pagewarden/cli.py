"""The command pagewarden."""

from __future__ import annotations

import sys

import typer
from rich import markup
from rich.console import Console

from pagewarden import errors
from pagewarden.commands import deferred

COMMANDS = {
    "ocr": deferred.Deferred(
        "pagewarden.commands.ocr",
        "Read images and PDFs: text, JSON, searchable PDF, hOCR, ALTO, PAGE-XML.",
    ),
    "check": deferred.Deferred(
        "pagewarden.commands.check",
        "Check whether pictures have the text they should have, in the right language.",
    ),
    "up": deferred.Deferred(
        "pagewarden.commands.up", "Start the whole system on this machine, until Ctrl-C."
    ),
    "work": deferred.Deferred(
        "pagewarden.commands.work",
        "Read documents as they come, until Ctrl-C; any number of machines may do so.",
    ),
    "pool": deferred.Deferred(
        "pagewarden.commands.pool",
        "Run a pool of workers that follows the work from lane to lane, or look at it.",
        "app",
    ),
    "volumes": deferred.Deferred(
        "pagewarden.commands.volumes",
        "Read books of page images, stage by stage: order, watch, re-run, export, work.",
        "app",
    ),
    "upload": deferred.Deferred(
        "pagewarden.commands.upload",
        "Upload images and PDFs to a Pagewarden server, which reads them.",
    ),
    "import": deferred.Deferred(
        "pagewarden.commands.importing",
        "Take in a folder with all that is below it: images and PDFs.",
    ),
    "demo": deferred.Deferred(
        "pagewarden.commands.demo",
        "Upload a few sample documents, two of which need a person, and a check job.",
    ),
    "login": deferred.Deferred(
        "pagewarden.commands.login",
        "Sign in, so that upload and import bring documents in as yours.",
    ),
    "logout": deferred.Deferred(
        "pagewarden.commands.login", "Sign out: end the session of this computer.", "logout"
    ),
    "docs": deferred.Deferred("pagewarden.commands.docs", "Search in what was read.", "app"),
    "migrate": deferred.Deferred(
        "pagewarden.commands.migrate", "Bring the database up to date, and say what was done."
    ),
    "status": deferred.Deferred(
        "pagewarden.commands.status",
        "Show what waits, what is being read, and what needs a person.",
    ),
    "doctor": deferred.Deferred(
        "pagewarden.commands.doctor",
        "Say what is missing, and how to fix it; exit code 1 if anything is.",
    ),
    "dlq": deferred.Deferred(
        "pagewarden.commands.dlq",
        "See what machines gave up on, and say what is to become of it.",
        "app",
    ),
    "retention": deferred.Deferred(
        "pagewarden.commands.retention",
        "Remove what is too old; the schedule does the same every hour.",
    ),
    "archive": deferred.Deferred(
        "pagewarden.commands.archive",
        "Put documents that were read long ago into a folder: file, text, and all that is known.",
    ),
    "alerts": deferred.Deferred(
        "pagewarden.commands.alerts",
        "See what is wrong, what is watched, and who is told.",
        "app",
    ),
    "user": deferred.Deferred(
        "pagewarden.commands.user",
        "Say who can sign in, and who is one of HAC (the people who review).",
        "app",
    ),
}

app = typer.Typer(
    help="Every page read, none lost: documents in, their text out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
deferred.mount(app, COMMANDS)


def main() -> None:
    """Run the command."""
    run(app, "pagewarden")


def run(commands: typer.Typer, name: str) -> None:
    """Run commands; an error of ours is one line, without a traceback, and exit code 1."""
    commands.callback()(_prepare)
    try:
        commands()
    except errors.PagewardenError as exc:
        Console(stderr=True, highlight=False).print(f"[red]{name}:[/] {markup.escape(str(exc))}")
        sys.exit(1)


def _prepare() -> None:
    """Do what is to be done before each command, but not for the overview."""
    from pagewarden.telemetry import logs  # noqa: PLC0415  # takes as long to import as all of the overview

    logs.configure()


if __name__ == "__main__":
    main()
