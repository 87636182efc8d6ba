"""The scheduler calls functions on the schedules of edge_function_config."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import structlog
from fastapi import FastAPI

from pagewarden import database as gateways
from pagewarden.database import listener
from pagewarden.local import scheduler
from pagewarden.volumes import orchestrator
from tests.support import polling
from tests.support.serving import serve_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support import databases

READERS = {"ocr-worker", "pdf-worker"}
NOON = dt.datetime(2026, 5, 1, 12, 0, 30, tzinfo=dt.UTC)


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> dt.datetime:
        """Return the time."""
        return self.now

    def forward(self, **amount: float) -> None:
        """Advance the clock."""
        self.now += dt.timedelta(**amount)


class Functions:
    """A server of functions, and their calls; calls to `blocked` wait for `release`."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.blocked: str | None = None
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.app = FastAPI()
        self.app.post("/functions/v1/{name}")(self._call)

    async def _call(self, name: str, body: dict[str, Any]) -> None:
        self.calls.append((name, body))
        if name == self.blocked:
            await self.release.wait()


@pytest.fixture
async def functions() -> Functions:
    """Return functions that block no calls."""
    return Functions()


@pytest.fixture
async def client(functions: Functions) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the functions on loopback."""
    async with serve_app(functions.app) as url, httpx.AsyncClient(base_url=url) as found:
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
    """Return the clock of the test."""
    return Clock()


@pytest.fixture
async def runner(
    gateway: gateways.Database, client: httpx.AsyncClient, clock: Clock
) -> AsyncIterator[scheduler.Scheduler]:
    """Return a scheduler that cancels its calls at the end."""
    del client  # closed after it
    scheduled = scheduler.Scheduler(gateway, "", "", now=clock, excluded=scheduler.PROGRAMS_OF_UP)
    async with contextlib.aclosing(scheduled) as found:
        yield found


@pytest.fixture
async def serverless(
    runner: scheduler.Scheduler, client: httpx.AsyncClient
) -> AsyncIterator[scheduler.Scheduler]:
    """Return the scheduler of a system without workers; it cancels its calls at the end."""
    del client  # closed after it
    scheduled = dataclasses.replace(runner, is_serverless=True, excluded=frozenset())
    async with contextlib.aclosing(scheduled) as found:
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
def test_schedules_have_the_syntax_of_pg_cron(schedule: str, expected: dt.datetime) -> None:
    """Seconds, or minute, hour, day, month, weekday in UTC."""
    assert scheduler.find_next_due(schedule, NOON) == expected


async def test_functions_are_called_when_they_are_due(
    runner: scheduler.Scheduler, clock: Clock, client: httpx.AsyncClient
) -> None:
    """Once each time; the first interval begins with the scheduler."""
    calls = []
    for _ in range(3):
        calls.append(await runner.call_due(client))
        clock.forward(seconds=9)
    clock.forward(minutes=20)
    assert calls == [[], [], ["often"]]
    assert "hourly" in await runner.call_due(client)


async def test_running_function_is_not_called_again(
    runner: scheduler.Scheduler, clock: Clock, client: httpx.AsyncClient, functions: Functions
) -> None:
    """Other functions are."""
    functions.blocked = "often"
    await runner.call_due(client)
    clock.forward(seconds=11)
    assert await runner.call_due(client) == ["often"]
    clock.forward(minutes=20)
    assert await runner.call_due(client) == ["hourly"]
    functions.release.set()

    async def is_called_again() -> bool:
        return await runner.call_due(client) == ["often"]

    await polling.wait_until(is_called_again)


@pytest.mark.parametrize("schedule", ["at five past every noon", "0 0 31 2 *", "60 * * * *"])
async def test_invalid_schedule_is_logged_once_and_does_not_affect_others(
    runner: scheduler.Scheduler,
    clock: Clock,
    client: httpx.AsyncClient,
    database: databases.Database,
    schedule: str,
) -> None:
    """A typing error must not stop the scheduler."""
    conn = await database.connect()
    await conn.execute(
        "update edge_function_config set schedule = %s where function_name = 'hourly'", (schedule,)
    )
    with structlog.testing.capture_logs() as lines:
        await runner.call_due(client)
        clock.forward(minutes=20)
        assert await runner.call_due(client) == ["often"]
    assert [line["event"] for line in lines].count("schedule_invalid") == 1


async def test_disabled_functions_and_those_with_lanes_are_not_called(
    runner: scheduler.Scheduler,
    clock: Clock,
    client: httpx.AsyncClient,
    database: databases.Database,
) -> None:
    """Workers serve the lanes, programs of `up` do the other work, and the sweep is a SQL call."""
    conn = await database.connect()
    await conn.execute("update edge_function_config set schedule = '1 seconds'")
    await conn.execute(
        "update edge_function_config set enabled = false where function_name = 'hourly'"
    )
    await runner.call_due(client)
    clock.forward(seconds=2)
    due = set(await runner.call_due(client))
    assert "often" in due
    assert not due & {"hourly", *READERS, *scheduler.PROGRAMS_OF_UP, "stale-monitor"}


async def test_serverless_scheduler_calls_all_functions_but_the_sweep(
    serverless: scheduler.Scheduler,
    clock: Clock,
    client: httpx.AsyncClient,
    database: databases.Database,
) -> None:
    """As pg_cron does; the functions that long-lived programs replace are among them."""
    conn = await database.connect()
    await conn.execute("update edge_function_config set schedule = '1 seconds'")
    assert await serverless.call_due(client) == []
    clock.forward(seconds=2)
    due = set(await serverless.call_due(client))
    assert due >= {*READERS, *scheduler.PROGRAMS_OF_UP, "alerts", "often"}
    assert "stale-monitor" not in due


async def test_notification_calls_the_functions_of_its_lane(
    serverless: scheduler.Scheduler, client: httpx.AsyncClient, functions: Functions
) -> None:
    """With the lanes in the body; one that still runs is called again afterwards, once."""
    documents, volumes = listener.Listener(), listener.Listener()
    with serverless.subscribe(documents, volumes):
        documents.notify("acte")
        documents.notify("image")
        functions.blocked = "ocr-worker"
        assert await serverless.call_due(client) == ["ocr-worker"]
        volumes.notify(orchestrator.CHANNEL)
        volumes.notify("ocr")  # for stage workers
        assert await serverless.call_due(client) == [scheduler.VOLUME_ORCHESTRATOR]
        await polling.wait_until(lambda: len(functions.calls) == 2)
        documents.notify("image")
        documents.notify("image")
        assert await serverless.call_due(client) == []
        functions.release.set()

        async def is_called_again() -> bool:
            return await serverless.call_due(client) == ["ocr-worker"]

        await polling.wait_until(is_called_again)
        await polling.wait_until(lambda: len(functions.calls) == 3)
        assert await serverless.call_due(client) == []
    lanes = [body.get("lanes") for name, body in functions.calls if name == "ocr-worker"]
    assert lanes == [["acte", "image"], ["image"]]


async def test_notification_calls_no_disabled_function(
    serverless: scheduler.Scheduler, client: httpx.AsyncClient, database: databases.Database
) -> None:
    """The document waits until the function is enabled and called again."""
    conn = await database.connect()
    await conn.execute(
        "update edge_function_config set enabled = false where function_name = 'ocr-worker'"
    )
    documents = listener.Listener()
    with serverless.subscribe(documents, listener.Listener()):
        documents.notify("image")
        assert await serverless.call_due(client) == []
