"""The schedules of edge_function_config, on a machine without pg_cron."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from typing import TYPE_CHECKING

import httpx
import pytest
import structlog
from fastapi import FastAPI

from pagewarden import database as gateways
from pagewarden.local import scheduler
from tests.support import polling
from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support import databases

NOON = dt.datetime(2026, 5, 1, 12, 0, 30, tzinfo=dt.UTC)


class Clock:
    """A time that the test sets."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> dt.datetime:
        """Tell it."""
        return self.now

    def forward(self, **amount: float) -> None:
        """Let time pass."""
        self.now += dt.timedelta(**amount)


class Functions:
    """A server that takes the calls; those of a name that is held wait until it is let go."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.held: str | None = None
        self.app = FastAPI()
        self.app.post("/functions/v1/{name}")(self._take)

    async def _take(self, name: str) -> None:
        if name == self.held:
            await self.let_go.wait()


@pytest.fixture
async def functions() -> Functions:
    """Hold nothing yet."""
    return Functions()


@pytest.fixture
async def client(functions: Functions) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the functions on loopback."""
    async with serving(functions.app) as url, httpx.AsyncClient(base_url=url) as found:
        yield found


@pytest.fixture
async def gateway(database: databases.Database) -> AsyncIterator[gateways.Database]:
    """Connect as service role, with two functions on a schedule."""
    conn = await database.connect()
    await conn.execute(
        """
        update edge_function_config set schedule = null;
        insert into edge_function_config (function_name, schedule) values
          ('often', '10 seconds'), ('hourly', '17 * * * *');
        """
    )
    async with await gateways.connect_direct(database.url()) as found:
        yield found


@pytest.fixture
def clock() -> Clock:
    """Have a time of the test's own."""
    return Clock()


@pytest.fixture
async def timetable(
    gateway: gateways.Database, client: httpx.AsyncClient, clock: Clock
) -> AsyncIterator[scheduler.Scheduler]:
    """Have a scheduler, which waits for no call in the end."""
    del client  # closed after it
    async with contextlib.aclosing(scheduler.Scheduler(gateway, "", "", now=clock)) as found:
        yield found


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("10 seconds", NOON + dt.timedelta(seconds=10)),
        ("* * * * *", NOON.replace(minute=1, second=0)),
        ("17 * * * *", NOON.replace(minute=17, second=0)),
        ("0 3 * * 1", dt.datetime(2026, 5, 4, 3, tzinfo=dt.UTC)),
    ],
)
def test_schedules_mean_what_they_mean_to_pg_cron(schedule: str, expected: dt.datetime) -> None:
    """Seconds, or minute, hour, day, month, weekday in UTC."""
    assert scheduler.next_after(schedule, NOON) == expected


async def test_functions_are_called_when_they_are_due_and_not_before(
    timetable: scheduler.Scheduler, clock: Clock, client: httpx.AsyncClient
) -> None:
    """Once each time; the first time is counted from the start."""
    seen = []
    for _ in range(3):
        seen.append(await timetable.look(client))
        clock.forward(seconds=9)
    clock.forward(minutes=20)
    assert seen == [[], [], ["often"]]
    assert "hourly" in await timetable.look(client)


async def test_a_function_that_is_still_at_work_is_not_called_again(
    timetable: scheduler.Scheduler, clock: Clock, client: httpx.AsyncClient, functions: Functions
) -> None:
    """Others are."""
    functions.held = "often"
    await timetable.look(client)
    clock.forward(seconds=11)
    assert await timetable.look(client) == ["often"]
    clock.forward(minutes=20)
    assert await timetable.look(client) == ["hourly"]
    functions.let_go.set()

    async def is_called_again() -> bool:
        return await timetable.look(client) == ["often"]

    await polling.until(is_called_again)


@pytest.mark.parametrize("schedule", ["at five past every noon", "0 0 31 2 *", "60 * * * *"])
async def test_a_schedule_that_is_none_stops_no_other_and_is_told_of_once(
    timetable: scheduler.Scheduler,
    clock: Clock,
    client: httpx.AsyncClient,
    database: databases.Database,
    schedule: str,
) -> None:
    """Whoever mistypes one must not end the system."""
    conn = await database.connect()
    await conn.execute(
        "update edge_function_config set schedule = %s where function_name = 'hourly'", (schedule,)
    )
    with structlog.testing.capture_logs() as lines:
        await timetable.look(client)
        clock.forward(minutes=20)
        assert await timetable.look(client) == ["often"]
    assert [line["event"] for line in lines].count("schedule_unusable") == 1


async def test_functions_that_are_off_or_serve_lanes_are_not_called(
    timetable: scheduler.Scheduler,
    clock: Clock,
    client: httpx.AsyncClient,
    database: databases.Database,
) -> None:
    """A worker of this machine serves the lanes; the sweep is SQL."""
    conn = await database.connect()
    await conn.execute("update edge_function_config set schedule = '1 seconds'")
    await conn.execute(
        "update edge_function_config set enabled = false where function_name = 'hourly'"
    )
    await timetable.look(client)
    clock.forward(seconds=2)
    due = set(await timetable.look(client))
    assert "often" in due
    served = {"ocr-worker", "pdf-worker", "stale-monitor", "volume-orchestrator"}
    assert not due & {"hourly", *served}
