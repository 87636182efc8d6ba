"""How things stand: the right numbers, for the right people, at once."""

from __future__ import annotations

import datetime as dt
import statistics
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.database import factories, plans, queries

if TYPE_CHECKING:
    import uuid

    from tests.support import databases

HEALTH = "select * from ocr_system_health"
FIRST_COLUMNS = [
    *("queued", "processing", "completed", "failed", "in_dlq", "stuck"),
    *("avg_retries", "max_retries", "avg_processing_seconds", "success_rate_24h_pct"),
]
MILLION = 1_000_000
LIMIT_SECONDS = 0.050

# As a week of work leaves them behind: results in the order of time.
COMPLETED = """
    insert into public.documents (
      case_id, name, ocr_status, created_at, updated_at, ocr_completed_at, claimed_at, attempts,
      version
    )
    select %(case)s, 'done-' || n, 'completed', t.at - interval '30 seconds', t.at, t.at, t.at, 1, 2
    from generate_series(1, %(count)s) as n
    cross join lateral (
      select now() - interval '7 days' + n * (interval '7 days' / %(count)s) as at
    ) as t
"""
RESULTS = """
    insert into public.ocr_processing_logs (
      document_id, id, ocr_data, worker_id, attempt, seconds_to_text, created_at
    )
    select d.id, gen_random_uuid(), '{}', 'w', 1, 30, d.ocr_completed_at
    from public.documents as d
    where d.ocr_status = 'completed'
    order by d.ocr_completed_at
"""
QUEUED = """
    with added as (
      insert into public.documents (case_id, name, ocr_status, listed_in, turn)
      select %(case)s, 'waiting-' || n, 'queued', 'queue', n
      from generate_series(1, %(count)s) as n
      returning *
    )
    insert into private.queue (lane, urgency, turn, document_id)
    select a.lane, -a.priority, a.turn, a.id from added as a
"""


async def _load(database: databases.Database, case: uuid.UUID, count: int, *loads: str) -> None:
    conn = await database.connect("supabase_admin")
    await conn.execute("set session_replication_role = replica")
    for load in loads:
        await conn.execute(load.encode(), {"case": case, "count": count})


async def _settle(database: databases.Database) -> None:
    """Do what the sweep and autovacuum do all the time."""
    conn = await database.connect("supabase_admin")
    await conn.execute("select public.sweep_documents()")
    await conn.execute(
        "vacuum (analyze) public.documents, public.ocr_processing_logs, private.queue"
    )


async def _read(
    factory: factories.Factory, case: uuid.UUID, ago: dt.timedelta, *, seconds: int = 60
) -> None:
    """Upload a document, and let it be read so long ago."""
    now = dt.datetime.now(dt.UTC) - ago
    document = await factory.queued(case)
    uploaded = now - dt.timedelta(seconds=seconds)
    update = "update documents set created_at = %s where id = %s"
    await factory.conn.execute(update, (uploaded, document))
    await factory.conn.execute("select public.claim_documents('w', null, 1, 20, %s)", (uploaded,))
    token = await queries.one(
        factory.conn, "select lock_token from documents where id = %s", (document,)
    )
    await factory.conn.execute(
        "select public.process_ocr_atomic(%s, '{}', 0.9, 1, %s, 'e', '1', 'p', null, %s)",
        (document, token["lock_token"], now),
    )


async def _fail(factory: factories.Factory, case: uuid.UUID) -> None:
    claim = await factory.claimed(case)
    await factory.call(
        "fail_document",
        p_document_id=claim.document_id,
        p_lock_token=claim.lock_token,
        p_error_message="time-out",
    )


async def test_the_first_columns_are_the_ones_people_know(database: databases.Database) -> None:
    """Their names and order stay; an empty system has zeros and no averages."""
    row = await queries.one(await database.connect(), HEALTH)
    assert list(row)[: len(FIRST_COLUMNS)] == FIRST_COLUMNS
    assert [row[name] for name in FIRST_COLUMNS] == [0, 0, 0, 0, 0, 0, None, 0, None, None]
    assert (row["oldest_waiting_seconds"], row["paused_lanes"]) == (None, [])


async def test_open_documents_are_counted_by_what_they_wait_for(
    database: databases.Database,
) -> None:
    """All queued states are queued; retries count where they are."""
    factory = await factories.Factory.of(database)
    case = await factory.case()
    stuck, _ = await factory.claimed(case), await factory.claimed(case, lane="pdf")
    await factory.conn.execute(
        "update documents set locked_at = locked_at - interval '6 minutes' where id = %s",
        (stuck.document_id,),
    )
    for lane in ("image", "pdf", "check", None):
        await factory.queued(case, lane=lane)
    await _fail(factory, case)
    letters = [await factory.dead_letter(case) for _ in range(3)]
    for letter, action in zip(letters, ("abandon", "manual"), strict=False):
        await factory.call("resolve_dead_letter", p_dlq_id=letter.dlq_id, p_action=action)
    await factory.call("pause_lane", p_lane="check", p_reason="maintenance")
    for statuses in ((), (), (2,), (2, 6)):
        document = await factory.awaiting_file(case)
        for status in statuses:
            query = "update extraction_queue set status_id = %s where id = %s"
            await factory.conn.execute(query, (status, document))
    row = await queries.one(factory.conn, HEALTH)
    expected: dict[str, Any] = {
        "queued": 3,
        "processing": 2,
        "stuck": 1,
        "failed": 1,
        "in_dlq": 1,
        "pending": 1,
        "pending_review": 1,
        "waiting_to_retry": 1,
        "avg_retries": 1,
        "max_retries": 1,
        "paused_lanes": ["check"],
        "open_tasks": 3,  # a dead letter, one to type by hand, one to route
        "dead_lettered_24h": 3,
        "awaiting_file": 2,
        "extracting": 1,
        "extraction_failed": 1,
    }
    assert {name: row[name] for name in expected} == expected
    assert row["oldest_waiting_seconds"] >= 0


async def test_results_of_a_week_are_summed_up(database: databases.Database) -> None:
    """The same before and after the hours are closed; older ones no longer count."""
    factory = await factories.Factory.of(database)
    case = await factory.case()
    for hours in (24 * 9, 24 * 3, 30, 3, 0):
        await _read(factory, case, dt.timedelta(hours=hours))
    await _read(factory, case, dt.timedelta(minutes=5), seconds=120)
    await factory.dead_letter(case)
    before = await queries.one(factory.conn, HEALTH)
    assert (before["completed"], before["completed_24h"]) == (5, 3)
    assert before["avg_processing_seconds"] == pytest.approx((4 * 60 + 120) / 5)
    assert before["success_rate_24h_pct"] == 75
    await factory.conn.execute("select private.aggregate_finished_hours()")
    assert await queries.one(factory.conn, HEALTH) == before
    closed = await queries.one(
        factory.conn, "select sum(completed) as completed from private.hourly_results"
    )
    assert 3 <= closed["completed"] <= 5


async def test_health_is_for_hac_and_our_services(database: databases.Database) -> None:
    """Everybody else is refused with 42501."""
    factory = await factories.Factory.of(database)
    user, admin = await factory.user(), await factory.user(admin=True)
    for who in (admin, "service_role"):
        async with database.acting_as(who) as conn:
            assert (await queries.one(conn, HEALTH))["queued"] == 0
    for stranger in (user, "anon"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            async with database.acting_as(stranger) as conn:
                await conn.execute(HEALTH)


@pytest.mark.fresh
async def test_health_counts_ten_thousand_and_estimates_the_rest(
    database: databases.Database,
) -> None:
    """However long the queue, only so much of it is read, and the table never from end to end."""
    factory = await factories.Factory.of(database)
    await _load(database, await factory.case(), 12_000, QUEUED, COMPLETED, RESULTS)
    await _settle(database)
    conn = await plans.connect(database)
    async with plans.collected(conn) as found:
        row = await queries.one(conn, HEALTH)
    assert 11_000 < row["queued"] < 13_000
    assert 11_800 < row["completed"] <= 12_000
    assert len(found) > 5
    for plan in found:
        assert not plan.scanned() & {"documents", "ocr_processing_logs", "queue"}, plan.statement
        for node in plan.nodes():
            assert node["Actual Rows"] <= 10_000, plan.statement


async def _median_seconds(database: databases.Database) -> float:
    async with database.acting_as("service_role") as conn:
        durations = []
        for _ in range(20):
            start = time.perf_counter()
            await conn.execute(HEALTH)
            durations.append(time.perf_counter() - start)
    return statistics.median(durations)


@pytest.mark.long
@pytest.mark.parametrize("loads", [(COMPLETED, RESULTS), (QUEUED,)], ids=["completed", "queued"])
async def test_health_answers_at_once_with_a_million_documents(
    database: databases.Database, loads: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """The median of twenty calls is under 50 ms."""
    factory = await factories.Factory.of(database)
    await _load(database, await factory.case(), MILLION, *loads)
    await _settle(database)
    median = await _median_seconds(database)
    row = await queries.one(factory.conn, HEALTH)
    with capsys.disabled():
        print(f" {median * 1000:.1f} ms", end="")  # noqa: T201  # the measurement
    assert row["completed"] + row["queued"] == pytest.approx(MILLION, rel=0.02)
    assert median < LIMIT_SECONDS
