"""An idle worker is woken; without a hint it polls."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from structlog import testing

from pagewarden.database import listener
from tests.documents import readers
from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from tests.support import databases

LISTENERS = """
    select pid from pg_stat_activity
    where datname = current_database() and usename = 'pagewarden_worker' and query like 'listen %%'
"""


async def test_an_idle_worker_takes_a_document_without_waiting_for_its_poll(
    desk: readers.Desk, database: databases.Database
) -> None:
    """Polls are a minute apart, and the test does not wait that long."""
    reader = readers.Recorder()
    async with (
        readers.listening(database) as hints,
        readers.at_work(desk.worker(reader, listener=hints)),
    ):
        for _ in range(3):
            await desk.is_waited_for()
            document = await desk.factory.queued()
            assert await reader.next() == str(document)


async def test_all_idle_workers_are_woken_by_many_documents(
    desk: readers.Desk, database: databases.Database
) -> None:
    """They share one connection that listens."""
    reader = readers.Recorder(stuck=True)
    async with readers.listening(database) as hints, contextlib.AsyncExitStack() as crew:
        for number in range(3):
            worker = desk.worker(reader, listener=hints, worker_id=f"worker-{number}")
            await crew.enter_async_context(readers.at_work(worker))
        await desk.is_waited_for()
        case = await desk.factory.case()
        files = [{"name": str(number)} for number in range(3)]
        await desk.link.add_documents(case_id=str(case), documents=files, lane="image")
        assert len({await reader.next() for _ in range(3)}) == 3


async def test_a_lost_hint_costs_one_poll(desk: readers.Desk, database: databases.Database) -> None:
    """Somebody removes the mark; the document is found all the same."""
    reader = readers.Recorder()
    async with (
        readers.listening(database) as hints,
        readers.at_work(desk.worker(reader, listener=hints, idle_seconds=0.5)),
    ):
        await desk.is_waited_for()
        async with desk.factory.conn.transaction():
            await desk.factory.conn.execute("delete from private.idle_lanes")
            document = await desk.factory.queued()
        assert await reader.next() == str(document)


async def test_a_hint_for_nothing_is_heeded_once(desk: readers.Desk) -> None:
    """The worker looks, finds nothing, and waits again."""
    hints, counted = listener.Listener(), readers.Counted(desk.link)
    worker = desk.worker(readers.Recorder(), listener=hints, database=counted)
    async with readers.at_work(worker):
        for looks in range(1, 4):
            await polling.wait_until(lambda: counted.calls == 3 * looks)  # noqa: B023  # awaited
            for _ in range(20):  # time enough for more
                await desk.row(await desk.factory.queued(lane="pdf"))
            assert counted.calls == 3 * looks
            hints.notify("image")


async def test_a_worker_without_a_listener_polls(desk: readers.Desk) -> None:
    """As over HTTP, where nothing can be heard."""
    reader = readers.Recorder()
    async with (
        listener.open_listener(None) as hints,
        readers.at_work(desk.worker(reader, listener=hints, idle_seconds=0.1)),
    ):
        await desk.is_waited_for()
        document = await desk.factory.queued()
        assert await reader.next() == str(document)


async def test_a_listener_comes_back_after_its_connection_was_lost(
    desk: readers.Desk, database: databases.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came meanwhile is found at once, and hints are heard again."""
    monkeypatch.setattr(listener, "RECONNECT_SECONDS", 0.05)
    reader = readers.Recorder()
    admin = await database.connect("supabase_admin")
    async with (
        readers.listening(database) as hints,
        readers.at_work(desk.worker(reader, listener=hints)),
    ):
        await desk.is_waited_for()
        async with desk.factory.conn.transaction():
            # Nobody can hear of this one.
            await admin.execute(f"select pg_terminate_backend(pid, 5000) from ({LISTENERS}) as l")
            document = await desk.factory.queued()
        assert await reader.next() == str(document)
        await desk.is_waited_for()
        document = await desk.factory.queued()
        assert await reader.next() == str(document)


async def test_bells_ring_for_their_own_lanes_only() -> None:
    """And for all of them when nobody knows what came."""
    hints = listener.Listener()
    with hints.subscribe(["image", "pdf"]) as one, hints.subscribe(["check"]) as other:
        hints.notify("pdf")
        assert (one.is_set(), other.is_set()) == (True, False)
        one.clear()
        hints.notify("index")
        assert (one.is_set(), other.is_set()) == (False, False)
        hints.notify()
        assert (one.is_set(), other.is_set()) == (True, True)


async def test_behind_a_pooler_nobody_listens(database: databases.Database) -> None:
    """LISTEN would go to a session that serves others too."""
    admin = await database.connect("supabase_admin")
    with testing.capture_logs() as logs:
        async with _pooler(database) as url, listener.open_listener(url) as hints:
            await polling.wait_until(
                lambda: "listen_unsupported" in [line["event"] for line in logs]
            )
            with hints.subscribe(["image"]) as bell:
                assert not bell.is_set()
    assert await (await admin.execute(LISTENERS)).fetchall() == []


@contextlib.asynccontextmanager
async def _pooler(database: databases.Database) -> AsyncIterator[str]:
    """Pass everything on, but greet with a process number of our own, as poolers do."""
    target = urlsplit(database.tcp_url("pagewarden_worker"))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = await asyncio.open_connection(target.hostname, target.port)
        pumps = [_pump(reader, server[1]), _pump(server[0], writer, greeting=True)]
        await asyncio.gather(*pumps)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as pooler:
        port = pooler.sockets[0].getsockname()[1]
        yield target._replace(netloc=f"{target.netloc.rpartition(':')[0]}:{port}").geturl()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, greeting: bool = False
) -> None:
    key_data = b"K" + struct.pack("!I", 12)  # the form before version 3.2 of the protocol
    while data := await reader.read(1 << 16):
        if greeting and key_data in data:
            at = data.index(key_data) + len(key_data)
            data = data[:at] + struct.pack("!I", 4_000_000) + data[at + 4 :]
        writer.write(data)
        await writer.drain()
    writer.close()
