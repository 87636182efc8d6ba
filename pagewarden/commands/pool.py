"""pagewarden pool: one pool of workers for all lanes."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
from typing import TYPE_CHECKING, Annotated

import structlog
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagewarden import files, observed, settings
from pagewarden.commands import work
from pagewarden.documents import lane_reader, store_reader
from pagewarden.local import stack
from pagewarden.pool import plans, running

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pagewarden.database import rows

log = structlog.get_logger(__name__)

app = typer.Typer(
    help="Run a pool of workers that follows the work from lane to lane, or look at it.",
    no_args_is_help=True,
)

out = Console(highlight=False)

Lanes = Annotated[
    str | None,
    typer.Option(help="Lanes to serve, as in index,acte,image=2. Default: PAGEWARDEN_POOL_LANES."),
]
Size = Annotated[
    int | None, typer.Option(min=1, help="Workers of the pool. Default: OCR_WORKER_POOL_SIZE.")
]


@app.command()
def run(
    *,
    lanes: Lanes = None,
    size: Size = None,
    engine: Annotated[str | None, typer.Option(help="What reads, unless wished otherwise.")] = None,
) -> None:
    """Read documents of all lanes, until Ctrl-C; more machines may join the pool."""
    chosen = settings.load()
    plan = plans.make(chosen, lanes=lanes, size=size)
    for warning in plan.warnings:
        log.warning("pool_is_large", problem=warning)
    wishes = store_reader.Wishes(engine or chosen.engine, chosen.profile)
    with observed.program("pool", chosen):
        asyncio.run(_run(chosen, plan, wishes))


async def _run(chosen: settings.Settings, plan: plans.Plan, wishes: store_reader.Wishes) -> None:
    stop = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    # Containers may share both a name and a number.
    process = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    hands = min(plan.count, max(1, round(plan.cpu)))
    async with (
        work.connected(chosen, connections=2 * plan.count + 2) as (connection, hints),
        files.open_store(chosen) as store,
        lane_reader.opened(chosen, store, connection, wishes=wishes, processes=hands) as reader,
    ):
        await reader.start(plan.lanes)
        log.info("pool", lanes=plan.lanes, workers=plan.count, of=plan.size, cpu=plan.cpu)
        program = running.Program(
            connection, reader, hints, process, chosen.lock_seconds, chosen.heartbeat_seconds
        )
        await program.run(plan, stop)


@app.command("plan")
def show_plan(
    backlog: Annotated[
        list[str], typer.Argument(metavar="LANE=DOCUMENTS...", help="What waits, as in index=50.")
    ],
    *,
    size: Size = None,
) -> None:
    """Show how a pool would be shared out, and why."""
    waiting = dict(_waiting(word) for word in backlog)
    chosen = settings.load()
    plan = plans.make(chosen, lanes=_ordered(waiting, chosen.pool_lanes), size=size)
    given = plan.allocate(waiting, plan.size)
    total = sum(waiting[lane] * weight for lane, weight in plan.weights.items())
    table = Table("lane", "waiting", "share", "of the pool", "at least", "workers")
    for lane, weight in plan.weights.items():
        share = waiting[lane] * weight / total if total else weight / sum(plan.weights.values())
        table.add_row(
            lane,
            f"{waiting[lane]:,}",
            f"{float(share):.1%}",
            f"{float(share) * plan.size:.2f}",
            str(plan.minimums.get(lane, 0)),
            str(given[lane]),
        )
    out.print(table)
    out.print("Shares are rounded down, the last lane with work takes the rest; then minimums.")
    for warning in plan.warnings:
        out.print(f"[yellow]{warning}[/]")


def _ordered(waiting: Mapping[str, int], pool_lanes: str) -> str:
    """Write the lanes as the setting has them, with their weights, and then all others."""
    weights = plans.parse(pool_lanes)
    known = [f"{lane}={weight}" for lane, weight in weights.items() if lane in waiting]
    return ",".join([*known, *(lane for lane in waiting if lane not in weights)])


def _waiting(word: str) -> tuple[str, int]:
    lane, _, count = word.partition("=")
    if not lane.isalnum() or not count.isdecimal():
        raise typer.BadParameter(f"{word!r} does not say what waits; write {lane or 'index'}=50")
    return lane, int(count)


@app.command()
def status(
    *, json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False
) -> None:
    """Show lanes, workers and leader of the pool."""
    seen = asyncio.run(_status(settings.load()))
    if json:
        out.print_json(data=seen)
        return
    _show(seen)


async def _status(chosen: settings.Settings) -> rows.PoolStatusAnswer:
    async with stack.connected(chosen) as connection:
        return await connection.pool_status(hours=1)


def _show(seen: rows.PoolStatusAnswer) -> None:
    leader = seen["leader"]
    if not seen["workers"]:
        out.print("The pool is empty; start it with `pagewarden pool run`.")
    elif leader is None or leader["is_late"]:
        out.print("[yellow]Nobody leads the pool just now; its workers go on where they are.[/]")
    else:
        out.print(Text(f"{leader['process']} leads since {leader['since'][:19]}"))
    lanes = Table("lane", "waiting", "workers", "reading")
    for lane, waiting in seen["backlog"].items():
        serving = sum(w["lane"] == lane for w in seen["workers"])
        reading = sum(w["reads_lane"] == lane for w in seen["workers"])
        paused = " (paused)" if lane in seen["paused"] else ""
        lanes.add_row(f"{lane}{paused}", f"{waiting:,}", str(serving), str(reading))
    out.print(lanes)
    workers = Table("worker", "lane", "reads", "switches", "seen")
    for w in seen["workers"]:
        reads = f"{w['document_name'] or w['reads_document']} ({w['reads_lane']})"
        workers.add_row(
            Text(w["worker_id"]),
            w["lane"] or "-",
            Text(reads if w["reads_document"] else "-"),
            str(w["switches"]),
            w["seen_at"][11:19],
        )
    out.print(workers)
