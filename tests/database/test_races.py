"""Real connections in several processes, all at the same documents at once."""

from __future__ import annotations

import asyncio
import collections
import json
from typing import TYPE_CHECKING

import pytest

from tests.support import crowd

if TYPE_CHECKING:
    import psycopg

    from tests.support import databases

PROCESSES = 4


async def _case(conn: psycopg.AsyncConnection) -> str:
    return str(await crowd.fetch_value(conn, "select public.create_case('race')"))


async def _add(conn: psycopg.AsyncConnection, case: str, names: list[str]) -> None:
    for start in range(0, len(names), 10_000):
        listed = json.dumps([{"name": name} for name in names[start : start + 10_000]])
        query = "select count(*) from public.add_documents(%s, %s, 'image')"
        assert await crowd.fetch_value(conn, query, case, listed) == len(
            names[start : start + 10_000]
        )


async def test_64_claimers_claim_each_of_20000_documents_exactly_once(
    database: databases.Database,
) -> None:
    """No document is claimed twice and none is passed over."""
    async with await crowd.connect(database.url()) as conn:
        await _add(conn, await _case(conn), [str(n) for n in range(20_000)])
        jobs = [(crowd.claim_all, (database.url(), 64 // PROCESSES, 25))] * PROCESSES
        taken = [document for found in await crowd.run(jobs) for document in found]
        assert len(taken) == 20_000
        assert len(set(taken)) == 20_000
        query = (
            "select count(*) from public.documents where ocr_status = 'processing' and attempts = 1"
        )
        assert await crowd.fetch_value(conn, query) == 20_000


async def test_uploads_of_one_name_at_once_become_versions_of_which_one_lives(
    database: databases.Database,
) -> None:
    """32 uploads race, and each is kept as a version of its own."""
    async with await crowd.connect(database.url()) as conn:
        case = await _case(conn)
        jobs = [(crowd.upload, (database.url(), case, "act.png", 32 // PROCESSES))] * PROCESSES
        answers = [answer for found in await crowd.run(jobs) for answer in found]
        assert sorted(a["document_version"] for a in answers) == list(range(1, 33))
        query = "select count(*) from public.documents where deleted_at is null"
        assert await crowd.fetch_value(conn, query) == 1
        assert (
            await crowd.fetch_value(conn, "select count(*) from private.invariant_violations()")
            == 0
        )


@pytest.mark.parametrize("rounds", [60, pytest.param(2000, marks=pytest.mark.long)])
async def test_everything_at_once_writes_each_result_once(
    database: databases.Database, rounds: int
) -> None:
    """Claim, complete, fail, recover, requeue and re-upload race; every success is one result."""
    async with await crowd.connect(database.url()) as conn:
        case = await _case(conn)
        names = [f"{n}.png" for n in range(60)]
        await _add(conn, case, names)
        jobs = [
            (crowd.run_random_calls, (database.url("supabase_admin"), case, names, rounds, seed))
            for seed in range(PROCESSES)
        ]
        told = [result for found in await crowd.run(jobs) for result in found]
        assert told, "nothing was completed, so nothing was tested"
        await _drain(conn, told)

        cursor = await conn.execute(
            "select format('%s %s', document_id, id) from public.ocr_processing_logs"
        )
        written = [result for (result,) in await cursor.fetchall()]
        assert collections.Counter(written) == collections.Counter(told)
        cursor = await conn.execute("select * from private.invariant_violations()")
        assert await cursor.fetchall() == []
        query = """
            select array_agg(distinct ocr_status::text) from public.documents
            where deleted_at is null
        """
        assert await crowd.fetch_value(conn, query) == ["completed"]


async def _drain(conn: psycopg.AsyncConnection, told: list[str]) -> None:
    """Bring every document to its end."""
    while True:
        await crowd.fetch_value(conn, "select public.recover_stuck_documents(0)")
        await crowd.fetch_value(
            conn, """select public.resolve_dead_letters('{"lane": "image"}', 'requeue')"""
        )
        await conn.execute("update public.documents set retry_at = null where retry_at is not null")
        finished = await crowd.claim_and_complete(conn)
        if not finished:
            return
        told += finished


async def test_a_claim_that_waited_for_a_cancellation_gets_nothing(
    database: databases.Database,
) -> None:
    """Claim and cancel neither wait for each other for ever nor both win."""
    async with (
        await crowd.connect(database.url()) as person,
        await crowd.connect(database.url()) as worker,
        await crowd.connect(database.url("supabase_admin")) as observer,
    ):
        await _add(person, await _case(person), ["act"])
        async with person.transaction():
            document = await crowd.fetch_value(person, "select id from public.documents for update")
            claim = asyncio.create_task(
                crowd.fetch_value(worker, "select id from public.claim_documents('w')")
            )
            waiting = "select count(*) from pg_locks where not granted and pid = %s"
            async with asyncio.timeout(10):
                while not await crowd.fetch_value(observer, waiting, worker.info.backend_pid):  # noqa: ASYNC110  # another session
                    await asyncio.sleep(0.01)
            query = "select r.success from public.cancel_document(%s) as r"
            assert await crowd.fetch_value(person, query, document)
        assert await claim is None
        assert (
            await crowd.fetch_value(person, "select ocr_status from public.documents")
            == "cancelled"
        )
        assert await crowd.fetch_value(observer, "select count(*) from private.queue") == 0
        cursor = await observer.execute("select * from private.invariant_violations()")
        assert await cursor.fetchall() == []


async def test_a_result_that_waited_for_a_cancellation_leaves_no_pages(
    database: databases.Database,
) -> None:
    """Completion looks at the document again once it holds the lock, before it writes its text."""
    async with (
        await crowd.connect(database.url()) as person,
        await crowd.connect(database.url()) as worker,
        await crowd.connect(database.url("supabase_admin")) as observer,
    ):
        await _add(person, await _case(person), ["act"])
        cursor = await worker.execute("select id, lock_token from public.claim_documents('w')")
        [claimed] = await cursor.fetchall()
        async with person.transaction():
            document = await crowd.fetch_value(person, "select id from public.documents for update")
            query = """select public.process_ocr_atomic(%s, '{"text": "late"}', 0.9, 10, %s)"""
            completion = asyncio.create_task(crowd.fetch_value(worker, query, *claimed))
            waiting = "select count(*) from pg_locks where not granted and pid = %s"
            async with asyncio.timeout(10):
                while not await crowd.fetch_value(observer, waiting, worker.info.backend_pid):  # noqa: ASYNC110  # another session
                    await asyncio.sleep(0.01)
            query = "select r.success from public.cancel_document(%s) as r"
            assert await crowd.fetch_value(person, query, document)
        assert (await completion)["success"] is False
        assert await crowd.fetch_value(observer, "select count(*) from public.ocr_pages") == 0
