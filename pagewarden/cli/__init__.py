"""The command line: a table of commands, each imported when it runs.

Importing all commands takes more than a second; the overview needs only their summaries.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

import typer
from rich import markup
from rich.console import Console
from typer import core
from typer import main as typer_main

from pagewarden import SOFTWARE, errors, extras

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command to import on use: a function, or a Typer app with subcommands.

    `summary` is the first line of its help, `extra` the extra of the package that it needs.
    """

    module: str
    summary: str
    attribute: str = "command"
    extra: str | None = None

    def load(self) -> Any:  # noqa: ANN401  # typer does not export the class of commands
        """Import the command."""
        found = getattr(self._import(), self.attribute)
        if isinstance(found, typer.Typer):
            return typer_main.get_group(found)
        single = typer.Typer(add_completion=False)
        single.command()(found)
        return typer_main.get_command(single)

    def _import(self) -> ModuleType:
        try:
            return importlib.import_module(self.module)
        except ModuleNotFoundError as exc:
            raise extras.make_missing_extra_error(exc, self.extra) or exc from exc


def add_commands(app: typer.Typer, commands: Mapping[str, LazyCommand]) -> None:
    """Add commands to the app without importing them."""
    for name, command in commands.items():
        app.command(name, help=command.summary, cls=_CommandStub)(command.load)


class _CommandStub(core.TyperCommand):
    """Entry in the overview; loads the command when it is called."""

    def make_context(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401  # as above
        load = cast("Callable[[], Any]", self.callback)
        return load().make_context(*args, **options)


COMMANDS = {
    "ocr": LazyCommand(
        "pagewarden.cli.ocr",
        "Read images and PDFs, and write text, searchable PDFs or other formats.",
    ),
    "check": LazyCommand(
        "pagewarden.cli.check",
        "Check that pictures show the expected text, in the right language.",
    ),
    "up": LazyCommand(
        "pagewarden.cli.up",
        "Run the whole system on this machine until Ctrl-C.",
        extra="embedded",
    ),
    "work": LazyCommand(
        "pagewarden.cli.work",
        "Run workers for all lanes until Ctrl-C; any number of machines can share the pool.",
    ),
    "schedule": LazyCommand(
        "pagewarden.cli.schedule",
        "Call functions on schedule until Ctrl-C, for databases without pg_cron and pg_net.",
    ),
    "pool": LazyCommand(
        "pagewarden.cli.pool",
        "Plan and inspect the pool of workers that all lanes share.",
        "app",
    ),
    "volumes": LazyCommand(
        "pagewarden.cli.volumes",
        "Process volumes (books of page images): create, monitor, rerun and export jobs.",
        "app",
        extra="volumes",
    ),
    "upload": LazyCommand(
        "pagewarden.cli.upload",
        "Upload images and PDFs to a Pagewarden server.",
    ),
    "import": LazyCommand(
        "pagewarden.cli.import_",
        "Import all images and PDFs in a folder and its subfolders.",
    ),
    "demo": LazyCommand(
        "pagewarden.cli.demo",
        "Upload sample documents and a sample check job.",
    ),
    "login": LazyCommand(
        "pagewarden.cli.login",
        "Sign in, so that upload and import act on your behalf.",
    ),
    "logout": LazyCommand(
        "pagewarden.cli.login", "Sign out and end the session on this computer.", "logout"
    ),
    "docs": LazyCommand("pagewarden.cli.docs", "Search documents.", "app"),
    "migrate": LazyCommand("pagewarden.cli.migrate", "Apply pending database migrations."),
    "status": LazyCommand(
        "pagewarden.cli.status",
        "Show the state of the queue, the workers and the lanes.",
    ),
    "doctor": LazyCommand(
        "pagewarden.cli.doctor",
        "Diagnose the installation; exit code 1 if there is a problem.",
    ),
    "dlq": LazyCommand(
        "pagewarden.cli.dlq",
        "List, requeue and abandon dead letters.",
        "app",
    ),
    "retention": LazyCommand(
        "pagewarden.cli.retention",
        "Apply the retention policy now; the scheduler does so every hour.",
    ),
    "archive": LazyCommand(
        "pagewarden.cli.archive",
        "Archive old documents in a folder, with their text and history.",
    ),
    "alerts": LazyCommand(
        "pagewarden.cli.alerts",
        "List, test and silence alerts.",
        "app",
    ),
    "user": LazyCommand(
        "pagewarden.cli.user",
        "Manage users and the admin role, held by HAC (the human reviewers).",
        "app",
    ),
}

app = typer.Typer(
    help="Document OCR: read images and PDFs, locally or with a server.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
add_commands(app, COMMANDS)


def main() -> None:
    """Run the command."""
    run(app, "pagewarden")


def run(commands: typer.Typer, name: str) -> None:
    """Run commands; report a `PagewardenError` in one line, with exit code 1."""
    if sys.platform != "linux":
        _exit_with(name, errors.SettingsError("Pagewarden runs on Linux only; use a container"))
    commands.callback()(_configure_logs)
    try:
        commands()
    except ModuleNotFoundError as exc:
        if (missing := extras.make_missing_extra_error(exc)) is None:
            raise
        _exit_with(name, missing)
    except errors.PagewardenError as exc:
        _exit_with(name, exc)


def _exit_with(name: str, error: errors.PagewardenError) -> NoReturn:
    Console(stderr=True, highlight=False).print(f"[red]{name}:[/] {markup.escape(str(error))}")
    sys.exit(1)


def _print_version(requested: bool) -> None:  # noqa: FBT001  # the interface of typer's callbacks
    """Print the version and exit."""
    if requested:
        typer.echo(SOFTWARE)
        raise typer.Exit


_Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
    ),
]


def _configure_logs(*, version: _Version = False) -> None:
    """Configure logging before each command, but not for the overview."""
    from pagewarden.telemetry import logs  # noqa: PLC0415  # doubles the time of the overview

    del version
    logs.configure()
