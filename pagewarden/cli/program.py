"""Signals, exit codes, metrics and traces of long-lived commands."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from typing import TYPE_CHECKING

from pagewarden.auth import keys
from pagewarden.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from pagewarden.settings import Settings

SOME_FAILED = 1
INTERRUPTED = 130


async def run_until_terminated(coroutine: Coroutine[None, None, None]) -> None:
    """Run a coroutine; cancel it on SIGTERM, as Ctrl-C does."""
    task = asyncio.ensure_future(coroutine)
    if threading.current_thread() is threading.main_thread():  # only this one receives signals
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await task


@contextlib.contextmanager
def instrument(name: str, settings: Settings) -> Iterator[None]:
    """Serve metrics and send traces; `name` is the service name in traces."""
    with serve_metrics(settings), tracing.send_spans(name, settings.otlp_endpoint):
        yield


@contextlib.contextmanager
def serve_metrics(settings: Settings) -> Iterator[str | None]:
    """Serve metrics if a port is configured; yield the URL."""
    if settings.metrics_port is None:
        yield None
        return
    from pagewarden.telemetry import metrics  # noqa: PLC0415  # short commands need no metrics

    access = keys.MetricsAccess.from_settings(settings, keys.find_secret_key(settings))
    with metrics.serve_metrics(settings.metrics_host, settings.metrics_port, access.allows) as url:
        yield url
