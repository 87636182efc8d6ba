"""`pagewarden status`: state of the queue, the workers and the lanes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import markup
from rich.console import Console
from rich.table import Table

from pagewarden.database import tables
from pagewarden.local import stack
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    from pagewarden.settings import Settings


out = Console(highlight=False)


def command(
    *,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the state of the queue, the workers and the lanes."""
    asyncio.run(_print_status(load_settings(), as_json=json))


async def _print_status(settings: Settings, *, as_json: bool) -> None:
    async with stack.open_database(settings) as connection:
        (health,) = await connection.select(tables.ocr_system_health)
        lanes = await connection.select(tables.lanes, order="lane")
        rules = await connection.list_alert_rules()
    if as_json:
        out.print_json(data={"health": health, "lanes": lanes})
        return
    table = Table("", "", show_header=False, box=None, pad_edge=False)
    for name, value in health.items():
        table.add_row(name.replace("_", " "), _format_value(value))
    out.print(table)
    for rule in rules:
        if rule["alert_id"]:
            out.print(f"[red]{rule['severity']}: {rule['rule']}[/]; see pagewarden alerts list")
    for lane in lanes:
        if lane["paused_at"]:
            reason = markup.escape(lane["pause_reason"] or "")
            out.print(f"[yellow]lane {lane['lane']} is paused:[/] {reason}")


def _format_value(value: Any) -> str:  # noqa: ANN401  # JSON
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, str):
        return value
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
