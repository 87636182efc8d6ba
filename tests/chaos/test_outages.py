"""Outages do not count as attempts and lose no document; all documents are read afterwards."""

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

from pagewarden import database as clients
from pagewarden.documents.worker import sweep_periodically
from pagewarden.local import bootstrap, cluster, migrations, server
from tests.chaos import workers
from tests.support import crowd, polling, worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support import databases

TWO_SAVED = "(select count(*) from public.ocr_pages) = 2"
SINCE = "select private.server_since()"
ALL_READ = "not exists (select from public.documents where ocr_status <> 'completed')"


@pytest.fixture
def home() -> Iterator[Path]:
    """Create a home folder for a server that the test may restart."""
    folder = Path(tempfile.mkdtemp(prefix="pagewarden-chaos-"))
    folder.chmod(0o755)
    yield folder / "home"
    shutil.rmtree(folder)


@contextlib.asynccontextmanager
async def open_durable_server(
    home: Path, programs: Path | None
) -> AsyncIterator[server.LocalServer]:
    """Start a separate migrated server, with durable commits."""
    async with server.open_server(home, bin_dir=programs) as local:
        await bootstrap.bootstrap(local.url(cluster.SUPERUSER), password=local.password)
        await migrations.migrate(local.url())
        yield local


@contextlib.asynccontextmanager
async def sweep_in_background(url: str) -> AsyncIterator[None]:
    """Sweep regularly, as `pagewarden up` does."""
    stop = asyncio.Event()
    async with await clients.connect_direct(url, connections=1) as connection:
        task = asyncio.create_task(sweep_periodically(connection, stop, seconds=0.5))
        yield
        stop.set()
        await task


@pytest.mark.parametrize(
    "mode",
    [cluster.StopMode.IMMEDIATE, pytest.param(cluster.StopMode.FAST, marks=pytest.mark.long)],
)
async def test_restart_of_postgres_with_20_busy_workers_counts_no_attempt(
    home: Path, pytestconfig: pytest.Config, mode: cluster.StopMode
) -> None:
    """No document of a living worker is rescued, and none counts as failed."""
    async with open_durable_server(home, pytestconfig.option.server_bin) as local:
        options = worker.WorkerOptions(
            url=local.url("pagewarden_worker"), workers=10, lock_seconds=8, heartbeat_seconds=1,
            page_seconds=0.3,
        )  # fmt: skip
        async with await crowd.connect(local.url()) as conn:
            await workers.add_documents(conn, [str(n) for n in range(60)])
        async with (
            sweep_in_background(options.url),
            workers.start_worker(options.model_copy(update={"name": "left"})) as first,
            workers.start_worker(options.model_copy(update={"name": "right"})) as second,
        ):
            await asyncio.gather(workers.wait_for_page(first, 3), workers.wait_for_page(second, 3))
            # Longer than the lock period, so that all locks have expired when Postgres is back.
            await local.cluster.stop(mode)
            await asyncio.sleep(options.lock_seconds + 0.5)
            await local.cluster.ensure_running(port=local.address.port)
            async with await crowd.connect(local.url()) as conn:
                await workers.wait_until(conn, ALL_READ)
                counts = await workers.select_documents(conn, "attempts", "rescues", "retry_count")
                assert set(counts) == {(1, 0, 0)}
                assert await crowd.fetch_value(conn, "select count(*) from public.ocr_errors") == 0
                assert (
                    await crowd.fetch_value(conn, "select count(*) from public.ocr_processing_logs")
                    == 60
                )


@pytest.mark.parametrize("crash", ["restarted", "one process killed"])
async def test_workers_get_a_lock_period_after_a_long_recovery(
    home: Path, pytestconfig: pytest.Config, crash: str
) -> None:
    """Recovery takes longer than a lock period; the sweep waits for one more lock period."""
    async with open_durable_server(home, pytestconfig.option.server_bin) as local:
        url = local.url(cluster.SUPERUSER)
        async with await crowd.connect(url) as conn:
            await workers.add_documents(conn, ["scan"])
            await _sweep(conn, seconds=0)
            await _claim(conn, 1, datetime.now(UTC))
            since = await crowd.fetch_value(conn, SINCE)
            if crash == "one process killed":
                os.kill(conn.info.backend_pid, signal.SIGKILL)
        if crash == "restarted":
            await local.cluster.stop(cluster.StopMode.IMMEDIATE)
            await local.cluster.ensure_running(port=local.address.port)
        await polling.wait_until(lambda: _is_back(url, since))
        async with await crowd.connect(url) as conn:
            assert await _sweep(conn, seconds=25) == 0
            assert await _sweep(conn, seconds=44) == 0
            assert await _sweep(conn, seconds=46) == 1


async def _is_back(url: str, since: datetime) -> bool:
    with contextlib.suppress(psycopg.OperationalError):
        async with await crowd.connect(url) as conn:
            return bool(await crowd.fetch_value(conn, SINCE) != since)
    return False


async def _sweep(conn: psycopg.AsyncConnection, *, seconds: float) -> int:
    """Sweep as if it were this many seconds later."""
    query = "select public.sweep_documents(now() + make_interval(secs => %s))"
    return int(await crowd.fetch_value(conn, query, seconds))


async def test_engine_outage_of_ten_minutes_dead_letters_none_of_5000_documents(
    database: databases.Database,
) -> None:
    """The lane pauses and probes with one document at a time; all are read afterwards."""
    now = datetime(2030, 1, 1, tzinfo=UTC)
    async with await crowd.connect(database.url("supabase_admin")) as conn:
        await workers.add_documents(conn, [str(n) for n in range(5000)])
        for claim in await _claim(conn, 8, now):
            await _release(conn, claim, now)
        probes = 0
        for _ in range(60):
            now += timedelta(seconds=10)
            claims = await _claim(conn, 8, now)
            assert len(claims) <= 1
            probes += len(claims)
            for claim in claims:
                assert await _claim(conn, 8, now) == []
                await _release(conn, claim, now)
        assert 15 <= probes <= 20
        (paused,) = await (
            await conn.execute(
                "select lane, pause_reason from public.lanes where paused_at is not null"
            )
        ).fetchall()
        assert paused == ("image", "the engine is unavailable")

        now += timedelta(seconds=30)
        while claims := await _claim(conn, 1000, now):
            await _complete(conn, claims, now)
        states = await workers.select_documents(
            conn, "ocr_status", "attempts", "rescues", "retry_count"
        )
        assert set(states) == {("completed", 1, 0, 0)}
        assert await crowd.fetch_value(conn, "select count(*) from public.ocr_dead_letter") == 0
        open_tasks = "select count(*) from public.tasks where status = 'pending'"
        assert await crowd.fetch_value(conn, open_tasks) == 0
        assert (
            await crowd.fetch_value(conn, "select count(*) from private.invariant_violations()")
            == 0
        )


async def _claim(conn: psycopg.AsyncConnection, limit: int, now: datetime) -> list[tuple[str, str]]:
    cursor = await conn.execute(
        "select id::text, lock_token::text"
        " from public.claim_documents('w', array['image'], %s, 20, %s)",
        (limit, now),
    )
    return await cursor.fetchall()


async def _release(
    conn: psycopg.AsyncConnection, claim: tuple[str, str], now: datetime
) -> list[str]:
    """Report an outage; return the documents for which it counts as a failure."""
    listed = json.dumps([{"document_id": claim[0], "lock_token": claim[1]}])
    query = (
        "select to_jsonb(r)"
        " from public.release_documents(%s, 'the engine is unavailable', true, p_now => %s) as r"
    )
    answer = await crowd.fetch_value(conn, query, listed, now)
    assert answer["success"]
    return [str(document) for document in answer["failed"]]


async def _complete(
    conn: psycopg.AsyncConnection, claims: list[tuple[str, str]], now: datetime
) -> None:
    refused = await crowd.fetch_value(
        conn, "select id from unnest(private.complete(%s::uuid[], %s::uuid[], %s::jsonb[],"
        " null, null, null, null, null, null, %s))",
        [d for d, _ in claims], [t for _, t in claims], ["{}"] * len(claims), now,
    )  # fmt: skip
    assert refused is None


async def test_outage_reported_by_one_document_counts_as_its_failure(
    database: databases.Database,
) -> None:
    """Other documents do not wait; two consecutive outages do not use up its attempts."""
    now = datetime(2030, 1, 1, tzinfo=UTC)
    async with await crowd.connect(database.url("supabase_admin")) as conn:
        await workers.add_documents(conn, ["bad", "worse", "good", "better"])
        (bad,) = await _claim(conn, 1, now)
        assert await _release(conn, bad, now) == []
        now += timedelta(seconds=30)
        (worse,) = await _claim(conn, 8, now)
        assert await _release(conn, worse, now) == []
        now += timedelta(seconds=30)
        (good,) = await _claim(conn, 8, now)  # neither of the two that reported an outage
        assert good[0] not in {bad[0], worse[0]}
        await _complete(conn, [good], now)

        now += timedelta(seconds=1)
        bad, worse, better = await _claim(conn, 8, now)
        assert await _release(conn, bad, now) == [bad[0]]
        assert await _release(conn, worse, now) == []  # reported by two documents, it is an outage
        await _complete(conn, [better], now)
        assert await crowd.fetch_value(conn, "select paused_at = %s from public.lanes"
                                " where lane = 'image'", now)  # fmt: skip
        # Without another document to compare with, both wait, uncounted.
        for _ in range(20):
            now += timedelta(seconds=30)
            for claim in await _claim(conn, 8, now):
                assert await _release(conn, claim, now) == []
        states = await workers.select_documents(conn, "name", "ocr_status", "retry_count")
        assert states == [
            ("bad", "queued", 1), ("better", "completed", 0), ("good", "completed", 0),
            ("worse", "queued", 0),
        ]  # fmt: skip
        assert (
            await crowd.fetch_value(conn, "select count(*) from private.invariant_violations()")
            == 0
        )


async def test_workers_wait_for_unavailable_engine(
    database: databases.Database, tmp_path: Path
) -> None:
    """The workers pause the lane, probe, and resume automatically after the outage."""
    marker = tmp_path / "the engine is unavailable"
    marker.touch()
    async with await crowd.connect(database.url()) as conn:
        await conn.execute("update public.lanes set probe_seconds = 1")
        await workers.add_documents(conn, [str(n) for n in range(20)])
        url = database.url("pagewarden_worker")
        async with workers.start_worker(
            worker.WorkerOptions(url=url, workers=4, outage_while=str(marker))
        ):
            await workers.wait_until(
                conn, "(select count(*) >= 6 from public.ocr_errors where kind = 'outage')"
            )
            marker.unlink()
            await workers.wait_until(conn, ALL_READ)
        states = await workers.select_documents(conn, "attempts", "rescues", "retry_count")
        assert set(states) == {(1, 0, 0)}
        assert (
            await crowd.fetch_value(conn, "select count(*) from private.invariant_violations()")
            == 0
        )


async def test_stopped_worker_releases_its_documents_uncounted(
    database: databases.Database,
) -> None:
    """SIGTERM during a document does not count as an attempt, and saved pages are kept."""
    async with await crowd.connect(database.url()) as conn:
        await workers.add_documents(conn, ["book"])
        options = worker.WorkerOptions(url=database.url("pagewarden_worker"), stuck_at=3)
        async with workers.start_worker(options) as process:
            await workers.wait_for_page(process, 3)
            await workers.wait_until(conn, TWO_SAVED)
            process.terminate()
            assert await process.wait() == 0
        assert await workers.select_documents(
            conn, "ocr_status", "attempts", "rescues", "retry_count"
        ) == [("queued", 0, 0, 0)]
        assert await crowd.fetch_value(conn, "select count(*) from public.ocr_pages") == 2
