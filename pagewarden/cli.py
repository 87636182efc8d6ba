"""The command pagewarden."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich import markup
from rich.console import Console
from rich.table import Table

from pagewarden import errors, logs, ocr_command, settings, users_command
from pagewarden.bench import fuzz, layers, memory, ocr, pipeline, queue
from pagewarden.commands import importing, login, up, upload, work
from pagewarden.local import doctor, stack

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

app = typer.Typer(
    help="Every page read, none lost: documents in, their text out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
bench = typer.Typer(help="Measure Pagewarden beside its peers.", no_args_is_help=True)
app.add_typer(bench, name="bench")
app.add_typer(users_command.app, name="user")
bench.command("queue")(queue.command)
bench.command("ocr")(ocr.command)
bench.command("layers")(layers.command)
bench.command("memory")(memory.command)
bench.command("pipeline")(pipeline.command)
bench.command("fuzz")(fuzz.command)
bench.command("hostile")(fuzz.hostile)
app.command("ocr")(ocr_command.command)
app.command("up")(up.command)
app.command("work")(work.command)
app.command("upload")(upload.command)
app.command("import")(importing.command)
app.command("login")(login.command)
app.command("logout")(login.logout)

out = Console(highlight=False)


def main() -> None:
    """Run the command; an error of ours is one line, without a traceback, and exit code 1."""
    logs.configure()
    try:
        app()
    except errors.PagewardenError as exc:
        Console(stderr=True, highlight=False).print(
            f"[red]pagewarden:[/] {markup.escape(str(exc))}"
        )
        sys.exit(1)


@app.command()
def migrate() -> None:
    """Bring the database up to date, and say what was done."""
    _run(_migrate(settings.load()))


async def _migrate(chosen: settings.Settings) -> None:
    async with stack.ready(chosen) as found:
        for name in found.applied:
            out.print(f"applied {name}")
        out.print(f"{found.place}: {found.news}")


@app.command()
def status(
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,  # noqa: FBT002
) -> None:
    """Show what waits, what is being read, and what needs a person."""
    _run(_status(settings.load(), as_json=json))


async def _status(chosen: settings.Settings, *, as_json: bool) -> None:
    async with stack.connected(chosen) as connection:
        (health,) = await connection.select("ocr_system_health")
        lanes = await connection.select("lanes", order="lane")
    if as_json:
        out.print_json(data={"health": health, "lanes": lanes})
        return
    table = Table("", "", show_header=False, box=None, pad_edge=False)
    for name, value in health.items():
        table.add_row(name.replace("_", " "), _shown(value))
    out.print(table)
    for lane in lanes:
        if lane["paused_at"]:
            out.print(f"[yellow]lane {lane['lane']} is paused:[/] {lane['pause_reason']}")


def _shown(value: Any) -> str:  # noqa: ANN401  # JSON
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


@app.command("doctor")
def examine() -> None:
    """Say what is missing, and how to fix it; exit code 1 if anything is."""
    if _run(_examine(settings.load())):
        sys.exit(1)


async def _examine(chosen: settings.Settings) -> int:
    problems = 0
    async for finding in doctor.examine(chosen):
        mark = "[red]✗[/]" if finding.remedy else "[green]✓[/]"
        out.print(f"{mark} {finding.subject}: {finding.state}")
        if finding.remedy:
            problems += 1
            out.print(f"    [yellow]→[/] {finding.remedy}")
    return problems


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


if __name__ == "__main__":
    main()
