"""The state of the pool: who belongs to it, who leads, and whose orders count."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from tests.database import factories, queries

if TYPE_CHECKING:
    import psycopg

    from tests.support import databases

LEASE = 60
LANES = ["image", "pdf", "index", "acte"]


async def _at(conn: psycopg.AsyncConnection, seconds: float, call: str, *values: Any) -> Any:
    now = dt.datetime(2026, 11, 16, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
    (row,) = await queries.rows(
        conn, f"select to_jsonb(r) as answer from public.{call} as r", [*values, now]
    )
    return row["answer"]


async def _lead(conn: psycopg.AsyncConnection, seconds: float, process: str) -> Any:
    return await _at(conn, seconds, "lead_pool(%s, %s, %s)", process, LEASE)


async def _report(conn: psycopg.AsyncConnection, seconds: float, process: str, *ids: str) -> Any:
    rows = Jsonb([{"worker_id": name} for name in ids])
    return await _at(conn, seconds, "report_pool(%s, %s, %s, %s)", process, LANES, rows)


async def _assign(
    conn: psycopg.AsyncConnection, seconds: float, process: str, term: int, **lanes: str
) -> Any:
    rows = Jsonb([{"worker_id": name, "lane": lane} for name, lane in lanes.items()])
    call = "assign_pool(%s, %s, %s, '{}', %s)"
    return await _at(conn, seconds, call, process, term, rows)


async def test_one_leads_until_it_falls_silent(database: databases.Database) -> None:
    """Another takes over when the lease is over, with a new term; the old one's orders are void."""
    conn = await database.connect()
    await _report(conn, 0, "a", "a-1")
    assert (await _lead(conn, 0, "a"))["term"] == 1
    assert (await _lead(conn, 30, "b"))["term"] is None
    assert (await _lead(conn, 40, "a"))["term"] == 1
    assert (await _lead(conn, 99, "b"))["term"] is None
    assert (await _lead(conn, 100, "b"))["term"] == 2
    assert (await _assign(conn, 101, "a", 1, **{"a-1": "acte"}))["error"] == "NOT_LEADER"
    assert (await _lead(conn, 101, "a"))["term"] is None


async def test_two_who_ask_at_once_do_not_both_lead(database: databases.Database) -> None:
    """While one has the lock, the other is told so at once."""
    first, second = await database.connect(), await database.connect()
    async with first.transaction():
        assert (await _lead(first, 0, "a"))["term"] == 1
        assert (await _lead(second, 0, "b"))["term"] is None
    assert (await _lead(second, 1, "b"))["term"] is None


async def test_workers_hear_their_lanes_and_switches_are_counted(
    database: databases.Database,
) -> None:
    """A first lane is no switch; who is silent for a lease is forgotten; who leaves is gone."""
    conn = await database.connect()
    told = await _report(conn, 0, "a", "a-1", "a-2")
    assert told == {"lanes": {"a-1": None, "a-2": None}, "reading": {}, "waiting": []}
    await _lead(conn, 0, "a")
    lanes = {"a-1": "index", "a-2": "acte"}
    assert (await _assign(conn, 1, "a", 1, **lanes))["switches"] == 0
    lanes["a-2"] = "index"
    assert (await _assign(conn, 2, "a", 1, **lanes))["switches"] == 1
    told = await _report(conn, 3, "a", "a-1", "a-2")
    assert told["lanes"] == lanes

    await _report(conn, 50, "b", "b-1")
    seen = await _lead(conn, 90, "b")
    assert [worker["worker_id"] for worker in seen["workers"]] == ["b-1"]
    await _report(conn, 91, "b")
    last = await _lead(conn, 92, "c")
    assert (last["workers"], last["term"]) == ([], 3)


async def test_what_waits_in_a_paused_lane_is_no_work(database: databases.Database) -> None:
    """Only what could be read counts."""
    factory = await factories.Factory.of(database)
    for lane in ("image", "image", "pdf"):
        await factory.queued(lane=lane)
    conn = await database.connect()
    assert (await _lead(conn, 0, "a"))["backlog"] == {
        "acte": 0, "check": 0, "image": 2, "index": 0, "pdf": 1,
    }  # fmt: skip
    await factory.call("pause_lane", p_lane="image", p_reason="a test")
    assert "image" not in (await _lead(conn, 1, "a"))["backlog"]
    told = await _report(conn, 1, "a", "a-1")
    assert told["waiting"] == ["pdf"]


async def test_a_due_probe_is_work_of_a_lane_paused_by_an_outage(
    database: databases.Database,
) -> None:
    """One worker takes it, even if other lanes have a backlog; until then the lane waits."""
    factory = await factories.Factory.of(database)
    for lane in ("image", "image", "pdf"):
        await factory.queued(lane=lane)
    conn = await database.connect()
    pause = "select private.pause_for_outage('image', 'no engine', %s)"
    await conn.execute(pause, (dt.datetime(2026, 11, 16, tzinfo=dt.UTC),))  # the probe: 30 s later
    waiting = [(await _report(conn, at, "a", "a-1"))["waiting"] for at in (29, 30)]
    assert waiting == [["pdf"], ["image", "pdf"]]
    claim = "claim_documents(p_worker_id => %s, p_lanes => %s, p_now => %s)"
    assert (await _at(conn, 30, claim, "a-1", ["image"]))["lane"] == "image"
    assert (await _report(conn, 31, "a", "a-1"))["waiting"] == ["pdf"]


async def test_people_see_the_pool_and_its_last_hours(database: databases.Database) -> None:
    """Leader, workers with what they read, and a history that is thinned out."""
    factory = await factories.Factory.of(database)
    claim = await factory.claimed(lane="image")
    worker = {"worker_id": "a-1", "lane": "image", "document_id": str(claim.document_id)}
    for process in ("a", "b"):
        told = await factory.call(
            "report_pool",
            p_process=process,
            p_lanes=LANES,
            p_workers=Jsonb([worker] if process == "a" else []),
        )
        assert told["reading"] == ({} if process == "a" else {"image": 1})
    assert (await factory.call("pool_status"))["leader"] is None
    await factory.call("lead_pool", p_process="a", p_lease_seconds=LEASE)
    for lane in ("image", "pdf"):
        await factory.call(
            "assign_pool",
            p_process="a",
            p_term=1,
            p_workers=Jsonb([{"worker_id": "a-1", "lane": lane, "reason": f"{lane} waits"}]),
            p_backlog=Jsonb({"image": 7}),
        )
    seen = await factory.call("pool_status")
    assert (seen["leader"]["process"], seen["leader"]["is_late"]) == ("a", False)
    (shown,) = seen["workers"]
    assert (shown["lane"], shown["reads_lane"], shown["switches"]) == ("pdf", "image", 1)
    assert (shown["lanes"], shown["lane_reason"]) == (LANES, "pdf waits")
    (switch,) = seen["switches"]
    assert (switch["from_lane"], switch["to_lane"], switch["reason"]) == (
        "image", "pdf", "pdf waits",
    )  # fmt: skip
    assert shown["document_name"]
    assert seen["history"][-1]["allocation"] == {"pdf": 1}
    assert sum(point["switches"] for point in seen["history"]) == 1
