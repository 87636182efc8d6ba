"""How things stand in the database, as gauges: asked when somebody asks, and not too often."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import prometheus_client
import structlog
from prometheus_client import metrics_core, registry

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pagewarden.database import Database, rows

log = structlog.get_logger(__name__)

FRESH_SECONDS = 5.0
ANSWER_SECONDS = 3.0

UP = "pagewarden_database_up"
GAUGES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    UP: ("Whether the database has just answered.", ()),
    "pagewarden_queue_documents": (
        "Documents that wait: for a worker, or for their next attempt; counted up to 100,000.",
        ("lane", "due"),
    ),
    "pagewarden_processing_documents": ("Documents in the hands of workers.", ("lane",)),
    "pagewarden_stuck_documents": (
        "Of these, in hand for more than 10 minutes, or without a heartbeat for 5.",
        ("lane",),
    ),
    "pagewarden_oldest_waiting_seconds": (
        "How long the next document of a lane has waited.",
        ("lane",),
    ),
    "pagewarden_lane_paused": ("1 while nobody takes documents of a lane.", ("lane",)),
    "pagewarden_dead_letters": ("Documents given up, which wait for a person.", ("category",)),
    "pagewarden_open_alerts": ("Alerts that are open.", ("severity",)),
    "pagewarden_open_tasks": ("Tasks that wait for a person.", ()),
    "pagewarden_workers": (
        "Workers that run all the time: reading, idle, or not heard of for too long.",
        ("state",),
    ),
}

_Sample = tuple[str, tuple[str, ...], float]


class Standing(registry.Collector):
    """Asks the database once for all who ask within a few seconds.

    What a database holds that is away nobody knows, so only that it is away is told.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._asking = asyncio.Lock()
        self._asked_at: float | None = None
        self._samples: tuple[_Sample, ...] = ()

    async def as_text(self) -> bytes:
        """Write it as Prometheus wants it."""
        async with self._asking:
            if self._asked_at is None or self._clock() - self._asked_at >= FRESH_SECONDS:
                self._samples = await self._ask()
                self._asked_at = self._clock()
        return prometheus_client.generate_latest(self)

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Give each gauge with its values."""
        for name, (meaning, labels) in GAUGES.items():
            family = metrics_core.GaugeMetricFamily(name, meaning, labels=labels)
            for of, values, value in self._samples:
                if of == name:
                    family.add_metric(values, value)
            if family.samples:
                yield family

    async def _ask(self) -> tuple[_Sample, ...]:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                found = await self._database.system_metrics()
        except (errors.DatabaseError, TimeoutError) as exc:
            log.warning("standing_unknown", error=str(exc) or type(exc).__name__)
            return ((UP, (), 0.0),)
        return ((UP, (), 1.0), *_samples(found))


def _samples(found: rows.SystemMetricsAnswer) -> Iterator[_Sample]:
    for lane in found["lanes"]:
        of = lane["lane"]
        yield "pagewarden_queue_documents", (of, "now"), lane["queued"]
        yield "pagewarden_queue_documents", (of, "later"), lane["later"]
        yield "pagewarden_processing_documents", (of,), lane["processing"]
        yield "pagewarden_stuck_documents", (of,), lane["stuck"]
        yield "pagewarden_oldest_waiting_seconds", (of,), lane["oldest_seconds"]
        yield "pagewarden_lane_paused", (of,), float(lane["paused"])
    yield "pagewarden_open_tasks", (), found["open_tasks"]
    counts = {
        "pagewarden_dead_letters": found["dead_letters"],
        "pagewarden_open_alerts": found["open_alerts"],
        "pagewarden_workers": found["workers"],
    }
    for name, by_label in counts.items():
        for row in by_label:
            yield name, (row["label"],), row["count"]
