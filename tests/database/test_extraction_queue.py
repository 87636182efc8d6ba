"""The registry's queue: a view whose updates move documents, with its extractors' statements."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import itertools
import json
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.database import factories, queries

if TYPE_CHECKING:
    import uuid
    from collections.abc import AsyncIterator

    from tests.support import databases

DEADLINE_SECONDS = 20

INSERT = """
    insert into extraction_queue (document_source, document_name)
    values ('acte', 'act 17') returning *
"""
CLAIM = """
    update extraction_queue
    set status_id = 4, ocr_worker_id = %(worker)s, ocr_started_at = now(),
        ocr_attempts = ocr_attempts + 1
    where id = %(id)s and status_id = 3
    returning *
"""
RESET = """
    update extraction_queue set status_id = 3, ocr_worker_id = null where id in (%(id)s) returning *
"""
COMPLETE = """
    update extraction_queue set status_id = 5, ocr_text = 'Acte de vente', ocr_confidence = 0.9
    where id = %(id)s and status_id = 4 returning *
"""
POOL_CLAIM = """
    update extraction_queue set status_id = 2, worker_id = %(worker)s
    where status_id = 3 and document_source = 'acte' and worker_id is null
    returning *
"""
BEGIN = """
    update extraction_queue set status_id = 2, worker_id = %(worker)s
    where id = %(id)s and status_id = 1 returning *
"""
ATTACH = """
    update extraction_queue set status_id = 3, dropbox_path = '/a.pdf'
    where id = %(id)s and status_id = 2 returning *
"""
FAIL_FOR_GOOD = """
    update extraction_queue set status_id = 6, ocr_error = 'Invalid PDF'
    where id = %(id)s and status_id = 4 returning *
"""
FAIL = """
    update extraction_queue set status_id = %(status)s, ocr_error = %(error)s
    where id = %(id)s and status_id = 4 returning *
"""


_numbers = itertools.count(18)


@pytest.fixture
async def conn(database: databases.Database) -> psycopg.AsyncConnection:
    """Connect as the extractor and its workers do: as service role."""
    conn = await database.connect("authenticator", claims={"role": "service_role"})
    await conn.execute("set role service_role")
    return conn


async def _insert(conn: psycopg.AsyncConnection, status: int = 1) -> uuid.UUID:
    """Insert a document and bring it to this status."""
    insert = INSERT.replace("act 17", f"act {next(_numbers)}")
    inserted = await queries.one(conn, insert.encode())
    steps = {
        2: "update extraction_queue set status_id = 2, worker_id = 'x-1' where id = %s",
        3: "update extraction_queue set status_id = 3, dropbox_path = '/a.pdf' where id = %s",
    }
    for step in range(2, min(status, 3) + 1):
        await conn.execute(steps[step].encode(), (inserted["id"],))
    if status == 4:
        await _claim(conn, inserted["id"])
    document: uuid.UUID = inserted["id"]
    return document


async def _claim(conn: psycopg.AsyncConnection, document: uuid.UUID) -> list[dict[str, Any]]:
    return await queries.rows(conn, CLAIM, {"worker": "worker-1", "id": document})


async def _fail(
    conn: psycopg.AsyncConnection, document: uuid.UUID, error: str | None, status: int = 3
) -> dict[str, Any]:
    params = {"id": document, "error": error, "status": status}
    return await queries.one(conn, FAIL, params)


async def _stored(conn: psycopg.AsyncConnection, document: uuid.UUID) -> dict[str, Any]:
    return await queries.one(conn, "select * from documents where id = %s", (document,))


@contextlib.asynccontextmanager
async def _held(
    database: databases.Database, document: uuid.UUID, waiting: int
) -> AsyncIterator[psycopg.AsyncConnection]:
    """Hold the row until so many others wait for it; commit at the end."""
    owner = await database.connect()
    async with owner.transaction():
        await owner.execute("select from documents where id = %s for update", (document,))
        yield owner
        await _until_waiting(await database.connect(), waiting)


async def _until_waiting(conn: psycopg.AsyncConnection, count: int) -> None:
    query = """
        select count(*) as waiting from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'
    """
    async with asyncio.timeout(DEADLINE_SECONDS):
        while (await queries.one(conn, query))["waiting"] < count:  # noqa: ASYNC110  # other sessions
            await asyncio.sleep(0.01)


# The way of a document ------------------------------------------------------------------------


async def test_an_inserted_document_awaits_its_file(conn: psycopg.AsyncConnection) -> None:
    """It has status 1, the limits of its lane, and belongs to the registry's own case."""
    first = await queries.one(conn, INSERT)
    second = await queries.one(conn, INSERT.replace("act 17", "act 18").encode())
    assert (first["status_id"], first["document_source"]) == (1, "acte")
    assert (first["ocr_attempts"], first["ocr_max_attempts"], first["priority"]) == (0, 3, 0)
    assert first["case_id"] == second["case_id"]
    case = await queries.one(conn, "select kind from cases where id = %s", (first["case_id"],))
    assert case["kind"] == "registry"


async def test_extraction_leads_to_the_queue_with_the_file(conn: psycopg.AsyncConnection) -> None:
    """1 → 2 by an extractor, 2 → 3 with the file and not without."""
    document = await _insert(conn, status=2)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="status 3 requires a file"):
        await conn.execute("update extraction_queue set status_id = 3")
    assert (await _stored(conn, document))["ocr_status"] == "extracting"
    complete = await queries.one(
        conn,
        "update extraction_queue set status_id = 3, dropbox_path = '/registry/17.pdf' returning *",
    )
    shown = (complete["status_id"], complete["worker_id"], complete["extracted_by"])
    assert shown == (3, None, "x-1")
    assert (await _stored(conn, document))["ocr_status"] == "queued"


async def test_a_claim_holds_for_ten_minutes_and_hands_out_its_token(
    conn: psycopg.AsyncConnection,
) -> None:
    """The row that comes back is the claim; a second claim gets no row."""
    document = await _insert(conn, status=3)
    (claimed,) = await _claim(conn, document)
    stored = await _stored(conn, document)
    assert claimed["lock_token"] == stored["lock_token"] is not None
    assert claimed["ocr_started_at"] == stored["locked_at"]
    assert (claimed["status_id"], claimed["ocr_attempts"]) == (4, 1)
    assert claimed["ocr_worker_id"] == "worker-1"
    assert stored["lock_expires_at"] - stored["locked_at"] == dt.timedelta(minutes=10)
    assert await _claim(conn, document) == []
    assert (await _stored(conn, document))["attempts"] == 1


async def test_a_claim_is_completed_with_the_text_that_the_update_brings(
    database: databases.Database, conn: psycopg.AsyncConnection
) -> None:
    """4 → 5 with ocr_text writes result, pages and status; the view shows them, but no token."""
    document = await _insert(conn, status=3)
    (claimed,) = await _claim(conn, document)
    done = await queries.one(conn, COMPLETE, {"id": document})
    assert (done["status_id"], done["lock_token"], done["ocr_worker_id"]) == (5, None, None)
    assert (done["ocr_text"], done["ocr_confidence"]) == ("Acte de vente", Decimal("0.9"))
    assert (done["claim_token"], done["ocr_completed_at"] is not None) == (None, True)
    (result,) = await queries.rows(conn, "select * from ocr_processing_logs")
    assert (result["id"], result["worker_id"]) == (claimed["lock_token"], "worker-1")
    (page,) = await queries.rows(conn, "select text from page_texts")
    assert page["text"] == "Acte de vente"
    assert await queries.rows(conn, COMPLETE, {"id": document}) == []
    assert await queries.violations(await database.connect()) == []


async def test_a_claim_without_a_result_is_not_completed(conn: psycopg.AsyncConnection) -> None:
    """The hint names both ways, and process_ocr_atomic with the token is one of them."""
    document = await _insert(conn, status=3)
    (claimed,) = await _claim(conn, document)
    for change in (b"", b", ocr_confidence = 0.9", b", ocr_text = null"):
        with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
            await conn.execute(b"update extraction_queue set status_id = 5" + change)
        assert "process_ocr_atomic" in str(refused.value.diag.message_hint)
        assert "ocr_text" in str(refused.value.diag.message_hint)
    (answer,) = await factories.call(
        conn,
        "process_ocr_atomic",
        p_document_id=document,
        p_ocr_data='{"pages": [{"page_number": 1, "text": "1"}, {"page_number": 2, "text": "2"}]}',
        p_confidence="0.9",
        p_processing_time_ms=10,
        p_lock_token=claimed["lock_token"],
    )
    assert answer["success"]
    shown = await queries.one(conn, "select * from extraction_queue")
    assert (shown["status_id"], shown["ocr_text"]) == (5, "1\f2")


# As they were written: only the ids are filled in.
POLL = (
    "SELECT * FROM extraction_queue WHERE status_id = 3  -- Ready for OCR\nORDER BY created_at ASC;"
)
CLAIM_AS_WRITTEN = """
    UPDATE extraction_queue
    SET status_id = 4,
        ocr_worker_id = 'worker-1',
        ocr_started_at = NOW(),
        ocr_attempts = ocr_attempts + 1
    WHERE id = 'doc-a'
      AND status_id = 3  -- CRITICAL: Only if COMPLETE
    RETURNING *;
"""
ACTIVE_WORKERS = """
    SELECT ocr_worker_id,
           COUNT(*) as active_jobs,
           MIN(ocr_started_at) as oldest_job,
           MAX(ocr_started_at) as newest_job
    FROM extraction_queue
    WHERE status_id = 4
    GROUP BY ocr_worker_id;
"""
STALE = """
    SELECT * FROM extraction_queue
    WHERE status_id = 4
      AND ocr_started_at < NOW() - INTERVAL '10 minutes'
"""
RESET_STALE = """
    UPDATE extraction_queue
    SET status_id = 3,  -- Back to COMPLETE
        ocr_worker_id = NULL
    WHERE id IN (stale_job_ids)
"""


async def test_the_first_statements_run_as_they_were_written(
    database: databases.Database, conn: psycopg.AsyncConnection
) -> None:
    """Poll, claim, lost claim, active workers, stale jobs, reset, and the claim of the next."""
    owner = await database.connect()
    first, second = [await _insert(conn, status=3) for _ in range(2)]
    assert [row["id"] for row in await queries.rows(conn, POLL.encode())] == [first, second]
    claim = CLAIM_AS_WRITTEN.replace("doc-a", str(first))
    (claimed,) = await queries.rows(conn, claim.encode())
    assert (claimed["status_id"], claimed["ocr_attempts"]) == (4, 1)
    again = claim.replace("worker-1", "worker-2")
    assert await queries.rows(conn, again.encode()) == []
    (working,) = await queries.rows(conn, ACTIVE_WORKERS)
    assert (working["ocr_worker_id"], working["active_jobs"]) == ("worker-1", 1)
    assert working["oldest_job"] == working["newest_job"] == claimed["ocr_started_at"]
    assert await queries.rows(conn, STALE) == []
    await owner.execute("update documents set claimed_at = now() - interval '11 minutes'")
    stale = [row["id"] for row in await queries.rows(conn, STALE)]
    assert stale == [first]
    ids = ", ".join(f"'{document}'" for document in stale)
    await conn.execute(RESET_STALE.replace("stale_job_ids", ids).encode())
    assert await queries.rows(conn, ACTIVE_WORKERS) == []
    (taken,) = await queries.rows(conn, again.encode())
    assert (taken["ocr_worker_id"], taken["ocr_attempts"]) == ("worker-2", 2)
    assert await queries.violations(owner) == []


# Extraction -----------------------------------------------------------------------------------


async def _expire(owner: psycopg.AsyncConnection) -> None:
    """Let all leases and pauses of extraction end, and the locks of claims too."""
    await owner.execute(
        "update documents set extraction_due_at = now() - interval '1 second' "
        "where extraction_due_at is not null"
    )
    await owner.execute(
        "update documents set version = version + 1, locked_at = now() - interval '11 minutes', "
        "lock_expires_at = now() - interval '1 minute' where lock_token is not null"
    )
    await owner.execute("update private.sweep_state set swept_at = now(), resumed_at = null")
    await owner.execute("select sweep_documents(now() + interval '1 second')")


async def test_an_extraction_is_a_lease_that_every_update_renews(
    database: databases.Database, conn: psycopg.AsyncConnection
) -> None:
    """It holds for the lane's ten minutes from the last update of the document."""
    owner = await database.connect()
    document = await _insert(conn, status=2)
    begun = await _stored(conn, document)
    lease = begun["extraction_due_at"] - begun["extraction_started_at"]
    assert lease == dt.timedelta(minutes=10)
    await owner.execute("update lanes set extraction_seconds = 60")
    await owner.execute("update documents set extraction_due_at = now() - interval '1 second'")
    renewed = await queries.one(
        conn, "update extraction_queue set worker_id = 'x-1' where worker_id = 'x-1' returning *"
    )
    assert renewed["extraction_started_at"] == begun["extraction_started_at"]
    left = renewed["extraction_due_at"] - renewed["updated_at"]
    assert (renewed["status_id"], left) == (2, dt.timedelta(minutes=1))
    await owner.execute("select sweep_documents()")
    assert (await _stored(conn, document))["ocr_status"] == "extracting"


async def test_an_extractor_cannot_end_the_extraction_of_the_next_one(
    database: databases.Database, conn: psycopg.AsyncConnection
) -> None:
    """Its statement saw the document as its own, and another extractor had it before the lock."""
    owner = await database.connect()
    document = await _insert(conn)
    await conn.execute(BEGIN.encode(), {"id": document, "worker": "x-2"})
    deliver = """
        select private.move_extraction(
          jsonb_populate_record(q, s.seen),
          jsonb_populate_record(q, s.seen || '{"status_id": 3, "dropbox_path": "/a.pdf"}')
        ) as moved
        from extraction_queue as q, jsonb_build_object('worker_id', %(worker)s::text) as s (seen)
        where q.id = %(id)s
    """
    for worker, moved in (("x-1", False), ("x-2", True)):
        row = await queries.one(owner, deliver, {"id": document, "worker": worker})
        assert row["moved"] is moved


async def test_an_expired_lease_returns_the_document_and_counts(
    database: databases.Database, conn: psycopg.AsyncConnection
) -> None:
    """Twice another extractor may try; then HAC gets a task, and may let it start over."""
    owner = await database.connect()
    document = await _insert(conn)
    begin = "update extraction_queue set status_id = 2, worker_id = %s where status_id = 1"
    seen = []
    for number in range(3):
        await conn.execute(begin.encode(), (f"x-{number}",))
        await _expire(owner)
        row = await queries.one(conn, "select * from extraction_queue")
        seen.append((row["status_id"], row["worker_id"], row["extraction_failures"]))
    assert seen == [(1, None, 1), (1, None, 2), (6, None, 3)]
    history = await queries.rows(
        conn, "select kind, worker_id, attempt from ocr_errors order by id"
    )
    assert [tuple(row.values()) for row in history] == [
        ("extraction", f"x-{number}", number + 1) for number in range(3)
    ]
    letter = await queries.one(conn, "select * from ocr_dead_letter")
    assert "x-2 did not renew its lease" in letter["last_error_message"]
    assert letter["failure_count"] == 3
    stored = await _stored(conn, document)
    assert stored["ocr_error"] is None
    assert "x-2" in stored["error_message"]
    task = await queries.one(conn, "select * from tasks where status = 'pending'")
    assert task["title"] == "Dead letter: extraction failed"
    assert await queries.violations(owner) == []
    await factories.call(conn, "resolve_dead_letter", p_dlq_id=letter["id"], p_action="requeue")
    again = await _stored(conn, document)
    assert (again["ocr_status"], again["extraction_failures"]) == ("awaiting_file", 0)
    assert await queries.violations(owner) == []


async def test_locks_and_leases_end_where_the_sweep_runs_once_a_minute(
    database: databases.Database, conn: psycopg.AsyncConnection
) -> None:
    """Schedulers that know no seconds; a minute without a sweep is no outage."""
    owner, factory = await database.connect(), await factories.Factory.of(database)
    sweep = "select sweep_documents(now() + make_interval(mins => %s))"
    extracted = await _insert(conn, status=2)
    claim = await factory.claimed()
    for minutes in range(12):
        await owner.execute(sweep, (minutes,))
        if minutes == 1:
            assert (await _stored(conn, claim.document_id))["lock_token"] is None
    row = await _stored(conn, extracted)
    assert (row["ocr_status"], row["extraction_failures"]) == ("awaiting_file", 1)


async def test_leases_survive_an_outage_of_the_database(
    database: databases.Database, conn: psycopg.AsyncConnection
) -> None:
    """No extractor could renew its lease meanwhile, so each has one whole lease to do so."""
    owner = await database.connect()
    document = await _insert(conn, status=2)
    await owner.execute("update private.sweep_state set swept_at = now(), resumed_at = now()")
    for minutes, status in ((9, "extracting"), (11, "awaiting_file")):
        await owner.execute(
            "update documents set extraction_due_at = now() - interval '1 hour' "
            "where extraction_due_at is not null"
        )
        # As if it had been swept all the time.
        sweep = """
            with state as (
              update private.sweep_state
              set swept_at = now() + make_interval(mins => %(minutes)s) returning true
            )
            select count(*) from state
        """
        await owner.execute(sweep, {"minutes": minutes})
        await owner.execute("select sweep_documents(now() + make_interval(mins => %s))", (minutes,))
        assert (await _stored(conn, document))["ocr_status"] == status


async def test_a_failed_extraction_is_tried_again_and_at_last_a_persons(
    database: databases.Database, conn: psycopg.AsyncConnection
) -> None:
    """2 → 6 waits for its backoff and is 1 again; the third failure is a dead letter."""
    owner = await database.connect()
    document = await _insert(conn)
    seen = []
    for _ in range(3):
        await conn.execute("update extraction_queue set status_id = 2, worker_id = 'x-1'")
        failed = await queries.one(
            conn,
            "update extraction_queue set status_id = 6, error_message = 'no login' returning *",
        )
        stored = await _stored(conn, document)
        seen.append((failed["status_id"], stored["ocr_status"], stored["extraction_failures"]))
        await owner.execute("select sweep_documents()")
        assert (await _stored(conn, document))["ocr_status"] == stored["ocr_status"]
        await _expire(owner)
    assert seen == [
        (6, "extraction_failed", 1),
        (6, "extraction_failed", 2),
        (6, "dead_letter", 3),
    ]
    stored = await _stored(conn, document)
    assert (stored["error_message"], stored["ocr_error"]) == ("no login", None)
    assert await queries.violations(owner) == []


async def test_a_document_given_back_with_an_error_counts_as_failed(
    conn: psycopg.AsyncConnection,
) -> None:
    """2 → 1 is a release without an error and a failure with one, also with the same one."""
    document = await _insert(conn)
    begin = "update extraction_queue set status_id = 2, worker_id = 'x-1' where status_id = 1"
    back = "update extraction_queue set status_id = 1, error_message = %s returning *"
    seen = []
    for error in (None, "no login", "no login", "no login"):
        await conn.execute(begin.encode())
        row = await queries.one(conn, back.encode(), (error,))
        seen.append((row["status_id"], row["worker_id"], row["extraction_failures"]))
    assert seen == [(1, None, 0), (1, None, 1), (1, None, 2), (6, None, 3)]
    assert (await _stored(conn, document))["ocr_status"] == "dead_letter"


LIFE = {
    "inserts": INSERT,
    "begins": "update extraction_queue set status_id = 2, worker_id = 'x-1' where status_id = 1",
    "renews": "update extraction_queue set worker_id = 'x-1' where status_id = 2",
    "fails": "update extraction_queue set status_id = 6, error_message = 'no' where status_id = 2",
    "retries": "update extraction_queue set status_id = 1 where status_id = 6",
    "begins again": "update extraction_queue set status_id = 2, worker_id = 'x-1'",
    "notes the path": "update extraction_queue set dropbox_path = '/a.pdf' where status_id = 2",
    "delivers": "update extraction_queue set status_id = 3 where status_id = 2",
}
EXTRACTOR = """
import json, sys
import psycopg
url, statements, commits = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3] == "commits"
conn = psycopg.connect(url, autocommit=True)
conn.execute("set role service_role")
for statement in statements[:-1]:
    conn.execute(statement)
conn.execute(statements[-1] if commits else "begin")
conn.execute("select" if commits else statements[-1])
print("done", flush=True)
sys.stdin.read()
"""


async def _kill_after(database: databases.Database, life: list[str], ending: str) -> None:
    """Kill an extractor, a process of its own, after the last of these statements."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", EXTRACTOR),
        *(database.url("authenticator"), json.dumps(life), ending),
        stdin=-1,
        stdout=-1,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"done\n"
    process.kill()
    await process.wait()
    # Postgres notices a little later.
    query = "select count(*) as open from pg_stat_activity where state = 'idle in transaction'"
    owner = await database.connect()
    async with asyncio.timeout(DEADLINE_SECONDS):
        while (await queries.one(owner, query))["open"]:  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.01)


async def test_an_extractor_is_killed_and_its_document_comes_back(
    database: databases.Database, conn: psycopg.AsyncConnection, subtests: pytest.Subtests
) -> None:
    """After each of its statements, also before the commit: another one finishes the document."""
    owner = await database.connect()
    statements = list(LIFE.values())
    for number, ending in itertools.product(range(len(LIFE)), ("commits", "is in a transaction")):
        with subtests.test(f"{list(LIFE)[number]} and {ending}"):
            await _kill_after(database, statements[: number + 1], ending)
            await _expire(owner)
            rows = await queries.rows(conn, "select status_id from extraction_queue")
            back = 3 if (number, ending) == (len(LIFE) - 1, "commits") else 1
            never = (number, ending) == (0, "is in a transaction")
            assert [row["status_id"] for row in rows] == ([] if never else [back])
            assert await queries.violations(owner) == []
            await owner.execute("delete from documents")


async def test_extractors_that_die_every_time_leave_a_task(
    database: databases.Database, conn: psycopg.AsyncConnection
) -> None:
    """Whether each dies while it extracts or after it reported a failure."""
    owner = await database.connect()
    await _insert(conn)
    for statement in ("begins", "fails", "begins"):
        begin = LIFE["begins"].replace("where status_id = 1", "where status_id in (1, 2)")
        await conn.execute(begin.encode())
        await conn.execute(LIFE[statement].encode().replace(b"where status_id = 1", b""))
        await _expire(owner)
        await _expire(owner)
    (task,) = await queries.rows(conn, "select kind from tasks where status = 'pending'")
    assert task["kind"] == "dead_letter"
    assert (await queries.one(conn, "select status_id from extraction_queue"))["status_id"] == 6


DELIVER = "update extraction_queue set status_id = 3, dropbox_path = '/late.pdf'"


@pytest.mark.parametrize("status", ["awaiting_file", "extraction_failed", "dead_letter"])
async def test_a_file_that_comes_late_is_taken(
    database: databases.Database, conn: psycopg.AsyncConnection, status: str
) -> None:
    """The lease has ended and the document was given up, but no other file came: it counts."""
    owner = await database.connect()
    document = await _insert(conn, status=2)
    if status == "dead_letter":
        await owner.execute("update lanes set max_extraction_failures = 1")
    if status == "awaiting_file":
        await _expire(owner)
    else:
        await conn.execute("update extraction_queue set status_id = 6, error_message = 'no'")
    assert (await _stored(conn, document))["ocr_status"] == status
    late = await queries.one(conn, DELIVER + ", worker_id = 'x-1' returning *")
    assert (late["status_id"], late["dropbox_path"]) == (3, "/late.pdf")
    assert (late["worker_id"], late["extracted_by"]) == (None, "x-1")
    assert await queries.rows(conn, "select from tasks where status = 'pending'") == []
    assert await queries.violations(owner) == []
    assert len(await _claim(conn, document)) == 1


async def test_an_extractor_that_lost_its_document_changes_nothing(
    conn: psycopg.AsyncConnection, subtests: pytest.Subtests
) -> None:
    """Another one extracts it, or has delivered: a clear error, whatever became of it since."""
    late = f"{DELIVER}, worker_id = 'x-0' where id = %s".encode()
    for status in range(2, 7):
        document = await _insert(conn, status=min(status, 4))
        if status > 4:
            await queries.one(conn, COMPLETE if status == 5 else FAIL_FOR_GOOD, {"id": document})
        before = await _stored(conn, document)
        with subtests.test(str(status)):
            with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
                await conn.execute(late, (document,))
            assert refused.value.diag.message_hint
            assert ("x-1" in str(refused.value)) is (status == 2)
            assert await _stored(conn, document) == before


async def test_a_file_delivered_twice_is_delivered_once(conn: psycopg.AsyncConnection) -> None:
    """The same again changes nothing while it waits, and does not disturb who reads it."""
    document = await _insert(conn, status=3)
    same = "update extraction_queue set status_id = 3, dropbox_path = '/a.pdf' returning *"
    before = await _stored(conn, document)
    again = await queries.one(conn, same)
    assert again["status_id"] == 3
    assert (await _stored(conn, document))["turn"] == before["turn"]
    (claimed,) = await _claim(conn, document)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="worker is reading"):
        await conn.execute(same.encode())
    assert (await _stored(conn, document))["lock_token"] == claimed["lock_token"]


# The pool's claim -----------------------------------------------------------------------------


async def _pool_claim(conn: psycopg.AsyncConnection, worker: str) -> list[dict[str, Any]]:
    return await queries.rows(conn, POOL_CLAIM, {"worker": worker})


async def test_a_pool_worker_gets_one_document_however_many_match(
    conn: psycopg.AsyncConnection,
) -> None:
    """3 → 2 is a claim of ten minutes with a token, and reads back as 4."""
    documents = [await _insert(conn, status=3) for _ in range(3)]
    (claimed,) = await _pool_claim(conn, "w-1")
    stored = await _stored(conn, claimed["id"])
    assert (claimed["status_id"], claimed["worker_id"], claimed["ocr_worker_id"]) == (
        4,
        None,
        "w-1",
    )
    assert claimed["lock_token"] == stored["lock_token"] is not None
    assert stored["lock_expires_at"] - stored["locked_at"] == dt.timedelta(minutes=10)
    assert (claimed["extracted_by"], claimed["ocr_attempts"]) == ("x-1", 1)
    async with conn.transaction():
        others = [*await _pool_claim(conn, "w-2"), *await _pool_claim(conn, "w-3")]
    assert {row["id"] for row in (claimed, *others)} == set(documents)
    assert await _pool_claim(conn, "w-4") == []
    done = await queries.one(conn, COMPLETE, {"id": claimed["id"]})
    assert done["status_id"] == 5


async def test_a_pool_worker_gets_only_what_is_due(conn: psycopg.AsyncConnection) -> None:
    """Neither a document that waits for its next attempt, nor one of a paused lane."""
    delayed = await _insert(conn, status=4)
    await _fail(conn, delayed, "API rate limit")
    await _insert(conn, status=3)
    await factories.call(conn, "pause_lane", p_lane="acte", p_reason="maintenance")
    assert await _pool_claim(conn, "w-1") == []
    await factories.call(conn, "resume_lane", p_lane="acte")
    (claimed,) = await _pool_claim(conn, "w-1")
    assert claimed["id"] != delayed
    assert await _pool_claim(conn, "w-1") == []


async def test_a_worker_reserves_nothing_without_a_claim(conn: psycopg.AsyncConnection) -> None:
    """worker_id alone at status 3, or a claim without it: an error instead of an empty promise."""
    await _insert(conn, status=3)
    for change in (b"worker_id = 'w'", b"status_id = 2", b"status_id = 2, worker_id = ' '"):
        with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
            await conn.execute(b"update extraction_queue set " + change)
        assert refused.value.diag.message_hint


async def test_of_many_pool_workers_at_once_each_gets_another_document(
    database: databases.Database, conn: psycopg.AsyncConnection
) -> None:
    """They do not wait for each other either: the first row is locked all the time."""
    first, *_ = [await _insert(conn, status=3) for _ in range(17)]
    sessions = [
        await database.connect("postgres", claims={"role": "service_role"}) for _ in range(16)
    ]
    async with _held(database, first, waiting=0), asyncio.timeout(DEADLINE_SECONDS):
        found = await asyncio.gather(
            *(_pool_claim(session, f"w-{number}") for number, session in enumerate(sessions))
        )
    taken = [row["id"] for rows in found for row in rows]
    assert len(set(taken)) == len(taken) == 16
    assert first not in taken


# Which claim an update belongs to ---------------------------------------------------------------


async def _lose(
    how: str,
    document: uuid.UUID,
    conn: psycopg.AsyncConnection,
    owner: psycopg.AsyncConnection,
) -> None:
    """End a claim without its worker."""
    match how:
        case "reset":
            await queries.one(conn, RESET, {"id": document})
        case "lock expired":
            await _expire(owner)
        case "attempt took too long":
            await owner.execute(
                "update documents set version = version + 1, attempt_deadline = now() - lock_age "
                "from (values (interval '1 second')) as v (lock_age) where lock_token is not null"
            )
            await _expire(owner)
        case "taken back by HAC":
            await factories.call(conn, "recover_stuck_documents", p_stuck_minutes=0)
        case "cancelled":
            await factories.call(conn, "cancel_document", p_document_id=document)
            await factories.call(conn, "read_again", p_document_id=document)
        case "updated by hand":
            await owner.execute(
                "update documents set ocr_status = 'queued', locked_by = null, locked_at = null, "
                "retry_count = 0 where lock_token is not null"
            )


async def test_after_a_lost_claim_updates_name_theirs(
    database: databases.Database, conn: psycopg.AsyncConnection, subtests: pytest.Subtests
) -> None:
    """The worker of the lost claim may be alive; its result is not taken for that of the next."""
    owner = await database.connect()
    changes = (
        b"status_id = 5, ocr_text = 'late'",
        b"status_id = 3, ocr_error = 'late'",
        b"status_id = 6, ocr_error = 'late'",
    )
    for how in (
        *("reset", "lock expired", "attempt took too long"),
        *("taken back by HAC", "cancelled", "updated by hand"),
    ):
        document = await _insert(conn, status=3)
        with subtests.test(how):
            (lost,) = await _claim(conn, document)
            await _lose(how, document, conn, owner)
            (claimed,) = await _claim(conn, document)
            for change in changes:
                update = b"update extraction_queue set claim_token = %s, " + change
                update += b" where id = %s returning *"
                with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
                    await conn.execute(update, (None, document))
                assert "claim_token" in str(refused.value.diag.message_hint)
                assert await queries.rows(conn, update, (lost["lock_token"], document)) == []
            assert (await _stored(conn, document))["lock_token"] == claimed["lock_token"]
            update = b"update extraction_queue set claim_token = %s, " + changes[0]
            update += b" where id = %s returning *"
            done = await queries.one(conn, update, (claimed["lock_token"], document))
            assert (done["status_id"], done["claim_token"]) == (5, None)
    assert await queries.violations(owner) == []


async def test_a_claim_that_its_worker_ended_is_not_lost(
    database: databases.Database, conn: psycopg.AsyncConnection
) -> None:
    """It failed, gave the document back or to HAC: the next worker needs no token."""
    document = await _insert(conn, status=3)
    (claimed,) = await _claim(conn, document)
    await _fail(conn, document, "API rate limit")
    (claimed,) = await _claim(conn, document)
    pair = {"document_id": str(document), "lock_token": str(claimed["lock_token"])}
    await factories.call(conn, "release_documents", p_documents=json.dumps([pair]))
    (claimed,) = await _claim(conn, document)
    letter = await factories.call(
        conn,
        "move_to_dead_letter_queue",
        p_document_id=document,
        p_error_message="no engine",
        p_lock_token=claimed["lock_token"],
    )
    await factories.call(
        conn, "resolve_dead_letter", p_dlq_id=letter[0]["dlq_id"], p_action="requeue"
    )
    await _claim(conn, document)
    done = await queries.one(conn, COMPLETE, {"id": document})
    assert done["status_id"] == 5
    assert await queries.violations(await database.connect()) == []


async def test_a_claim_that_expired_may_finish_while_it_is_not_taken(
    database: databases.Database, conn: psycopg.AsyncConnection
) -> None:
    """Late is not too late."""
    document = await _insert(conn, status=4)
    owner = await database.connect()
    await owner.execute(
        "update documents set version = version + 1, lock_expires_at = now() - interval '1 hour'"
    )
    assert (await queries.one(conn, COMPLETE, {"id": document}))["status_id"] == 5


async def test_resets_after_new_pages_do_not_lead_to_the_dead_letters(
    conn: psycopg.AsyncConnection,
) -> None:
    """A long document gets on with every claim, so it does not kill its workers."""
    document = await _insert(conn, status=3)
    for number in range(6):
        (claimed,) = await _claim(conn, document)
        await factories.call(
            conn,
            "save_document_pages",
            p_document_id=document,
            p_lock_token=claimed["lock_token"],
            p_pages=json.dumps([{"page_number": number + 1, "text": "page"}]),
            p_engine="rapid",
            p_version="1",
        )
        reset = await queries.one(conn, RESET, {"id": document})
        assert (reset["status_id"], reset["ocr_attempts"]) == (3, number + 1)
    stored = await _stored(conn, document)
    assert (stored["rescues"], stored["retry_at"]) == (0, None)
    statuses = []
    for _ in range(4):
        await _claim(conn, document)
        statuses.append((await queries.one(conn, RESET, {"id": document}))["status_id"])
    assert statuses == [3, 3, 3, 6]


# What goes wrong ------------------------------------------------------------------------------


async def test_a_reset_takes_the_document_from_its_worker(conn: psycopg.AsyncConnection) -> None:
    """4 → 3 without an error is a rescue: the token is worth nothing, no failure is counted."""
    document = await _insert(conn, status=3)
    (claimed,) = await _claim(conn, document)
    reset = await queries.one(conn, RESET, {"id": document})
    assert (reset["status_id"], reset["ocr_worker_id"], reset["lock_token"]) == (3, None, None)
    stored = await _stored(conn, document)
    assert (stored["rescues"], stored["retry_count"], stored["retry_at"]) == (1, 0, None)
    (late,) = await factories.call(
        conn,
        "process_ocr_atomic",
        p_document_id=document,
        p_ocr_data="{}",
        p_confidence=None,
        p_processing_time_ms=1,
        p_lock_token=claimed["lock_token"],
    )
    assert late["error"] == "LOCK_LOST"


async def test_resets_without_end_lead_to_the_dead_letters(conn: psycopg.AsyncConnection) -> None:
    """A document that was reset too often is held to kill its workers."""
    document = await _insert(conn, status=3)
    statuses = []
    for _ in range(4):
        await _claim(conn, document)
        statuses.append((await queries.one(conn, RESET, {"id": document}))["status_id"])
    assert statuses == [3, 3, 3, 6]
    letter = await queries.one(conn, "select error_category from ocr_dead_letter")
    assert letter["error_category"] == "resource"


async def test_ocr_errors_are_retried_until_the_attempts_are_used_up(
    conn: psycopg.AsyncConnection,
) -> None:
    """4 → 3 with ocr_error counts a failure, also when the message is the same as before."""
    document = await _insert(conn, status=3)
    seen = []
    for _ in range(3):
        await _claim(conn, document)
        row = await _fail(conn, document, "API rate limit")
        stored = await _stored(conn, document)
        assert (row["ocr_error"], row["error_message"]) == ("API rate limit", None)
        seen.append((row["status_id"], stored["retry_count"], stored["retry_at"] is not None))
    assert seen == [(3, 1, True), (3, 2, True), (6, 3, False)]
    assert (await _stored(conn, document))["rescues"] == 0
    assert await _claim(conn, document) == []


async def test_an_ocr_error_for_good_goes_to_the_dead_letters(
    conn: psycopg.AsyncConnection,
) -> None:
    """4 → 6 gives the document to HAC at once."""
    document = await _insert(conn, status=4)
    row = await _fail(conn, document, "Invalid PDF", status=6)
    assert (row["status_id"], row["ocr_error"], row["lock_token"]) == (6, "Invalid PDF", None)
    letter = await queries.one(conn, "select * from ocr_dead_letter")
    assert (letter["error_category"], letter["last_error_message"]) == ("permanent", "Invalid PDF")


async def test_extraction_errors_and_ocr_errors_are_kept_apart(
    conn: psycopg.AsyncConnection,
) -> None:
    """error_message is the extractor's, ocr_error OCR's; neither overwrites the other."""
    document = await _insert(conn, status=2)
    failed = await queries.one(
        conn,
        "update extraction_queue set status_id = 6, error_message = 'no login' returning *",
    )
    assert (failed["status_id"], failed["error_message"], failed["ocr_error"]) == (
        6,
        "no login",
        None,
    )
    await conn.execute("update extraction_queue set status_id = 1")
    await conn.execute("update extraction_queue set status_id = 3, dropbox_path = '/a.pdf'")
    await _claim(conn, document)
    both = await _fail(conn, document, "Invalid PDF")
    assert (both["error_message"], both["ocr_error"]) == ("no login", "Invalid PDF")
    history = await queries.rows(conn, "select kind, error_message from ocr_errors order by id")
    assert [(row["kind"], row["error_message"]) for row in history] == [
        ("extraction", "no login"),
        ("failure", "Invalid PDF"),
    ]


async def test_only_a_failed_extraction_starts_over(conn: psycopg.AsyncConnection) -> None:
    """6 → 1 is for the extractor; a dead letter is HAC's, and the update finds no row."""
    document = await _insert(conn, status=4)
    await _fail(conn, document, "Invalid PDF", status=6)
    statement = "update extraction_queue set status_id = 1 where status_id = 6 returning *"
    assert await queries.rows(conn, statement) == []
    assert (await _stored(conn, document))["ocr_status"] == "dead_letter"


# Races ----------------------------------------------------------------------------------------


async def test_of_32_claimers_at_once_one_wins(
    database: databases.Database, conn: psycopg.AsyncConnection
) -> None:
    """All wait for the row at the same moment; one gets it, 31 get no row."""
    document = await _insert(conn, status=3)
    claimers = [
        await database.connect("postgres", claims={"role": "service_role"}) for _ in range(32)
    ]
    async with asyncio.TaskGroup() as group, _held(database, document, waiting=32):
        tasks = [group.create_task(_claim(claimer, document)) for claimer in claimers]
    won = [row for task in tasks for row in task.result()]
    assert len(won) == 1
    stored = await _stored(conn, document)
    assert (stored["attempts"], stored["lock_token"]) == (1, won[0]["lock_token"])


@pytest.mark.parametrize(
    ("meanwhile", "statement"),
    [
        ("processing", CLAIM),
        ("completed", CLAIM),
        ("cancelled", CLAIM),
        ("queued", FAIL),
        ("completed", RESET),
        ("queued", COMPLETE),
        ("cancelled", COMPLETE),
        ("dead_letter", COMPLETE),
        ("queued", BEGIN),
        ("cancelled", BEGIN),
        ("awaiting_file", ATTACH),
        ("queued", ATTACH),
    ],
)
async def test_an_update_that_comes_late_returns_no_row(
    database: databases.Database,
    conn: psycopg.AsyncConnection,
    meanwhile: str,
    statement: str,
) -> None:
    """Whoever was overtaken between seeing a row and changing it changes nothing."""
    document = await _insert(conn, status={CLAIM: 3, BEGIN: 1, ATTACH: 2}.get(statement, 4))
    params = {"id": document, "worker": "worker-2", "status": 3, "error": "late"}
    async with asyncio.TaskGroup() as group, _held(database, document, waiting=1) as owner:
        task = group.create_task(queries.rows(conn, statement.encode(), params))
        await owner.execute("update documents set ocr_status = %s", (meanwhile,))
        before = await _stored(owner, document)
    assert task.result() == []
    assert await _stored(conn, document) == before


async def test_an_update_for_an_earlier_claim_returns_no_row(
    database: databases.Database, conn: psycopg.AsyncConnection
) -> None:
    """The status is the same again, but the claim is another worker's."""
    document = await _insert(conn, status=4)
    params = {"id": document, "status": 3, "error": "late"}
    async with asyncio.TaskGroup() as group, _held(database, document, waiting=1) as owner:
        task = group.create_task(queries.rows(conn, FAIL, params))
        await owner.execute("update documents set lock_token = gen_random_uuid()")
        before = await _stored(owner, document)
    assert task.result() == []
    assert await _stored(conn, document) == before


async def test_updates_of_different_columns_do_not_undo_each_other(
    database: databases.Database, conn: psycopg.AsyncConnection
) -> None:
    """An update writes what it changed, not the whole row it saw."""
    document = await _insert(conn, status=2)
    another = await database.connect("postgres", claims={"role": "service_role"})
    async with asyncio.TaskGroup() as group, _held(database, document, waiting=2):
        for session, change in ((conn, b"priority = 7"), (another, b"language = 'fr'")):
            statement = b"update extraction_queue set " + change
            group.create_task(session.execute(statement))
    shown = await queries.one(conn, "select * from extraction_queue")
    assert (shown["priority"], shown["language"], shown["worker_id"]) == (7, "fr", "x-1")


async def test_extractors_that_start_at_once_share_one_registry_case(
    database: databases.Database,
) -> None:
    """The first documents of all make one case, not one each."""
    sessions = [
        await database.connect("postgres", claims={"role": "service_role"}) for _ in range(8)
    ]
    inserts = [INSERT.replace("act 17", f"act {number}").encode() for number in range(8)]
    await asyncio.gather(
        *(session.execute(insert) for session, insert in zip(sessions, inserts, strict=True))
    )
    assert len(await queries.rows(sessions[0], "select from cases where kind = 'registry'")) == 1


# Bad input ------------------------------------------------------------------------------------


MOVES = [(1, 4), (1, 5), (2, 4), (3, 1), (3, 5), (3, 6), (4, 1), (4, 2), (1, 0), (2, 7), (4, -1)]


async def test_other_moves_are_refused(
    conn: psycopg.AsyncConnection, subtests: pytest.Subtests
) -> None:
    """A move that makes no sense raises 22023 with a hint, and changes nothing."""
    for status, wanted in MOVES:
        document = await _insert(conn, status=status)
        before = await _stored(conn, document)
        update = b"update extraction_queue set status_id = %s where id = %s"
        with subtests.test(f"{status} to {wanted}"):
            with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
                await conn.execute(update, (wanted, document))
            assert refused.value.diag.message_hint
            assert await _stored(conn, document) == before


async def test_senseless_rows_are_refused(conn: psycopg.AsyncConnection) -> None:
    """Unknown lanes, blank names, other statuses, foreign cases: 22023, and nothing is stored."""
    start = "insert into extraction_queue (document_source, document_name, status_id, case_id) "
    for values in (
        "values ('image', 'a', 1, null)",
        "values (null, 'a', 1, null)",
        "values ('acte', ' ', 1, null)",
        "values ('acte', 'a', 4, null)",
        "values ('acte', 'a', 3, null)",
        "values ('acte', 'a', 1, gen_random_uuid())",
        "values ('acte', 'a', 7, null)",
    ):
        with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
            await conn.execute((start + values).encode())
        assert refused.value.diag.message_hint
    assert await queries.rows(conn, "select from extraction_queue") == []


async def test_what_a_document_is_does_not_change(conn: psycopg.AsyncConnection) -> None:
    """Its id, case, source, name and token are not the extractor's to write."""
    await _insert(conn, status=4)
    for change in (
        b"dropbox_path = '/b.pdf'",
        b"ocr_text = 'text'",
        b"ocr_confidence = 1",
        b"id = gen_random_uuid()",
        b"document_source = 'index'",
        b"document_name = 'b'",
        b"lock_token = null",
    ):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            await conn.execute(b"update extraction_queue set " + change)


async def test_a_paused_lane_hands_out_nothing(conn: psycopg.AsyncConnection) -> None:
    """A claim through the view finds no row while the lane is paused."""
    document = await _insert(conn, status=3)
    await factories.call(conn, "pause_lane", p_lane="acte", p_reason="maintenance")
    assert await _claim(conn, document) == []
    await factories.call(conn, "resume_lane", p_lane="acte")
    assert len(await _claim(conn, document)) == 1


async def test_a_new_priority_is_a_new_place_in_the_queue(conn: psycopg.AsyncConnection) -> None:
    """Turns of different priorities do not compare, so the document takes one of the new."""
    documents = []
    for number in range(5):
        insert = INSERT.replace("act 17", f"act {number}").encode()
        documents.append((await queries.one(conn, insert))["id"])
    await conn.execute("update extraction_queue set status_id = 3, dropbox_path = '/a.pdf'")
    await conn.execute("update extraction_queue set priority = 9 where id = %s", (documents[-1],))
    assert (await _stored(conn, documents[-1]))["turn"] == 0
    (claimed,) = await factories.call(conn, "claim_documents", p_worker_id="w", p_lanes=["acte"])
    assert claimed["id"] == str(documents[-1])
