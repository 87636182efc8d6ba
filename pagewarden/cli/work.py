"""`pagewarden work`: run the workers of the pool on this machine."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from pagewarden import storage
from pagewarden.cli import program
from pagewarden.documents.claim import ReadOptions
from pagewarden.documents.reader import open_lane_reader
from pagewarden.local import stack
from pagewarden.ocr import engines
from pagewarden.pool.plan import PoolPlan
from pagewarden.pool.program import PoolProgram
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    from pagewarden.settings import Settings

log = structlog.get_logger(__name__)


def command(
    *,
    lanes: Annotated[
        str | None,
        typer.Option(
            help="Lanes to serve, in order of preference, with optional weights, such as "
            "index,acte,image=2. Default: PAGEWARDEN_POOL_LANES."
        ),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Number of cores to use. Default: SERVER_MAX_CPU.")
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
    """Run workers for all lanes until Ctrl-C; any number of machines can share the pool."""
    settings = load_settings()
    plan = PoolPlan.from_settings(settings, lanes=lanes, cpu=processes)
    for warning in plan.warnings:
        log.warning("pool_too_large", reason=warning)
    options = ReadOptions(engine or settings.engine, profile or settings.profile)
    with program.instrument("worker", settings):
        asyncio.run(_work(settings, plan, options, budget))


async def _work(
    settings: Settings, plan: PoolPlan, options: ReadOptions, budget: float | None
) -> None:
    stop = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    # Containers may share both a host name and a process ID.
    process = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    is_remote = engines.find_engine(options.engine).remote
    connections = 2 * plan.local_size + 2
    async with (
        stack.open_worker_database(settings, connections=connections) as (database, listener),
        storage.open_store(settings) as store,
        open_lane_reader(
            settings,
            store,
            database,
            options=options,
            processes=None if is_remote else plan.processes,
        ) as reader,
    ):
        await reader.start(plan.lanes)
        log.info("worker_started", lanes=plan.lanes, engine=options.engine, workers=plan.local_size)
        pool = PoolProgram(
            database,
            reader,
            listener,
            process,
            settings.lock_seconds,
            settings.heartbeat_seconds,
            budget_seconds=budget,
        )
        await pool.run(plan, stop)
