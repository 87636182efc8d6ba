"""/healthz, /readyz and /metrics: health checks, and metrics of the process and the database."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import prometheus_client
import structlog
from fastapi import APIRouter, Request, Response, Security, security
from prometheus_client import metrics_core, registry
from pydantic import BaseModel

from pagewarden import services
from pagewarden.auth import keys
from pagewarden.database import tables
from pagewarden.errors import DatabaseError, NotSignedIn, PagewardenError, RequestRejected
from pagewarden.functions.http import errors
from pagewarden.telemetry import metrics as process_metrics

if TYPE_CHECKING:
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
# The limits of private.seconds_bucket().
_BUCKETS = ("1", "5", "15", "60", "300", "900", "3600", "+Inf")
QUERY_TIMEOUT_SECONDS = 3.0

UP = "pagewarden_database_up"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric of the database: its type, help and labels."""

    make: Callable[..., Any]
    meaning: str
    labels: tuple[str, ...] = ()

    def collect(self, name: str, samples: Iterable[_Sample]) -> metrics_core.Metric | None:
        """Return the metric with its samples, or None without any."""
        metric: metrics_core.Metric = self.make(name, self.meaning, labels=self.labels)
        for sample in samples:
            if sample.name == name:
                metric.add_metric(sample.labels, *sample.values)  # type: ignore[attr-defined]
        return metric if metric.samples else None


_GAUGE = metrics_core.GaugeMetricFamily
_COUNTER = metrics_core.CounterMetricFamily
_SUMMARY = metrics_core.SummaryMetricFamily
_HISTOGRAM = metrics_core.HistogramMetricFamily

FAMILIES: Mapping[str, Family] = {
    UP: Family(_GAUGE, "1 if the database responded to the last query."),
    "pagewarden_queue_documents": Family(
        _GAUGE,
        "Queued documents, due now or scheduled for a later attempt; counted up to 100,000.",
        ("lane", "due"),
    ),
    "pagewarden_processing_documents": Family(_GAUGE, "Documents claimed by workers.", ("lane",)),
    "pagewarden_stuck_documents": Family(
        _GAUGE,
        "Documents claimed for more than 10 minutes, or without a heartbeat for 5 minutes.",
        ("lane",),
    ),
    "pagewarden_oldest_waiting_seconds": Family(
        _GAUGE, "Seconds that the next document in a lane has been waiting.", ("lane",)
    ),
    "pagewarden_registry_documents": Family(
        _GAUGE,
        "Registry documents whose file has not been delivered, by state; counted up to 100,000.",
        ("state",),
    ),
    "pagewarden_lane_paused": Family(_GAUGE, "1 while a lane is paused.", ("lane",)),
    "pagewarden_dead_letters": Family(_GAUGE, "Dead letters awaiting a decision.", ("category",)),
    "pagewarden_open_alerts": Family(_GAUGE, "Open alerts.", ("severity",)),
    "pagewarden_open_tasks": Family(_GAUGE, "Open HAC tasks."),
    "pagewarden_workers": Family(
        _GAUGE,
        "Long-running workers, by state: reading, idle, or without a recent heartbeat.",
        ("state",),
    ),
    "pagewarden_pool_workers": Family(
        _GAUGE, "Workers of the pool, assigned to a lane or reading in it.", ("lane", "state")
    ),
    "pagewarden_pool_switches": Family(
        _COUNTER, "Workers of the pool that were moved to a lane from another.", ("lane",)
    ),
    "pagewarden_open_check_jobs": Family(_GAUGE, "Check jobs that have not ended."),
    "pagewarden_check_job_seconds": Family(
        _HISTOGRAM, "Seconds from the start of a check job's run to its end.", ("outcome",)
    ),
    "pagewarden_volumes": Family(
        _GAUGE,
        "Volumes at a stage: queued, processing, or later: waiting for a retry.",
        ("stage", "state"),
    ),
    "pagewarden_oldest_volume_seconds": Family(
        _GAUGE, "Seconds that the first volume at a stage has been waiting.", ("stage",)
    ),
    "pagewarden_volume_stage_seconds": Family(
        _SUMMARY, "Seconds of the attempts at a stage of a volume.", ("stage", "outcome")
    ),
    "pagewarden_function_starts": Family(
        _COUNTER, "Calls of a function by services that began.", ("function",)
    ),
    "pagewarden_function_seconds": Family(
        _SUMMARY, "Seconds of the calls of a function by services.", ("function", "outcome")
    ),
}
"""Metrics of the database by name; counters are shown with `_total`."""


class _Sample(NamedTuple):
    name: str
    labels: tuple[str, ...]
    values: tuple[Any, ...]


class DatabaseMetrics(registry.Collector):
    """Metrics of the database, queried at most once in CACHE_SECONDS.

    While the database is unavailable, only pagewarden_database_up is reported.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._lock = asyncio.Lock()
        self._queried_at: float | None = None
        self._samples: tuple[_Sample, ...] = ()

    async def to_prometheus_text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        async with self._lock:
            if self._queried_at is None or self._clock() - self._queried_at >= CACHE_SECONDS:
                self._samples = await self._query()
                self._queried_at = self._clock()
        return prometheus_client.generate_latest(self)

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Return each metric with its values."""
        for name, family in FAMILIES.items():
            if (metric := family.collect(name, self._samples)) is not None:
                yield metric

    async def _query(self) -> tuple[_Sample, ...]:
        try:
            async with asyncio.timeout(QUERY_TIMEOUT_SECONDS):
                answer = await self._database.system_metrics()
        except (DatabaseError, TimeoutError) as exc:
            log.warning("database_metrics_unavailable", error=str(exc) or type(exc).__name__)
            return (_Sample(UP, (), (0.0,)),)
        gauges = (_Sample(name, labels, (value,)) for name, labels, value in _to_gauges(answer))
        return (_Sample(UP, (), (1.0,)), *gauges, *_to_counters(answer["counters"]))


def _to_gauges(
    answer: rows.SystemMetricsAnswer,
) -> Iterator[tuple[str, tuple[str, ...], float]]:
    for lane in answer["lanes"]:
        name = lane["lane"]
        yield "pagewarden_queue_documents", (name, "now"), lane["queued"]
        yield "pagewarden_queue_documents", (name, "later"), lane["later"]
        yield "pagewarden_processing_documents", (name,), lane["processing"]
        yield "pagewarden_stuck_documents", (name,), lane["stuck"]
        yield "pagewarden_oldest_waiting_seconds", (name,), lane["oldest_seconds"]
        yield "pagewarden_lane_paused", (name,), float(lane["paused"])
        yield "pagewarden_pool_workers", (name, "assigned"), lane["assigned_workers"]
        yield "pagewarden_pool_workers", (name, "reading"), lane["reading_workers"]
    for stage in answer["volume_stages"]:
        name = stage["stage"]
        yield "pagewarden_volumes", (name, "queued"), stage["queued"]
        yield "pagewarden_volumes", (name, "processing"), stage["processing"]
        yield "pagewarden_volumes", (name, "later"), stage["later"]
        yield "pagewarden_oldest_volume_seconds", (name,), stage["oldest_seconds"]
    yield "pagewarden_open_tasks", (), answer["open_tasks"]
    yield "pagewarden_open_check_jobs", (), answer["open_check_jobs"]
    counts = {
        "pagewarden_dead_letters": answer["dead_letters"],
        "pagewarden_open_alerts": answer["open_alerts"],
        "pagewarden_workers": answer["workers"],
        "pagewarden_registry_documents": answer["extractions"],
    }
    for name, by_label in counts.items():
        for row in by_label:
            yield name, (row["label"],), row["count"]


# The counters of the database; check jobs are counted by outcome and bucket, as a histogram.
_COUNTERS = {
    "pool_switches": "pagewarden_pool_switches",
    "function_starts": "pagewarden_function_starts",
}
_SUMMARIES = {
    "volume_stages": "pagewarden_volume_stage_seconds",
    "functions": "pagewarden_function_seconds",
}
_CHECK_JOBS = "check_jobs"


def _to_counters(counters: Iterable[rows.CountedEvents]) -> Iterator[_Sample]:
    check_jobs: dict[str, list[rows.CountedEvents]] = {}
    for row in counters:
        counter, labels = row["counter"], tuple(row["labels"])
        if counter in _COUNTERS:
            yield _Sample(_COUNTERS[counter], labels, (row["events"],))
        elif counter in _SUMMARIES:
            yield _Sample(_SUMMARIES[counter], labels, (row["events"], row["seconds"]))
        elif counter == _CHECK_JOBS:
            check_jobs.setdefault(labels[0], []).append(row)
    for outcome, found in check_jobs.items():
        seconds = sum(row["seconds"] for row in found)
        yield _Sample(
            "pagewarden_check_job_seconds", (outcome,), (_accumulate_buckets(found), seconds)
        )


def _accumulate_buckets(counts: Iterable[rows.CountedEvents]) -> list[tuple[str, int]]:
    """Return the buckets of a histogram; each includes those below it."""
    by_limit = {row["labels"][1]: row["events"] for row in counts}
    totals = itertools.accumulate(by_limit.get(limit, 0) for limit in _BUCKETS)
    return list(zip(_BUCKETS, totals, strict=True))


metrics_router = APIRouter(tags=["health"])


_METRICS_TOKEN = security.HTTPBearer(
    scheme_name="MetricsToken",
    auto_error=False,
    description="PAGEWARDEN_METRICS_TOKEN or the secret key; not needed on the same machine.",
)


@metrics_router.get(
    "/metrics",
    response_class=Response,
    responses=errors.error_responses(401)
    | {200: {"content": {"text/plain": {}}, "description": "Metrics in Prometheus' text format."}},
    dependencies=[Security(_METRICS_TOKEN)],
    openapi_extra={"security": [{}]},  # or none
)
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
