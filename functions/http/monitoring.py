"""/healthz, /readyz and /metrics: health checks, and metrics of the process and the database."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Literal, cast

import prometheus_client
import structlog
from fastapi import APIRouter, Request, Response
from prometheus_client import metrics_core, registry
from pydantic import BaseModel

from pagewarden import services
from pagewarden.auth import keys
from pagewarden.database import tables
from pagewarden.errors import DatabaseError, NotSignedIn, PagewardenError, RequestRejected
from pagewarden.functions.http import errors
from pagewarden.telemetry import metrics as process_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pagewarden.database import Database, rows

log = structlog.get_logger(__name__)

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """The check succeeded."""

    status: Literal["ok"] = "ok"


@router.get("/healthz")
async def alive() -> Health:
    """Liveness: respond while the process runs."""
    return Health()


@router.get("/readyz", responses=errors.error_responses(503))
async def ready(services: services.Current) -> Health:
    """Readiness: check that the database and the file store are available."""
    try:
        await services.database.select(tables.lanes, columns="lane", limit=1)
        await services.store.ping()
    except PagewardenError as exc:
        # The route is public, and the error may name hosts, accounts and folders.
        log.warning("not_ready", error=str(exc))
        raise RequestRejected(
            "NOT_READY", "the database or the file store is unavailable; see the log"
        ) from exc
    return Health()


CACHE_SECONDS = 5.0
QUERY_TIMEOUT_SECONDS = 3.0

UP = "pagewarden_database_up"
GAUGES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    UP: ("1 if the database responded to the last query.", ()),
    "pagewarden_queue_documents": (
        "Queued documents, due now or scheduled for a later attempt; counted up to 100,000.",
        ("lane", "due"),
    ),
    "pagewarden_processing_documents": ("Documents claimed by workers.", ("lane",)),
    "pagewarden_stuck_documents": (
        "Documents claimed for more than 10 minutes, or without a heartbeat for 5 minutes.",
        ("lane",),
    ),
    "pagewarden_oldest_waiting_seconds": (
        "Seconds that the next document in a lane has been waiting.",
        ("lane",),
    ),
    "pagewarden_registry_documents": (
        "Registry documents whose file has not been delivered, by state; counted up to 100,000.",
        ("state",),
    ),
    "pagewarden_lane_paused": ("1 while a lane is paused.", ("lane",)),
    "pagewarden_dead_letters": ("Dead letters awaiting a decision.", ("category",)),
    "pagewarden_open_alerts": ("Open alerts.", ("severity",)),
    "pagewarden_open_tasks": ("Open HAC tasks.", ()),
    "pagewarden_workers": (
        "Long-running workers, by state: reading, idle, or without a recent heartbeat.",
        ("state",),
    ),
}

_Sample = tuple[str, tuple[str, ...], float]


class DatabaseMetrics(registry.Collector):
    """Gauges of the database, queried at most once in CACHE_SECONDS.

    While the database is unavailable, only pagewarden_database_up is reported.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._lock = asyncio.Lock()
        self._queried_at: float | None = None
        self._samples: tuple[_Sample, ...] = ()

    async def to_prometheus_text(self) -> bytes:
        """Return the gauges in the text format of Prometheus."""
        async with self._lock:
            if self._queried_at is None or self._clock() - self._queried_at >= CACHE_SECONDS:
                self._samples = await self._query()
                self._queried_at = self._clock()
        return prometheus_client.generate_latest(self)

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Return each gauge with its values."""
        for name, (meaning, labels) in GAUGES.items():
            family = metrics_core.GaugeMetricFamily(name, meaning, labels=labels)
            for gauge, values, value in self._samples:
                if gauge == name:
                    family.add_metric(values, value)
            if family.samples:
                yield family

    async def _query(self) -> tuple[_Sample, ...]:
        try:
            async with asyncio.timeout(QUERY_TIMEOUT_SECONDS):
                answer = await self._database.system_metrics()
        except (DatabaseError, TimeoutError) as exc:
            log.warning("database_metrics_unavailable", error=str(exc) or type(exc).__name__)
            return ((UP, (), 0.0),)
        return ((UP, (), 1.0), *_to_samples(answer))


def _to_samples(answer: rows.SystemMetricsAnswer) -> Iterator[_Sample]:
    for lane in answer["lanes"]:
        name = lane["lane"]
        yield "pagewarden_queue_documents", (name, "now"), lane["queued"]
        yield "pagewarden_queue_documents", (name, "later"), lane["later"]
        yield "pagewarden_processing_documents", (name,), lane["processing"]
        yield "pagewarden_stuck_documents", (name,), lane["stuck"]
        yield "pagewarden_oldest_waiting_seconds", (name,), lane["oldest_seconds"]
        yield "pagewarden_lane_paused", (name,), float(lane["paused"])
    yield "pagewarden_open_tasks", (), answer["open_tasks"]
    counts = {
        "pagewarden_dead_letters": answer["dead_letters"],
        "pagewarden_open_alerts": answer["open_alerts"],
        "pagewarden_workers": answer["workers"],
        "pagewarden_registry_documents": answer["extractions"],
    }
    for name, by_label in counts.items():
        for row in by_label:
            yield name, (row["label"],), row["count"]


metrics_router = APIRouter(tags=["health"])


@metrics_router.get("/metrics", response_class=Response, responses=errors.error_responses(401))
async def metrics(request: Request, services: services.Current) -> Response:
    """Return metrics for Prometheus: from this machine, or with a key."""
    peer = request.client.host if request.client else None
    if not keys.MetricsAccess.from_settings(services.settings, services.keys.secret_key).allows(
        peer, request.headers
    ):
        raise NotSignedIn(process_metrics.UNAUTHORIZED_MESSAGE)
    database_metrics = cast("DatabaseMetrics", request.app.state.database_metrics)
    text = (
        process_metrics.current().to_prometheus_text() + await database_metrics.to_prometheus_text()
    )
    return Response(text, headers={"Content-Type": process_metrics.MEDIA_TYPE})
