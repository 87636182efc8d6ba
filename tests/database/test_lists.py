"""Lists for people: documents page by page, results hour by hour."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from psycopg.types.json import Jsonb

from tests.database import factories, plans, queries

if TYPE_CHECKING:
    from tests.support import databases

FILLER = """
    insert into documents (case_id, name, ocr_status, created_at)
    select %s, 'filler ' || n, 'completed', now() - make_interval(secs => n)
    from generate_series(1, 5000) as n
"""


@pytest.mark.fresh
async def test_a_page_of_the_list_is_read_by_index(database: databases.Database) -> None:
    """Whoever asks, a page far down the list costs what the first one does."""
    factory = await factories.Factory.of(database)
    admin = await factory.user(admin=True)
    conn = await plans.connect(database)
    await conn.execute("set session_replication_role = replica")
    await conn.execute(FILLER, (await factory.case(),))
    await conn.execute("set session_replication_role = origin")
    await conn.execute("vacuum (analyze) documents")
    claims = Jsonb({"role": "authenticated", "sub": str(admin)})
    await conn.execute("select set_config('request.jwt.claims', %s::text, false)", (claims,))
    await conn.execute("set role authenticated")
    middle = "select * from list_documents(p_before => now() - interval '40 minutes')"
    for _ in range(7):  # after five runs Postgres settles for one plan
        async with plans.collected(conn) as found:
            assert len(await queries.rows(conn, middle)) == 50
        (listed,) = [plan for plan in found if "lower(d.name) like" in plan.statement]
        assert "documents_created_idx" in listed.indexes()
        assert "documents" not in listed.scanned()
        assert listed.blocks() < 200


async def test_results_are_told_by_the_hour(database: databases.Database) -> None:
    """Hours that are summed up and the one that is not, with empty ones in between."""
    factory = await factories.Factory.of(database)
    await factory.completed()
    await factory.completed()
    await factory.dead_letter()
    conn = await database.connect()
    await conn.execute(
        "insert into private.hourly_results "
        "values (date_trunc('hour', now()) - interval '3 hours', 4, 20, 1, 2, 2)"
    )

    hours = await factories.call(factory.conn, "results_by_hour", p_hours=5)

    assert [hour["completed"] for hour in hours] == [0, 4, 0, 0, 2]
    assert [hour["dead_lettered"] for hour in hours] == [0, 0, 0, 0, 1]
    assert hours[1]["avg_seconds_to_text"] == 5
    first, last = (dt.datetime.fromisoformat(hours[n]["hour"]) for n in (0, -1))
    assert last - first == dt.timedelta(hours=4)
