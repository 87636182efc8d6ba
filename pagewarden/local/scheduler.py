"""Call functions on the schedules of edge_function_config, and when a notification wakes them.

pg_cron and pg_net do the same on Supabase.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx
import structlog
from croniter import croniter

from pagewarden import concurrency, errors
from pagewarden.database import listener, tables
from pagewarden.database.retry import call_periodically
from pagewarden.documents.lanes import LANES
from pagewarden.telemetry import metrics
from pagewarden.volumes import orchestrator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from pagewarden.database import Database, rows
    from pagewarden.database.listener import Listener

log = structlog.get_logger(__name__)

TICK_SECONDS = 1.0
ALERT_SECONDS = 60.0
CALL_TIMEOUT_SECONDS = 300.0
VOLUME_ORCHESTRATOR = "volume-orchestrator"
POOL_MANAGER = "pool-manager"
# Their work is done by programs of `pagewarden up`.
PROGRAMS_OF_UP = frozenset({VOLUME_ORCHESTRATOR, POOL_MANAGER})
# Its work is SQL: sweep_periodically() does it.
_SWEEP = "stale-monitor"
_SECONDS = re.compile(r"([1-9]|[1-5][0-9]) seconds")


def _utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass(slots=True)
class Scheduler:
    """Calls functions at `url` when they are due, or when a document or volume arrives.

    `excluded` names functions whose work a program does. Unless `is_serverless`, functions that
    serve lanes are not called either: long-lived workers read the documents.
    """

    database: Database
    url: str
    secret_key: str = field(repr=False)
    now: Callable[[], dt.datetime] = _utc_now
    is_serverless: bool = False
    excluded: frozenset[str] = frozenset()
    _last_call: dict[str, dt.datetime] = field(default_factory=dict)
    _calls: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _events: dict[str, asyncio.Event] = field(default_factory=dict)
    _woken: dict[str, set[str]] = field(default_factory=dict)
    _invalid_schedules: dict[str, str] = field(default_factory=dict)

    async def run(self, stop: asyncio.Event) -> None:
        """Call what is due, every second and after each notification, until `stop` is set."""
        async with httpx.AsyncClient(
            base_url=self.url,
            headers={"apikey": self.secret_key},
            timeout=CALL_TIMEOUT_SECONDS,
            trust_env=False,
        ) as client:
            try:
                while not stop.is_set():
                    await self.call_due(client)
                    await concurrency.wait(stop, *self._events.values(), seconds=TICK_SECONDS)
            finally:
                await self.aclose()

    @contextlib.asynccontextmanager
    async def listen(self, database_url: str) -> AsyncIterator[None]:
        """Receive the notifications of documents and volumes that wake functions called here."""
        for_documents = database_url if self.is_serverless else None
        for_volumes = None if VOLUME_ORCHESTRATOR in self.excluded else database_url
        async with (
            listener.open_listener(for_documents) as documents,
            listener.open_listener(for_volumes, listener.VOLUME_CHANNEL) as volumes,
        ):
            with self.subscribe(documents, volumes):
                yield

    @contextlib.contextmanager
    def subscribe(self, documents: Listener, volumes: Listener) -> Iterator[None]:
        """Have an event for each lane, and one for the orchestrator of volumes."""
        with contextlib.ExitStack() as subscriptions:
            for lane in LANES:
                self._events[lane] = subscriptions.enter_context(documents.subscribe([lane]))
            self._events[orchestrator.CHANNEL] = subscriptions.enter_context(
                volumes.subscribe([orchestrator.CHANNEL])
            )
            yield

    async def call_due(self, client: httpx.AsyncClient) -> list[str]:
        """Start the calls that are due and return the names.

        A function that still runs is skipped; if it was woken meanwhile, it is called afterwards.
        """
        try:
            configured = await self.database.select(
                tables.edge_function_config, where={"enabled": True}
            )
        except (errors.DatabaseUnavailable, errors.Conflict) as exc:
            log.warning("schedules_unavailable", error=str(exc))
            return []
        served = [row for row in configured if self._is_served(row)]
        self._receive_wake_ups(served)
        due = [row["function_name"] for row in served if self._is_due(row)]
        for name in due:
            self._last_call[name] = self.now()
            body = {"lanes": sorted(lanes)} if (lanes := self._woken.pop(name, None)) else {}
            self._calls[name] = asyncio.create_task(_call(client, name, body))
        return due

    async def aclose(self) -> None:
        """Cancel the calls that still run."""
        for task in self._calls.values():
            task.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)

    def _is_served(self, row: rows.EdgeFunctionConfig) -> bool:
        if row["lanes"] and not self.is_serverless:
            return False
        return row["function_name"] != _SWEEP and row["function_name"] not in self.excluded

    def _receive_wake_ups(self, served: Sequence[rows.EdgeFunctionConfig]) -> None:
        """Note which functions were woken, each with the lanes in which a document arrived."""
        sources = {source for source, event in self._events.items() if event.is_set()}
        for source in sources:
            self._events[source].clear()
        for row in served:
            if lanes := sources.intersection(row["lanes"]):
                self._woken.setdefault(row["function_name"], set()).update(lanes)
            elif row["function_name"] == VOLUME_ORCHESTRATOR and orchestrator.CHANNEL in sources:
                self._woken.setdefault(VOLUME_ORCHESTRATOR, set())

    def _is_due(self, row: rows.EdgeFunctionConfig) -> bool:
        name, schedule = row["function_name"], row["schedule"]
        last = self._last_call.setdefault(name, self.now())
        if name in self._calls and not self._calls[name].done():
            return False
        if name in self._woken or schedule is None:
            return name in self._woken
        try:
            return find_next_due(schedule, last) <= self.now()
        except ValueError as exc:  # the database checks schedules only roughly
            if self._invalid_schedules.get(name) != schedule:
                self._invalid_schedules[name] = schedule
                log.warning("schedule_invalid", function=name, schedule=schedule, error=str(exc))
            return False


async def evaluate_alerts_periodically(database: Database, stop: asyncio.Event) -> None:
    """Evaluate the alert rules every minute until `stop` is set, even while no function runs."""
    await call_periodically(
        "evaluate_alerts", database.evaluate_alerts, stop, seconds=ALERT_SECONDS
    )


def find_next_due(schedule: str, last: dt.datetime) -> dt.datetime:
    """Return the first time after `last` at which a schedule of pg_cron is due."""
    if match := _SECONDS.fullmatch(schedule):
        return last + dt.timedelta(seconds=int(match[1]))
    due: dt.datetime = croniter(schedule, last).get_next(dt.datetime)
    return due


async def _call(client: httpx.AsyncClient, name: str, body: Mapping[str, Sequence[str]]) -> None:
    outcome = "failed"
    try:
        response = await client.post(f"/functions/v1/{name}", json=body)
        response.raise_for_status()
        outcome = "completed"
    except httpx.HTTPError as exc:
        log.warning("function_call_failed", function=name, error=str(exc) or type(exc).__name__)
    metrics.current().scheduled_calls.labels(name, outcome).inc()
