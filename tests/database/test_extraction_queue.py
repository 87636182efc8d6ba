"""The registry's queue: a view whose updates move documents, with its extractors' statements."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.database import factories, queries

if TYPE_CHECKING:
    import uuid
    from collections.abc import AsyncIterator

    from psycopg.abc import QueryNoTemplate

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
FAIL = """
    update extraction_queue set status_id = %(status)s, ocr_error = %(error)s
    where id = %(id)s and status_id = 4 returning *
"""


@pytest.fixture
async def conn(database: databases.Database) -> psycopg.AsyncConnection:
    """Connect as the extractor and its workers do: as service role."""
    conn = await database.connect("authenticator", claims={"role": "service_role"})
    await conn.execute("set role service_role")
    return conn


async def _insert(conn: psycopg.AsyncConnection, status: int = 1) -> uuid.UUID:
    """Insert a document and bring it to this status."""
    inserted = await queries.one(conn, INSERT)
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
    assert (complete["status_id"], complete["worker_id"]) == (3, "x-1")
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


async def test_a_claim_is_completed_with_its_result_only(conn: psycopg.AsyncConnection) -> None:
    """4 → 5 through the view is refused with a hint; process_ocr_atomic with the token does it."""
    document = await _insert(conn, status=3)
    (claimed,) = await _claim(conn, document)
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        await conn.execute("update extraction_queue set status_id = 5")
    assert "process_ocr_atomic" in str(refused.value.diag.message_hint)
    (answer,) = await factories.call(
        conn,
        "process_ocr_atomic",
        p_document_id=document,
        p_ocr_data='{"text": "Acte de vente"}',
        p_confidence="0.9",
        p_processing_time_ms=10,
        p_lock_token=claimed["lock_token"],
    )
    assert answer["success"]
    shown = await queries.one(conn, "select * from extraction_queue")
    assert (shown["status_id"], shown["lock_token"], shown["ocr_worker_id"]) == (5, None, None)
    assert shown["ocr_completed_at"] is not None


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
    ],
)
async def test_an_update_that_comes_late_returns_no_row(
    database: databases.Database,
    conn: psycopg.AsyncConnection,
    meanwhile: str,
    statement: QueryNoTemplate,
) -> None:
    """Whoever was overtaken between seeing a row and changing it changes nothing."""
    document = await _insert(conn, status=3 if statement == CLAIM else 4)
    params = {"id": document, "worker": "worker-2", "status": 3, "error": "late"}
    async with asyncio.TaskGroup() as group, _held(database, document, waiting=1) as owner:
        task = group.create_task(queries.rows(conn, statement, params))
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


@pytest.mark.parametrize(("status", "wanted"), [(1, 4), (1, 5), (2, 4), (3, 1), (3, 5), (4, 1)])
async def test_other_moves_are_refused(
    conn: psycopg.AsyncConnection, status: int, wanted: int
) -> None:
    """A move that makes no sense raises 22023 with a hint, and changes nothing."""
    document = await _insert(conn, status=status)
    before = await _stored(conn, document)
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        await conn.execute("update extraction_queue set status_id = %s", (wanted,))
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
    ):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            await conn.execute((start + values).encode())
    assert await queries.rows(conn, "select from extraction_queue") == []


async def test_what_a_document_is_does_not_change(conn: psycopg.AsyncConnection) -> None:
    """Its id, case, source, name and token are not the extractor's to write."""
    await _insert(conn, status=4)
    for change in (
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
