"""Call functions on the schedules of edge_function_config, as pg_cron does on Supabase."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx
import structlog
from croniter import croniter

from pagewarden import concurrency, errors
from pagewarden.database import tables
from pagewarden.database.retry import call_periodically
from pagewarden.telemetry import metrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from pagewarden.database import Database, rows

log = structlog.get_logger(__name__)

TICK_SECONDS = 1.0
ALERT_SECONDS = 60.0
CALL_TIMEOUT_SECONDS = 300.0
# Their work is done by sweep_periodically() and by the orchestrator of `pagewarden up`.
_NOT_CALLED = frozenset({"stale-monitor", "volume-orchestrator"})
_SECONDS = re.compile(r"([1-9]|[1-5][0-9]) seconds")


def _utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass(slots=True)
class Scheduler:
    """Calls functions at `url` when they are due.

    Functions that serve lanes are not called: on this machine a worker reads the documents.
    """

    database: Database
    url: str
    secret_key: str = field(repr=False)
    now: Callable[[], dt.datetime] = _utc_now
    _last_call: dict[str, dt.datetime] = field(default_factory=dict)
    _calls: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _invalid_schedules: dict[str, str] = field(default_factory=dict)

    async def run(self, stop: asyncio.Event) -> None:
        """Call what is due, every second, until `stop` is set."""
        async with httpx.AsyncClient(
            base_url=self.url,
            headers={"apikey": self.secret_key},
            timeout=CALL_TIMEOUT_SECONDS,
            trust_env=False,
        ) as client:
            try:
                while not stop.is_set():
                    await self.call_due(client)
                    await concurrency.wait(stop, seconds=TICK_SECONDS)
            finally:
                await self.aclose()

    async def call_due(self, client: httpx.AsyncClient) -> list[str]:
        """Start the calls that are due and return the names; skip functions that still run."""
        try:
            configured = await self.database.select(
                tables.edge_function_config, where={"enabled": True}
            )
        except (errors.DatabaseUnavailable, errors.Conflict) as exc:
            log.warning("schedules_unavailable", error=str(exc))
            return []
        due = [row["function_name"] for row in configured if self._is_due(row)]
        for name in due:
            self._last_call[name] = self.now()
            self._calls[name] = asyncio.create_task(_call(client, name))
        return due

    async def aclose(self) -> None:
        """Cancel the calls that still run."""
        for task in self._calls.values():
            task.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)

    def _is_due(self, row: rows.EdgeFunctionConfig) -> bool:
        name, schedule = row["function_name"], row["schedule"]
        if schedule is None or row["lanes"] or name in _NOT_CALLED:
            return False
        last = self._last_call.setdefault(name, self.now())
        is_idle = name not in self._calls or self._calls[name].done()
        try:
            return is_idle and find_next_due(schedule, last) <= self.now()
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


async def _call(client: httpx.AsyncClient, name: str) -> None:
    outcome = "failed"
    try:
        response = await client.post(f"/functions/v1/{name}", json={})
        response.raise_for_status()
        outcome = "completed"
    except httpx.HTTPError as exc:
        log.warning("function_call_failed", function=name, error=str(exc) or type(exc).__name__)
    metrics.current().scheduled_calls.labels(name, outcome).inc()
