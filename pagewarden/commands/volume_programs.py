"""pagewarden volumes work, and orchestrate: programs that run until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from pagewarden import observed, settings, waking
from pagewarden.commands import work as connecting
from pagewarden.volumes import (
    artifacts,
    orchestrator,
    places,
    queues,
    stages,
    turns,
    worker,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

log = structlog.get_logger(__name__)

InputBucket = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Where images are: a folder or s3://… Default: PAGEWARDEN_VOLUME_INPUT.",
    ),
]
OutputBucket = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Where artifacts go: a folder or s3://… Default: PAGEWARDEN_VOLUME_OUTPUT.",
    ),
]


def work(
    *,
    stage: Annotated[
        str | None,
        typer.Option(help=f"One of {', '.join(stages.STAGES)}. Default: all, the last first."),
    ] = None,
    input_bucket: InputBucket = None,
    output_bucket: OutputBucket = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="A model for the stage."),
    ] = None,
) -> None:
    """Do stages of volumes as they come, until Ctrl-C; any number of machines may do so."""
    if stage is not None and stage not in stages.STAGES:
        raise typer.BadParameter(f"there is no stage {stage!r}; one of {', '.join(stages.STAGES)}")
    if model is not None and stage is None:
        raise typer.BadParameter("a --model is for one stage; name it with --stage")
    chosen = settings.load()
    served = [stage] if stage else list(reversed(stages.STAGES))
    addresses = places.input_of(chosen, input_bucket), places.output_of(chosen, output_bucket)
    with observed.program("volumes", chosen):
        asyncio.run(_work(chosen, served, addresses, model))


async def _work(
    chosen: settings.Settings,
    served: Sequence[str],
    addresses: tuple[str, str],
    model: Path | None,
) -> None:
    stop = _stopping()
    async with (
        connecting.connected(chosen, connections=4, channel=waking.VOLUMES) as (connection, hints),
        artifacts.open_bucket(addresses[0], chosen) as source,
        artifacts.open_bucket(addresses[1], chosen) as target,
    ):
        await target.prepare()
        serving = worker.Worker(
            connection,
            queues.open_queue(chosen, connection, served),
            turns.Places(source, target, model),
            worker_id=_process(),
            stages=served,
            lock_seconds=chosen.lock_seconds,
            heartbeat_seconds=chosen.heartbeat_seconds,
            hints=hints,
        )
        log.info("working", stages=served, input=addresses[0], output=addresses[1])
        await serving.run(stop)


def orchestrate(
    *, once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False
) -> None:
    """Move volumes from stage to stage, until Ctrl-C; one does, however many run."""
    chosen = settings.load()
    with observed.program("orchestrator", chosen):
        asyncio.run(_orchestrate(chosen, once=once))


async def _orchestrate(chosen: settings.Settings, *, once: bool) -> None:
    async with connecting.connected(chosen, connections=2, channel=waking.VOLUMES) as (link, hints):
        looking = orchestrator.Orchestrator(link, _process(), queues.open_publisher(chosen), hints)
        if once:
            await looking.look()
            return
        log.info("orchestrating", queue=queues.kind_of(chosen))
        await looking.run(_stopping())


def _stopping() -> asyncio.Event:
    """Have an event that Ctrl-C and SIGTERM set."""
    stop = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    return stop


def _process() -> str:
    # Containers may share both a name and a number.
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
