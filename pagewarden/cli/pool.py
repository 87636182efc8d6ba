"""`pagewarden pool`: plan and inspect the pool of workers that all lanes share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagewarden.local import stack
from pagewarden.pool.plan import PoolPlan, parse_lanes
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pagewarden.database import rows
    from pagewarden.settings import Settings

app = typer.Typer(
    help="Plan and inspect the pool of workers that all lanes share.",
    no_args_is_help=True,
)

out = Console(highlight=False)

_MAX_SWITCHES = 10

Size = Annotated[
    int | None, typer.Option(min=1, help="Number of workers. Default: OCR_WORKER_POOL_SIZE.")
]


@app.command("plan")
def show_plan(
    backlog: Annotated[
        list[str],
        typer.Argument(
            metavar="LANE=DOCUMENTS...", help="Documents waiting in a lane, such as index=50."
        ),
    ],
    *,
    size: Size = None,
) -> None:
    """Show how the pool would divide its workers between lanes, and why."""
    waiting_by_lane = dict(_parse_backlog(text) for text in backlog)
    settings = load_settings()
    lanes = _order_lanes(waiting_by_lane, settings.pool_lanes)
    plan = PoolPlan.from_settings(settings, lanes=lanes, size=size)
    allocation = plan.allocate(waiting_by_lane, plan.size)
    total = sum(waiting_by_lane[lane] * weight for lane, weight in plan.weights.items())
    minimums = plan.get_minimums(waiting_by_lane, plan.size)
    table = Table("lane", "waiting", "share", "exact", "minimum", "workers")
    for lane, weight in plan.weights.items():
        share = (
            waiting_by_lane[lane] * weight / total if total else weight / sum(plan.weights.values())
        )
        table.add_row(
            lane,
            f"{waiting_by_lane[lane]:,}",
            f"{float(share):.1%}",
            f"{float(share) * plan.size:.2f}",
            str(minimums[lane]),
            str(allocation[lane]),
        )
    out.print(table)
    out.print(
        "Shares are rounded down; the last lane with work gets the remainder. Minimums are applied "
        "last. A worker whose lane is empty serves the others."
    )
    for warning in plan.warnings:
        out.print(f"[yellow]{warning}[/]")


def _order_lanes(waiting_by_lane: Mapping[str, int], pool_lanes: str) -> str:
    """List the lanes in the order of the setting, with their weights, then all others."""
    weights = parse_lanes(pool_lanes)
    known = [f"{lane}={weight}" for lane, weight in weights.items() if lane in waiting_by_lane]
    return ",".join([*known, *(lane for lane in waiting_by_lane if lane not in weights)])


def _parse_backlog(text: str) -> tuple[str, int]:
    lane, _, count = text.partition("=")
    if not lane.isalnum() or not count.isdecimal():
        raise typer.BadParameter(
            f"expected LANE=DOCUMENTS, got {text!r}; for example {lane or 'index'}=50"
        )
    return lane, int(count)


@app.command()
def status(*, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the lanes, workers and leader of the pool."""
    pool = asyncio.run(_fetch_status(load_settings()))
    if json:
        out.print_json(data=pool)
        return
    _print_status(pool)


async def _fetch_status(settings: Settings) -> rows.PoolStatusAnswer:
    async with stack.open_database(settings) as connection:
        return await connection.pool_status(hours=1)


def _print_status(pool: rows.PoolStatusAnswer) -> None:
    leader = pool["leader"]
    if not pool["workers"]:
        out.print("The pool is empty; start it with `pagewarden work`.")
    elif leader is None or leader["is_late"]:
        out.print("[yellow]The pool currently has no leader; workers stay in their lanes.[/]")
    else:
        out.print(Text(f"leader: {leader['process']}, since {leader['since'][:19]}"))
    lanes = Table("lane", "waiting", "workers", "reading")
    for lane, waiting in pool["backlog"].items():
        serving = sum(w["lane"] == lane for w in pool["workers"])
        reading = sum(w["reads_lane"] == lane for w in pool["workers"])
        notes = [" (paused)"] if lane in pool["paused"] else []
        if waiting and pool["workers"] and not any(lane in w["lanes"] for w in pool["workers"]):
            notes.append(" (not served: start `pagewarden work --lanes " + lane + "`)")
        lanes.add_row(lane + "".join(notes), f"{waiting:,}", str(serving), str(reading))
    out.print(lanes)
    workers = Table("worker", "lane", "document", "switches", "last seen")
    for w in pool["workers"]:
        reads = f"{w['document_name'] or w['reads_document']} ({w['reads_lane']})"
        workers.add_row(
            Text(w["worker_id"]),
            w["lane"] or "-",
            Text(reads if w["reads_document"] else "-"),
            str(w["switches"]),
            w["seen_at"][11:19],
        )
    out.print(workers)
    for switch in pool["switches"][:_MAX_SWITCHES]:
        change = f"{switch['worker_id']} from {switch['from_lane']} to {switch['to_lane']}"
        out.print(Text(f"{switch['at'][11:19]} {change}: {switch['reason']}"))
