"""An orchestrator or a worker in its own process, which tests kill."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pydantic

from pagewarden import database, settings
from pagewarden.database.listener import VOLUME_CHANNEL, Listener, open_listener
from pagewarden.volumes import artifacts, orchestrator, queues, stage_attempt, worker
from pagewarden.volumes import stages as stages_module
from tests.volumes import fakes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Orders:
    """What the process runs, and its settings."""

    role: str  # "orchestrator" or "worker"
    name: str
    url: str
    output: str
    input: str | None = None  # None: fake stages, which need no originals
    stages: Sequence[str] = stages_module.STAGES[::-1]
    page_seconds: float = 0.05
    lock_seconds: float = 2.0
    heartbeat_seconds: float = 0.3
    idle_seconds: float = 0.2
    environment: Mapping[str, str] = field(default_factory=dict)


def run(orders: Orders) -> None:
    """Run until SIGTERM."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os.environ.update(orders.environment)
    asyncio.run(_run(orders))


async def _run(orders: Orders) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    chosen = settings.Settings(database_url=pydantic.SecretStr(orders.url))
    async with (
        await database.connect_direct(orders.url, connections=4) as link,
        open_listener(orders.url, VOLUME_CHANNEL) as listener,
    ):
        if orders.role == "orchestrator":
            publisher = queues.open_publisher(chosen)
            looking = orchestrator.Orchestrator(
                link, orders.name, publisher, listener, sweep_seconds=1
            )
            await looking.run(stop)
        else:
            await _work(orders, chosen, link, listener).run(stop)


def _work(
    orders: Orders, chosen: settings.Settings, link: database.Database, listener: Listener
) -> worker.StageWorker:
    output = artifacts.open_bucket(orders.output, chosen)
    originals = artifacts.open_bucket(orders.input or orders.output, chosen)
    return worker.StageWorker(
        link,
        queues.open_queue(chosen, link, orders.stages),
        stage_attempt.StageEnvironment(originals, output),
        worker_id=orders.name,
        stages=orders.stages,
        lock_seconds=orders.lock_seconds,
        heartbeat_seconds=orders.heartbeat_seconds,
        idle_seconds=orders.idle_seconds,
        listener=listener,
        load_stage=stages_module.load if orders.input else fakes.steady(orders.page_seconds),
    )
