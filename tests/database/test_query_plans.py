"""The hot statements read in proportion to what they return, whatever the planner believes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.database import factories, plans

if TYPE_CHECKING:
    import uuid

    import psycopg

    from tests.support import databases

BATCH = 20

# Straight into the table: a hundred thousand uploads and readings would take minutes.
LOAD = """
    insert into public.documents (
      case_id, name, lane, ocr_status, turn, attempts, version, claimed_at, ocr_completed_at
    )
    select %(case)s, %(status)s || n, 'image', %(status)s, n, 0, 2, now(), now()
    from generate_series(1, %(count)s) as n
"""
QUEUE = """
    insert into private.queue (lane, urgency, turn, document_id)
    select lane, -priority, turn, id from public.documents where ocr_status = 'queued';
    update public.documents set listed_in = 'queue' where ocr_status = 'queued'
"""


async def _load(database: databases.Database, case: uuid.UUID, **counts: int) -> None:
    conn = await database.connect("supabase_admin")
    # No foreign keys to check, no statistics to make: the planner is to know nothing.
    await conn.execute("set session_replication_role = replica")
    await conn.execute("alter table public.documents set (autovacuum_enabled = off)")
    for status, count in counts.items():
        await conn.execute(LOAD, {"case": case, "status": status, "count": count})
    await conn.execute(QUEUE)


async def _claim(conn: psycopg.AsyncConnection) -> list[plans.Plan]:
    async with plans.collected(conn) as found:
        rows = await factories.call(
            conn, "claim_documents", p_worker_id="worker-1", p_lanes=["image"], p_limit=BATCH
        )
    assert len(rows) == BATCH
    return found


def _assert_proportional(found: list[plans.Plan]) -> None:
    (take,) = [plan for plan in found if "limit v_take" in plan.statement]
    types = {node["Node Type"] for node in take.nodes()}
    (scan,) = [node for node in take.nodes() if "Index Name" in node]
    assert scan["Index Name"] == "queue_pkey"
    assert not any("Sort" in name for name in types), types
    assert scan["Actual Rows"] <= BATCH
    assert take.blocks() < 20 * BATCH
    for plan in found:
        assert "documents" not in plan.scanned(), plan.statement
        assert plan.blocks() < 200 * BATCH, plan.statement


@pytest.mark.fresh
async def test_the_claim_reads_its_index_and_no_more_than_the_batch(
    database: databases.Database,
) -> None:
    """With plans made on an empty table, without statistics, and with fresh ones."""
    factory = await factories.Factory.of(database)
    case = await factory.case()
    conn = await plans.connect(database)
    for _ in range(6):  # after five runs Postgres settles for one plan
        await factories.call(conn, "claim_documents", p_worker_id="early")

    await _load(database, case, completed=50_000, queued=50_000)

    _assert_proportional(await _claim(conn))
    another = await plans.connect(database)
    _assert_proportional(await _claim(another))
    await conn.execute("analyze public.documents")
    for _ in range(7):
        _assert_proportional(await _claim(another))


# What changes while a document is claimed, read and completed.
CHANGING = """
    ocr_status listed_in attempts version retry_at locked_by locked_at lock_token lock_expires_at
    claimed_by claimed_at attempt_deadline updated_at ocr_completed_at ocr_error page_count
    run_id open_run_id retry_count rescues
"""


async def test_no_index_names_what_changes_while_a_document_is_read(
    database: databases.Database,
) -> None:
    """So claim, heartbeat and completion touch no index (HOT), however many there are."""
    conn = await database.connect("supabase_admin")
    found = await conn.execute(
        "select pg_get_indexdef(indexrelid) from pg_index"
        " where indrelid = 'public.documents'::regclass"
    )
    definitions = [definition for (definition,) in await found.fetchall()]
    named = {c for c in CHANGING.split() if any(re.search(rf"\b{c}\b", d) for d in definitions)}
    assert len(definitions) >= 3
    assert named == set()
