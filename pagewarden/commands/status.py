"""pagewarden status: what waits, what is being read, and what needs a person."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pagewarden import settings
from pagewarden.local import stack

out = Console(highlight=False)


def command(
    *,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show what waits, what is being read, and what needs a person."""
    asyncio.run(_status(settings.load(), as_json=json))


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
