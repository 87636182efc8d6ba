"""Pages of a full database: each reads in proportion to what it shows."""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from benchmarks import dashboard
from pagewarden import database as gateways
from pagewarden.dashboard import app
from pagewarden.dashboard.pages import checks
from pagewarden.local import cluster
from tests.database import plans

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.dashboard import site as sites
    from tests.support import databases

DOCUMENTS = 10_000
SMALL = 300
"""A table of so many rows may be read from end to end."""
MOST_ROWS = 1500
"""Rows of a table that one statement may look at: more than any page shows, less than a table."""
MOST_JOBS = 100
"""The same for jobs, of which there are a thousand."""

# The ids that filling gives: one that somebody corrected, and one that nobody did.
CORRECTED, READ = (uuid.UUID(hashlib.md5(f"document{n}".encode()).hexdigest()) for n in (40, 41))  # noqa: S324

# Jobs, numbered likewise: one that has its results, and one that waits.
CHECKED, WAITING = (uuid.UUID(hashlib.md5(f"job{n}".encode()).hexdigest()) for n in (7, 5))  # noqa: S324

PATHS = (
    *(entry.path for entry in app.MENU),
    f"/documents/{CORRECTED}",
    f"/documents/{CORRECTED}/review",
    f"/documents/{READ}/review?waiting=1",
    f"/documents/{READ}/export/txt",
    "/review?case=00000000-0000-0000-0000-000000000000",
    "/documents?status=dead_letter",
    "/documents?status=queued",
    "/documents?status=processing",
    "/documents?status=completed",
    "/documents?status=failed",
    "/documents?status=cancelled",
    "/documents?q=zz",
    "/documents?lane=image",
    "/documents?lane=pdf",
    "/documents?q=word77",
    "/documents?q=scan+77",
    "/documents?q=nothing+at+all",
    "/documents?bin=true",
    "/dead-letters?status=requeued",
    "/dead-letters?status=abandoned",
    "/dead-letters?category=permanent",
    "/dead-letters?category=unknown",
    "/dead-letters?group=nothing+at+all",
    "/dead-letters?name=nothing+at+all",
    "/tasks?whose=mine",
    "/tasks?whose=unassigned",
    "/tasks?kind=other",
    "/tasks?kind=review&priority=low",
    "/cases?q=nothing+at+all",
    "/cases?bin=true",
    "/people?role=admin",
    "/audit?action=ocr_completed",
    "/audit?action=lane_paused",
    "/audit?person=nobody@example.org",
    "/audit?since=2020-01-01T00:00&until=2021-01-01T00:00",
    "/checks?everybody=true",
    *(f"/checks?everybody=true&status={status}" for status in checks.Status if status),
    *(f"/checks?status={status}" for status in checks.Status if status),
    f"/checks/{CHECKED}",
    f"/checks/{WAITING}",
    f"/checks/{CHECKED}/pictures/2",
    f"/checks/{CHECKED}/report/csv",
)


def _most(table: str) -> int:
    return MOST_JOBS if table == "check_jobs" else MOST_ROWS


@pytest.fixture
async def seen(database: databases.Database, monkeypatch: pytest.MonkeyPatch) -> list[plans.Plan]:
    """Collect the query plans of all connections opened from now on."""
    found: list[plans.Plan] = []
    connect = psycopg.AsyncConnection.connect

    async def connected(*args: Any, **options: Any) -> psycopg.AsyncConnection:
        conn = await connect(*args, **options)
        conn.add_notice_handler(plans.taking(found))
        return conn

    await dashboard.fill(await database.connect(cluster.SUPERUSER), DOCUMENTS)
    conn = await database.connect(cluster.SUPERUSER)
    await plans.explain_everything(conn, database.name)
    # One plan for all values, as Postgres settles for after five calls; the first shows it already.
    await conn.execute(f"alter database {database.name} set plan_cache_mode = force_generic_plan")
    monkeypatch.setattr(psycopg.AsyncConnection, "connect", connected)
    return found


@pytest.fixture
async def gateway(
    database: databases.Database,
    seen: list[plans.Plan],  # noqa: ARG001  # must be first
) -> AsyncIterator[gateways.Database]:
    """Connect as the service role, with plans."""
    async with await gateways.connect_direct(database.url()) as found:
        yield found


@pytest.mark.fresh
async def test_no_page_reads_a_whole_table(site: sites.Site, seen: list[plans.Plan]) -> None:
    """Neither by a sequential scan nor along an index, with any filter."""
    person = await site.add_person(admin=True)
    guilty: set[tuple[str, str, object, str]] = set()
    async with site.client(person) as client:
        for path in PATHS:
            seen.clear()
            answer = await client.get(path)
            assert answer.status_code == 200, (path, answer.text)
            for plan in seen:
                statement = re.sub(r"\s+", " ", plan.statement)[:150]
                rows = plan.read()
                guilty |= {(path, x, "scan", statement) for x in plan.scanned() if rows[x] > SMALL}
                guilty |= {(path, x, rows[x], statement) for x in rows if rows[x] > _most(x)}
    assert guilty == set()
    assert seen
