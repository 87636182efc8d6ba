"""`pagewarden work`: run a document worker."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from pagewarden import documents, storage
from pagewarden.cli import program
from pagewarden.documents import worker
from pagewarden.documents.claim import ReadOptions
from pagewarden.documents.lanes import LANES
from pagewarden.documents.reader import open_lane_reader
from pagewarden.local import stack
from pagewarden.ocr import engines
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.settings import Settings

log = structlog.get_logger(__name__)

DEFAULT_LANES = ",".join(LANES)


def command(
    *,
    lanes: Annotated[
        str, typer.Option(help="Lanes to serve, in order of preference.")
    ] = DEFAULT_LANES,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Number of OCR processes. Default: one per core.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help=f"OCR engine for documents that do not specify one: {', '.join(engines.ENGINES)}."
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(help=f"Profile of documents that name none: {', '.join(engines.PROFILES)}."),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=1, help="Stop after this many seconds. Default: never.")
    ] = None,
) -> None:
    """Run a document worker until Ctrl-C; any number can run, on any machine."""
    settings = load_settings()
    options = ReadOptions(engine or settings.engine, profile or settings.profile)
    lane_names = [lane.strip() for lane in lanes.split(",") if lane.strip()]
    with program.instrument("worker", settings):
        asyncio.run(_work(settings, lane_names, options, processes, budget))


async def _work(
    settings: Settings,
    lanes: Sequence[str],
    options: ReadOptions,
    processes: int | None,
    budget: float | None,
) -> None:
    stop = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    # One more than there are processes: it fetches a document while the others read.
    concurrency = (processes or os.cpu_count() or 1) + 1
    async with (
        stack.open_worker_database(settings, connections=2 * concurrency) as (connection, hints),
        storage.open_store(settings) as store,
        open_lane_reader(
            settings, store, connection, options=options, processes=processes
        ) as reader,
    ):
        await reader.start(lanes)
        workers = [
            documents.Worker(
                connection,
                reader,
                worker_id=f"{socket.gethostname()}-{os.getpid()}-{number}",
                lanes=lanes,
                lock_seconds=settings.lock_seconds,
                heartbeat_seconds=settings.heartbeat_seconds,
                budget_seconds=budget,
                listener=hints,
            )
            for number in range(1, concurrency + 1)
        ]
        log.info("worker_started", lanes=lanes, engine=options.engine, concurrency=concurrency)
        await worker.run_workers(workers, stop)
