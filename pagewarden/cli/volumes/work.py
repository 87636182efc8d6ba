"""`pagewarden volumes work` and `orchestrate`: programs that run until Ctrl-C."""

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

from pagewarden.cli import program
from pagewarden.database import listener
from pagewarden.local import stack
from pagewarden.settings import load as load_settings
from pagewarden.volumes import artifacts, orchestrator, queues, stage_attempt, stages, worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.settings import Settings

log = structlog.get_logger(__name__)

InputBucket = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Input bucket: a folder or s3://… Default: PAGEWARDEN_VOLUME_INPUT.",
    ),
]
OutputBucket = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Output bucket: a folder or s3://… Default: PAGEWARDEN_VOLUME_OUTPUT.",
    ),
]


def work(
    *,
    stage: Annotated[
        str | None,
        typer.Option(help=f"Stage: {', '.join(stages.STAGES)}. Default: all, last stage first."),
    ] = None,
    input_bucket: InputBucket = None,
    output_bucket: OutputBucket = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Model file for the stage."),
    ] = None,
) -> None:
    """Run a volume worker until Ctrl-C; any number can run, on any machine."""
    if stage is not None:
        require_stage(stage)
    if model is not None and stage is None:
        raise typer.BadParameter("--model requires --stage")
    settings = load_settings()
    stage_names = [stage] if stage else list(reversed(stages.STAGES))
    addresses = (
        artifacts.get_input_address(settings, input_bucket),
        artifacts.get_output_address(settings, output_bucket),
    )
    with program.instrument("volumes", settings):
        asyncio.run(_work(settings, stage_names, addresses, model))


async def _work(
    settings: Settings,
    stage_names: Sequence[str],
    addresses: tuple[str, str],
    model: Path | None,
) -> None:
    stop = _make_stop_event()
    async with (
        stack.open_worker_database(settings, connections=4, channel=listener.VOLUME_CHANNEL) as (
            connection,
            hints,
        ),
        artifacts.open_bucket(addresses[0], settings) as source,
        artifacts.open_bucket(addresses[1], settings) as target,
    ):
        await target.prepare()
        stage_worker = worker.StageWorker(
            connection,
            queues.open_queue(settings, connection, stage_names),
            stage_attempt.StageEnvironment(source, target, model),
            worker_id=_make_process_id(),
            stages=stage_names,
            lock_seconds=settings.lock_seconds,
            heartbeat_seconds=settings.heartbeat_seconds,
            listener=hints,
        )
        log.info("worker_started", stages=stage_names, input=addresses[0], output=addresses[1])
        await stage_worker.run(stop)


def orchestrate(
    *, once: Annotated[bool, typer.Option("--once", help="Run one step and exit.")] = False
) -> None:
    """Run the volume orchestrator until Ctrl-C; if several run, only one is active."""
    settings = load_settings()
    with program.instrument("orchestrator", settings):
        asyncio.run(_orchestrate(settings, once=once))


async def _orchestrate(settings: Settings, *, once: bool) -> None:
    async with stack.open_worker_database(
        settings, connections=2, channel=listener.VOLUME_CHANNEL
    ) as (
        connection,
        hints,
    ):
        publisher = queues.open_publisher(settings)
        orchestrating = orchestrator.Orchestrator(connection, _make_process_id(), publisher, hints)
        if once:
            await orchestrating.step()
            return
        log.info("orchestrator_started", queue=queues.get_queue_kind(settings))
        await orchestrating.run(_make_stop_event())


def require_stage(stage: str) -> None:
    """Raise a usage error if there is no such stage."""
    if stage not in stages.STAGES:
        choices = ", ".join(stages.STAGES)
        raise typer.BadParameter(f"unknown stage {stage!r}; choose from {choices}")


def _make_stop_event() -> asyncio.Event:
    """Return an event that is set on Ctrl-C and SIGTERM."""
    stop = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    return stop


def _make_process_id() -> str:
    # Containers may share both a host name and a process ID.
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
