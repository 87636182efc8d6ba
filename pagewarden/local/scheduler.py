"""What pg_cron does on Supabase, for a Postgres without it."""

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

from pagewarden import errors
from pagewarden.database import tables
from pagewarden.telemetry import metrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pagewarden.database import Database, rows

log = structlog.get_logger(__name__)

TICK_SECONDS = 1.0
WATCH_SECONDS = 60.0
CALL_SECONDS = 300.0
# Done by sweep(), in SQL as on Supabase, and by the orchestrator of pagewarden up.
_DONE_HERE = frozenset({"stale-monitor", "volume-orchestrator"})
_SECONDS = re.compile(r"([1-9]|[1-5][0-9]) seconds")


async def sweep(database: Database, stop: asyncio.Event, *, seconds: float) -> None:
    """Give back what dead workers hold, every so many seconds, until stop is set."""
    await _regularly("sweep_documents", database.sweep_documents, stop, seconds)


async def watch(database: Database, stop: asyncio.Event) -> None:
    """Evaluate the alerts every minute, until stop is set, also while no function runs."""
    await _regularly("evaluate_alerts", database.evaluate_alerts, stop, WATCH_SECONDS)


async def _regularly(
    name: str, call: Callable[[], Awaitable[object]], stop: asyncio.Event, seconds: float
) -> None:
    """Call it again and again: a database that is in trouble is asked again next time."""
    while not stop.is_set():
        try:
            found = await call()
        except errors.DatabaseError as exc:
            log.warning("call_failed", call=name, error=str(exc))
        else:
            if found:
                log.debug("called", call=name, answer=found)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), seconds)


def next_after(schedule: str, last: dt.datetime) -> dt.datetime:
    """Tell when something is due that was last done then; schedules are those of pg_cron."""
    if found := _SECONDS.fullmatch(schedule):
        return last + dt.timedelta(seconds=int(found[1]))
    due: dt.datetime = croniter(schedule, last).get_next(dt.datetime)
    return due


def _utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass(slots=True)
class Scheduler:
    """Calls functions when edge_function_config says so; url is where they are served.

    Those that serve lanes are left out: on this machine a worker does that without being called.
    """

    database: Database
    url: str
    secret_key: str = field(repr=False)
    now: Callable[[], dt.datetime] = _utc_now
    _last: dict[str, dt.datetime] = field(default_factory=dict)
    _under_way: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _unusable: dict[str, str] = field(default_factory=dict)

    async def run(self, stop: asyncio.Event) -> None:
        """Look every second, until stop is set."""
        headers = {"apikey": self.secret_key}
        async with httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=CALL_SECONDS, trust_env=False
        ) as client:
            try:
                while not stop.is_set():
                    await self.look(client)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(stop.wait(), TICK_SECONDS)
            finally:
                await self.aclose()

    async def look(self, client: httpx.AsyncClient) -> list[str]:
        """Start calling what is due, and name it. Nothing is called while it is still at work."""
        try:
            configured = await self.database.select(
                tables.edge_function_config, where={"enabled": True}
            )
        except (errors.DatabaseAway, errors.Conflict) as exc:
            log.warning("schedules_unknown", error=str(exc))
            return []
        due = [row["function_name"] for row in configured if self._is_due(row)]
        for name in due:
            self._last[name] = self.now()
            self._under_way[name] = asyncio.create_task(_call(client, name))
        return due

    async def aclose(self) -> None:
        """Wait for no call any longer."""
        for task in self._under_way.values():
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    def _is_due(self, row: rows.EdgeFunctionConfig) -> bool:
        name, schedule = row["function_name"], row["schedule"]
        if schedule is None or row["lanes"] or name in _DONE_HERE:
            return False
        last = self._last.setdefault(name, self.now())
        idle = name not in self._under_way or self._under_way[name].done()
        try:
            return idle and next_after(schedule, last) <= self.now()
        except ValueError as exc:  # the database knows only roughly what a schedule is
            if self._unusable.get(name) != schedule:
                self._unusable[name] = schedule
                log.warning("schedule_unusable", function=name, schedule=schedule, error=str(exc))
            return False


async def _call(client: httpx.AsyncClient, name: str) -> None:
    outcome = "failed"
    try:
        response = await client.post(f"/functions/v1/{name}", json={})
        response.raise_for_status()
        outcome = "completed"
    except httpx.HTTPError as exc:
        log.warning("function_failed", function=name, error=str(exc) or type(exc).__name__)
    metrics.current().scheduled_calls.labels(name, outcome).inc()
