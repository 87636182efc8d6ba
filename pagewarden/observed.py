"""Serve the metrics of a long-lived program and send its traces, as the settings say."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pagewarden import keys, scrapers
from pagewarden.telemetry import metrics, tracing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pagewarden.settings import Settings


@contextlib.contextmanager
def program(name: str, settings: Settings) -> Iterator[None]:
    """Serve metrics and send traces while a program runs; name is its name in traces."""
    with serve_metrics(settings), tracing.send_spans(name, settings.otlp_endpoint):
        yield


@contextlib.contextmanager
def serve_metrics(settings: Settings) -> Iterator[str | None]:
    """Serve metrics if the settings have a port for them; yield the URL."""
    if settings.metrics_port is None:
        yield None
        return
    door = scrapers.door(settings, keys.find_secret_key(settings))
    with metrics.serve_metrics(settings.metrics_host, settings.metrics_port, door.admits) as url:
        yield url
