"""system_metrics(): how things stand, as numbers, in one cheap call."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from tests.database import factories, plans, volumes

if TYPE_CHECKING:
    from tests.support import databases

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
COMPLETED = """
    insert into public.documents (case_id, name, lane, ocr_status, claimed_at, ocr_completed_at)
    select %(case)s, 'done-' || n, 'image', 'completed', now(), now()
    from generate_series(1, %(count)s) as n
"""
STARTED_EARLIER = """
    update check_jobs set deadline = deadline - make_interval(secs => %s) where id = %s
"""
MANY = 12_000


def _counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {row["label"]: row["count"] for row in rows}


async def test_an_empty_system_has_zeros_and_no_gaps(database: databases.Database) -> None:
    """Every lane, category, severity and state is there: what vanishes is no 0."""
    found = await (await factories.Factory.of(database)).call("system_metrics")
    lanes = [lane.pop("lane") for lane in found["lanes"]]
    assert lanes == ["acte", "check", "image", "index", "pdf"]
    for lane in found["lanes"]:
        assert lane == {
            "queued": 0, "later": 0, "processing": 0, "stuck": 0, "oldest_seconds": 0,
            "paused": False, "assigned_workers": 0, "reading_workers": 0,
        }  # fmt: skip
    stages = [stage.pop("stage") for stage in found["volume_stages"]]
    assert stages == ["line_detection", "line_extraction", "ocr", "reduce"]
    for stage in found["volume_stages"]:
        assert stage == {"queued": 0, "processing": 0, "later": 0, "oldest_seconds": 0}
    assert {row["counter"] for row in found["counters"]} == {
        "check_jobs", "pool_switches", "volume_stages",
    }  # fmt: skip
    assert _events(found) == {}
    categories = ["configuration", "permanent", "resource", "transient", "unknown"]
    assert _counts(found["dead_letters"]) == dict.fromkeys(categories, 0)
    assert _counts(found["open_alerts"]) == {"critical": 0, "warning": 0}
    assert _counts(found["workers"]) == {"idle": 0, "reading": 0, "silent": 0}
    extractions = ["awaiting_file", "extracting", "extraction_failed"]
    assert _counts(found["extractions"]) == dict.fromkeys(extractions, 0)
    assert found["open_tasks"] == found["open_check_jobs"] == 0


def _events(found: Any) -> dict[tuple[str, ...], int]:
    """Return how often everything has ended that did."""
    return {
        (row["counter"], *row["labels"]): row["events"]
        for row in found["counters"]
        if row["events"]
    }


async def test_what_has_ended_is_counted_for_good(database: databases.Database) -> None:
    """Check jobs, stages of volumes, switches of the pool, runs of functions; the sweep adds up."""
    orders = await volumes.Volumes.of(database)
    factory, now = orders.factory, dt.datetime.now(dt.UTC)
    for seconds in (100, 5000):
        job = await factory.check_job()
        await factory.conn.execute(STARTED_EARLIER, (seconds, job))
        assert (await factory.call("cancel_check_job", p_job_id=job))["success"]
    await factory.check_job(["c.png"])
    await orders.order("W1-I1", "W1-I2", "W1-I3")
    await orders.orchestrate(p_now=now - dt.timedelta(minutes=5))
    await orders.complete(await orders.take("line_detection"))
    await orders.fail(await orders.take("line_detection"), retry_after=600)
    runs = [await factory.call("begin_function_run", p_function_name="alerts") for _ in range(3)]
    for run, outcome in zip(runs, ("completed", "failed"), strict=False):
        for _ in range(2):  # a call that is sent again counts once
            await factory.call("end_function_run", p_run_id=run, p_outcome=outcome)
    await factory.call("report_pool", p_process="p", p_workers=Jsonb([{"worker_id": "w"}]))
    await factory.call("lead_pool", p_process="p", p_lease_seconds=60)
    for n, lane in enumerate(("image", "acte", "acte")):
        await factory.call(
            "assign_pool", p_process="p", p_term=1, p_backlog=Jsonb({}),
            p_workers=Jsonb([{"worker_id": "w", "lane": lane}]),
            p_now=now + dt.timedelta(seconds=n),
        )  # fmt: skip

    found = await factory.call("system_metrics", p_now=now)

    assert _events(found) == {
        ("check_jobs", "CANCELLED", "300"): 1,
        ("check_jobs", "CANCELLED", "+Inf"): 1,
        ("volume_stages", "line_detection", "done"): 1,
        ("volume_stages", "line_detection", "failed"): 1,
        ("function_starts", "alerts"): 3,
        ("functions", "alerts", "completed"): 1,
        ("functions", "alerts", "failed"): 1,
        ("pool_switches", "acte"): 1,
    }
    durations = {row["labels"][-1]: row["seconds"] for row in found["counters"]}
    assert 100 <= durations["300"] < 300
    assert durations["+Inf"] >= 5000
    assert found["open_check_jobs"] == 1
    assert found["lanes"][0]["assigned_workers"] == 1
    (detection, extraction, *_) = found["volume_stages"]
    assert detection == {
        "stage": "line_detection", "queued": 1, "processing": 0, "later": 1, "oldest_seconds": 300,
    }  # fmt: skip
    assert extraction["queued"] == 0
    await factory.call("sweep_documents")
    again = await factory.call("system_metrics", p_now=now)
    # A function that has run has all outcomes from then on, so that its first refusal is a rise.
    assert [row for row in again["counters"] if row not in found["counters"]] == [
        {"counter": "functions", "labels": ["alerts", "refused"], "events": 0, "seconds": 0}
    ]
    assert _events(again) == _events(found)


async def test_documents_are_counted_by_lane_and_by_what_becomes_of_them(
    database: databases.Database,
) -> None:
    """What waits now and later, is in hand, is stuck, was given up; and who paused what."""
    factory = await factories.Factory.of(database)
    stuck = await factory.claimed(worker="dead")
    await factory.claimed(lane="pdf", worker="reader")
    for _ in range(2):
        await factory.queued()
    await factory.conn.execute(
        "update documents set locked_at = locked_at - interval '6 minutes', lock_expires_at = now()"
        " where id = %s",
        (stuck.document_id,),
    )
    await factory.conn.execute("update documents set created_at = now() - interval '1 hour'")
    failed = await factory.claimed()
    await factory.call(
        "fail_document", p_document_id=failed.document_id, p_lock_token=failed.lock_token,
        p_error_message="time-out",
    )  # fmt: skip
    for category in ("permanent", "permanent", "resource"):
        await factory.dead_letter(category=category)
    await factory.call("report_worker", p_worker_id="idler", p_lanes=["image"])
    await factory.call("report_worker", p_worker_id="reader", p_lanes=["pdf"])
    await factory.call("pause_lane", p_lane="check", p_reason="maintenance")
    for statuses in ((), (), (2,), (2, 6)):
        document = await factory.awaiting_file()
        for status in statuses:
            query = "update extraction_queue set status_id = %s where id = %s"
            await factory.conn.execute(query, (status, document))

    found = await factory.call("system_metrics")

    lanes = {lane["lane"]: lane for lane in found["lanes"]}
    image, pdf = lanes["image"], lanes["pdf"]
    assert (image["queued"], image["later"], image["processing"], image["stuck"]) == (2, 1, 1, 1)
    assert (pdf["queued"], pdf["later"], pdf["processing"], pdf["stuck"]) == (0, 0, 1, 0)
    assert 3600 <= image["oldest_seconds"] < 3700
    assert {name for name, lane in lanes.items() if lane["paused"]} == {"check"}
    letters = {k: n for k, n in _counts(found["dead_letters"]).items() if n}
    assert letters == {"permanent": 2, "resource": 1}
    assert _counts(found["workers"]) == {"idle": 1, "reading": 1, "silent": 1}
    extractions = {"awaiting_file": 2, "extracting": 1, "extraction_failed": 1}
    assert _counts(found["extractions"]) == extractions
    assert found["open_tasks"] == 3


async def test_letters_that_are_decided_and_alerts_that_are_over_no_longer_count(
    database: databases.Database,
) -> None:
    """Only what waits for somebody is told."""
    factory = await factories.Factory.of(database)
    letter = await factory.dead_letter(category="permanent")
    await factory.call("resolve_dead_letter", p_dlq_id=letter.dlq_id, p_action="abandon")
    conn = await database.connect()
    await conn.execute(
        "insert into alerts (rule, severity, value, worst, threshold, broken_since, fired_at,"
        " resolved_at) select 'stuck-critical', 'critical', 11, 11, 10, now(), now(), r.at"
        " from (values (now()), (null)) as r (at)"
    )
    found = await factory.call("system_metrics")
    assert _counts(found["dead_letters"])["permanent"] == 0
    assert _counts(found["open_alerts"]) == {"critical": 1, "warning": 0}


@pytest.mark.fresh
async def test_no_table_is_read_from_end_to_end(database: databases.Database) -> None:
    """Whatever the planner believes, which knows nothing of these."""
    factory = await factories.Factory.of(database)
    loader = await database.connect("supabase_admin")
    await loader.execute("set session_replication_role = replica")
    for load in (QUEUED, COMPLETED):
        await loader.execute(load.encode(), {"case": await factory.case(), "count": MANY})
    conn = await plans.connect(database)
    async with plans.collected(conn) as found:
        (answer,) = await factories.call(conn, "system_metrics")
    assert {lane["queued"] for lane in answer["lanes"]} == {0, MANY}
    assert found
    for plan in found:
        large = {"documents", "queue", "later", "ocr_dead_letter", "tasks"}
        assert not plan.scanned() & large, plan.statement
        assert plan.read().get("documents", 0) < 10, plan.statement
