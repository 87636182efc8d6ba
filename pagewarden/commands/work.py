"""pagewarden work: a long-lived worker, for this machine or for more of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from pagewarden import database, documents, files, observed, settings, waking
from pagewarden.documents import lane_reader, store_reader, worker
from pagewarden.local import stack
from pagewarden.reading import engines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from typing import LiteralString

    from pagewarden.database import Database

log = structlog.get_logger(__name__)

DEFAULT_LANES = ",".join(lane_reader.LANES)


def command(
    *,
    lanes: Annotated[
        str, typer.Option(help="Lanes to serve, the preferred one first.")
    ] = DEFAULT_LANES,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes that read. Default: one for each core.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help=f"What reads, unless wished otherwise: {', '.join(engines.ENGINES)}."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(help=f"The same of speed and accuracy: {', '.join(engines.PROFILES)}."),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=1, help="Stop after so many seconds. Default: never.")
    ] = None,
) -> None:
    """Read documents as they come, until Ctrl-C; any number of machines may do so."""
    chosen = settings.load()
    wishes = store_reader.Wishes(engine or chosen.engine, profile or chosen.profile)
    served = [lane.strip() for lane in lanes.split(",") if lane.strip()]
    with observed.program("worker", chosen):
        asyncio.run(_work(chosen, served, wishes, processes, budget))


async def _work(
    chosen: settings.Settings,
    lanes: Sequence[str],
    wishes: store_reader.Wishes,
    processes: int | None,
    budget: float | None,
) -> None:
    stop = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    hands = (processes or os.cpu_count() or 1) + 1  # one fetches while the others are read
    async with (
        connected(chosen, connections=2 * hands) as (connection, hints),
        files.open_store(chosen) as store,
        lane_reader.opened(chosen, store, connection, wishes=wishes, processes=processes) as reader,
    ):
        await reader.start(lanes)
        workers = [
            documents.Worker(
                connection,
                reader,
                worker_id=f"{socket.gethostname()}-{os.getpid()}-{number}",
                lanes=lanes,
                lock_seconds=chosen.lock_seconds,
                heartbeat_seconds=chosen.heartbeat_seconds,
                budget_seconds=budget,
                hints=hints,
            )
            for number in range(1, hands + 1)
        ]
        log.info("working", lanes=lanes, engine=wishes.engine, documents_at_a_time=hands)
        await worker.side_by_side(workers, stop)


@contextlib.asynccontextmanager
async def connected(
    chosen: settings.Settings, *, connections: int, channel: LiteralString = waking.CHANNEL
) -> AsyncIterator[tuple[Database, waking.Hints]]:
    """Connect as the settings say; whoever only works changes nothing in the schema."""
    async with contextlib.AsyncExitStack() as resources:
        if chosen.supabase_url is not None:
            link: Database = await database.connect(chosen)
            url = None
        else:
            url = (await resources.enter_async_context(stack.located(chosen))).url
            link = await database.connect_direct(url, connections=connections)
        await resources.enter_async_context(link)
        yield link, await resources.enter_async_context(waking.listening(url, channel))
