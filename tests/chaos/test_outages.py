"""Outages are not the documents' fault: nothing is counted, nothing is lost, all is read later."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from pagewarden import database as databases_of_ours
from pagewarden.local import bootstrap, cluster, migrations, scheduler, server
from tests.chaos import crew
from tests.support import crowd, polling, worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support import databases

TWO_SAVED = "(select count(*) from public.ocr_pages) = 2"
SINCE = "select private.server_since()"
ALL_READ = "not exists (select from public.documents where ocr_status <> 'completed')"


@pytest.fixture
def home() -> Iterator[Path]:
    """A home for a server that may be restarted."""
    folder = Path(tempfile.mkdtemp(prefix="pagewarden-chaos-"))
    folder.chmod(0o755)
    yield folder / "home"
    shutil.rmtree(folder)


@contextlib.asynccontextmanager
async def own_server(home: Path, programs: Path | None) -> AsyncIterator[server.LocalServer]:
    """A migrated server of the test's own, on disk that is really written to."""
    async with server.running(home, bin_dir=programs) as local:
        await bootstrap.bootstrap(local.url(cluster.SUPERUSER), password=local.password)
        await migrations.migrate(local.url())
        yield local


@contextlib.asynccontextmanager
async def sweeping(url: str) -> AsyncIterator[None]:
    """Look for dead workers all the time, as the scheduler does."""
    stop = asyncio.Event()
    async with await databases_of_ours.connect_direct(url, connections=1) as link:
        task = asyncio.create_task(scheduler.sweep(link, stop, seconds=0.5))
        yield
        stop.set()
        await task


@pytest.mark.parametrize(
    "mode",
    [cluster.StopMode.IMMEDIATE, pytest.param(cluster.StopMode.FAST, marks=pytest.mark.long)],
)
async def test_postgres_restarted_under_20_busy_workers_costs_no_attempt(
    home: Path, pytestconfig: pytest.Config, mode: cluster.StopMode
) -> None:
    """No document that had a living worker is rescued, and none is counted as failed."""
    async with own_server(home, pytestconfig.option.server_bin) as local:
        orders = worker.Orders(
            url=local.url("pagewarden_worker"), workers=10, lock_seconds=8, heartbeat_seconds=1,
            page_seconds=0.3,
        )  # fmt: skip
        async with await crowd.connect(local.url()) as conn:
            await crew.add(conn, [str(n) for n in range(60)])
        async with (
            sweeping(orders.url),
            crew.started(orders.model_copy(update={"name": "left"})) as first,
            crew.started(orders.model_copy(update={"name": "right"})) as second,
        ):
            await asyncio.gather(crew.reads_page(first, 3), crew.reads_page(second, 3))
            # Away for longer than a lock lasts, so that every lock has expired when it is back.
            await local.cluster.stop(mode)
            await asyncio.sleep(orders.lock_seconds + 0.5)
            await local.cluster.ensure_running(port=local.address.port)
            async with await crowd.connect(local.url()) as conn:
                await crew.until(conn, ALL_READ)
                counts = await crew.documents(conn, "attempts", "rescues", "retry_count")
                assert set(counts) == {(1, 0, 0)}
                assert await crowd.call(conn, "select count(*) from public.ocr_errors") == 0
                assert (
                    await crowd.call(conn, "select count(*) from public.ocr_processing_logs") == 60
                )


@pytest.mark.parametrize("crash", ["restarted", "one process killed"])
async def test_however_long_recovery_takes_workers_have_a_lock_period_to_be_heard_again(
    home: Path, pytestconfig: pytest.Config, crash: str
) -> None:
    """The server is there for longer than a lock, but nobody could reach it; then it answers."""
    async with own_server(home, pytestconfig.option.server_bin) as local:
        url = local.url(cluster.SUPERUSER)
        async with await crowd.connect(url) as conn:
            await crew.add(conn, ["scan"])
            await _sweep(conn, seconds=0)
            await _claims(conn, 1, datetime.now(UTC))
            since = await crowd.call(conn, SINCE)
            if crash == "one process killed":
                os.kill(conn.info.backend_pid, signal.SIGKILL)
        if crash == "restarted":
            await local.cluster.stop(cluster.StopMode.IMMEDIATE)
            await local.cluster.ensure_running(port=local.address.port)
        await polling.until(lambda: _is_back(url, since))
        async with await crowd.connect(url) as conn:
            assert await _sweep(conn, seconds=25) == 0
            assert await _sweep(conn, seconds=44) == 0
            assert await _sweep(conn, seconds=46) == 1


async def _is_back(url: str, since: datetime) -> bool:
    with contextlib.suppress(psycopg.OperationalError):
        async with await crowd.connect(url) as conn:
            return bool(await crowd.call(conn, SINCE) != since)
    return False


async def _sweep(conn: psycopg.AsyncConnection, *, seconds: float) -> int:
    """Look for dead workers as if it were so much later."""
    query = "select public.sweep_documents(now() + make_interval(secs => %s))"
    return int(await crowd.call(conn, query, seconds))


async def test_an_engine_outage_of_ten_minutes_dead_letters_none_of_5000_documents(
    database: databases.Database,
) -> None:
    """The lane pauses, one probe at a time asks, and everything is read afterwards."""
    now = datetime(2030, 1, 1, tzinfo=UTC)
    async with await crowd.connect(database.url("supabase_admin")) as conn:
        await crew.add(conn, [str(n) for n in range(5000)])
        for claim in await _claims(conn, 8, now):
            await _release(conn, claim, now)
        probes = 0
        for _ in range(60):
            now += timedelta(seconds=10)
            found = await _claims(conn, 8, now)
            assert len(found) <= 1
            probes += len(found)
            for claim in found:
                assert await _claims(conn, 8, now) == []
                await _release(conn, claim, now)
        assert 15 <= probes <= 20
        (paused,) = await (
            await conn.execute(
                "select lane, pause_reason from public.lanes where paused_at is not null"
            )
        ).fetchall()
        assert paused == ("image", "the engine is away")

        now += timedelta(seconds=30)
        while found := await _claims(conn, 1000, now):
            await _complete(conn, found, now)
        states = await crew.documents(conn, "ocr_status", "attempts", "rescues", "retry_count")
        assert set(states) == {("completed", 1, 0, 0)}
        assert await crowd.call(conn, "select count(*) from public.ocr_dead_letter") == 0
        open_tasks = "select count(*) from public.tasks where status = 'pending'"
        assert await crowd.call(conn, open_tasks) == 0
        assert await crowd.call(conn, "select count(*) from private.invariant_violations()") == 0


async def _claims(
    conn: psycopg.AsyncConnection, limit: int, now: datetime
) -> list[tuple[str, str]]:
    cursor = await conn.execute(
        "select id::text, lock_token::text"
        " from public.claim_documents('w', array['image'], %s, 20, %s)",
        (limit, now),
    )
    return await cursor.fetchall()


async def _release(
    conn: psycopg.AsyncConnection, claim: tuple[str, str], now: datetime
) -> list[str]:
    """Report an outage; return the documents whose failure it is."""
    listed = json.dumps([{"document_id": claim[0], "lock_token": claim[1]}])
    query = (
        "select to_jsonb(r) from public.release_documents(%s, 'the engine is away', true, %s) as r"
    )
    answer = await crowd.call(conn, query, listed, now)
    assert answer["success"]
    return [str(document) for document in answer["failed"]]


async def _complete(
    conn: psycopg.AsyncConnection, found: list[tuple[str, str]], now: datetime
) -> None:
    refused = await crowd.call(
        conn, "select id from unnest(private.complete(%s::uuid[], %s::uuid[], %s::jsonb[],"
        " null, null, null, null, null, null, %s))",
        [d for d, _ in found], [t for _, t in found], ["{}"] * len(found), now,
    )  # fmt: skip
    assert refused is None


async def test_an_outage_that_one_document_reports_alone_is_its_failure(
    database: databases.Database,
) -> None:
    """No other one waits for it, and two outages in a row do not use up its attempts."""
    now = datetime(2030, 1, 1, tzinfo=UTC)
    async with await crowd.connect(database.url("supabase_admin")) as conn:
        await crew.add(conn, ["bad", "worse", "good", "better"])
        (bad,) = await _claims(conn, 1, now)
        assert await _release(conn, bad, now) == []
        now += timedelta(seconds=30)
        (worse,) = await _claims(conn, 8, now)
        assert await _release(conn, worse, now) == []
        now += timedelta(seconds=30)
        (good,) = await _claims(conn, 8, now)  # both reported it, so it is neither of them
        assert good[0] not in {bad[0], worse[0]}
        await _complete(conn, [good], now)

        now += timedelta(seconds=1)
        bad, worse, better = await _claims(conn, 8, now)
        assert await _release(conn, bad, now) == [bad[0]]
        assert await _release(conn, worse, now) == []  # two of them are an outage again
        await _complete(conn, [better], now)
        assert await crowd.call(conn, "select paused_at = %s from public.lanes"
                                " where lane = 'image'", now)  # fmt: skip
        # Nobody is left to compare with: both wait, uncounted.
        for _ in range(20):
            now += timedelta(seconds=30)
            for claim in await _claims(conn, 8, now):
                assert await _release(conn, claim, now) == []
        states = await crew.documents(conn, "name", "ocr_status", "retry_count")
        assert states == [
            ("bad", "queued", 1), ("better", "completed", 0), ("good", "completed", 0),
            ("worse", "queued", 0),
        ]  # fmt: skip
        assert await crowd.call(conn, "select count(*) from private.invariant_violations()") == 0


async def test_real_workers_wait_out_an_engine_that_is_away(
    database: databases.Database, tmp_path: Path
) -> None:
    """The workers pause the lane, probe, and go on by themselves when the engine is back."""
    sign = tmp_path / "the engine is away"
    sign.touch()
    async with await crowd.connect(database.url()) as conn:
        await conn.execute("update public.lanes set probe_seconds = 1")
        await crew.add(conn, [str(n) for n in range(20)])
        url = database.url("pagewarden_worker")
        async with crew.started(worker.Orders(url=url, workers=4, outage_while=str(sign))):
            await crew.until(
                conn, "(select count(*) >= 6 from public.ocr_errors where kind = 'outage')"
            )
            sign.unlink()
            await crew.until(conn, ALL_READ)
        states = await crew.documents(conn, "attempts", "rescues", "retry_count")
        assert set(states) == {(1, 0, 0)}
        assert await crowd.call(conn, "select count(*) from private.invariant_violations()") == 0


async def test_a_stopped_worker_gives_its_documents_back_uncounted(
    database: databases.Database,
) -> None:
    """SIGTERM in the middle of a document costs nothing, and its pages stay."""
    async with await crowd.connect(database.url()) as conn:
        await crew.add(conn, ["book"])
        orders = worker.Orders(url=database.url("pagewarden_worker"), stuck_at=3)
        async with crew.started(orders) as process:
            await crew.reads_page(process, 3)
            await crew.until(conn, TWO_SAVED)
            process.terminate()
            assert await process.wait() == 0
        assert await crew.documents(conn, "ocr_status", "attempts", "rescues", "retry_count") == [
            ("queued", 0, 0, 0)
        ]
        assert await crowd.call(conn, "select count(*) from public.ocr_pages") == 2
