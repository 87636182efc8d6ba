"""How the system is run: workers, lanes, functions."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import errors
from psycopg.types.json import Jsonb

from tests.database import factories, people, queries, stand_ins

if TYPE_CHECKING:
    from tests.support import databases


async def _workers(factory: factories.Factory) -> dict[str, dict[str, Any]]:
    rows = await factories.call(factory.conn, "list_workers")
    return {row["worker_id"]: row for row in rows}


async def test_workers_are_seen_while_they_read_wait_and_shortly_after(
    database: databases.Database,
) -> None:
    """Reading, idle, silent or ended, with what is in their hands."""
    factory = await factories.Factory.of(database)
    claim = await factory.claimed(worker="reader")
    await factory.claimed(worker="lost")
    await factory.completed()  # by worker-1
    await factory.report_workers("idle", "dead", "leaver", "reader")
    await factory.report_workers("idle", "dead", "reader")
    conn = await database.connect()
    await conn.execute(
        "update private.workers set seen_at = now() - interval '2 minutes' where worker_id = 'dead'"
    )
    await conn.execute(
        "update documents set lock_expires_at = now() - interval '1 s' where locked_by = 'lost'"
    )

    found = await _workers(factory)

    assert {name: row["state"] for name, row in found.items()} == {
        "reader": "reading", "idle": "idle", "dead": "silent", "lost": "silent",
        "worker-1": "ended",
    }  # fmt: skip
    assert [row["document_id"] for row in found["reader"]["documents"]] == [str(claim.document_id)]
    assert (found["reader"]["in_hand"], found["reader"]["lanes"]) == (1, ["image", "pdf"])
    assert (found["worker-1"]["completed"], found["idle"]["completed"]) == (1, 0)


async def test_who_was_not_heard_of_for_an_hour_is_forgotten(database: databases.Database) -> None:
    """The table of workers stays as small as they are few."""
    factory = await factories.Factory.of(database)
    await factory.report_workers("old", process="a")
    conn = await database.connect()
    await conn.execute("update private.workers set seen_at = now() - interval '61 minutes'")
    await factory.report_workers("new", process="b")
    assert list(await _workers(factory)) == ["new"]


async def test_lanes_tell_what_they_hold_and_why_they_stand(database: databases.Database) -> None:
    """What waits, what is in hand, what waits for its next attempt; who paused it and why."""
    factory = await factories.Factory.of(database)
    admin = await factory.user(admin=True)
    claim = await factory.claimed()
    await factory.queued()
    failed = await factory.claimed()
    key = {"p_document_id": failed.document_id, "p_lock_token": failed.lock_token}
    await factory.call("fail_document", **key, p_error_message="broken")
    await people.call(database, admin, "pause_lane", p_lane="image", p_reason="maintenance")

    lanes = {row["lane"]: row for row in await people.call(database, admin, "list_lanes")}

    image = lanes["image"]
    assert (image["queued"], image["later"], image["processing"]) == (1, 1, 1), claim
    assert (image["pause_reason"], image["pause_kind"], image["paused_by"]) == (
        "maintenance", "manual", f"{admin}@example.org",
    )  # fmt: skip
    assert (lanes["pdf"]["queued"], lanes["pdf"]["paused_at"]) == (0, None)


async def test_the_last_runs_of_a_function_are_kept(database: databases.Database) -> None:
    """How each ended, newest first; fifty of each function, and the others are not touched."""
    factory = await factories.Factory.of(database)
    admin = await factory.user(admin=True)
    await factory.call("begin_function_run", p_function_name="webhooks")
    for n in range(60):
        run = await factory.call("begin_function_run", p_function_name="retention")
        said = {
            "p_outcome": "failed" if n == 59 else "completed",
            "p_error": "x" * 2000,
            "p_result": Jsonb({"n": n}),
        }
        assert await factory.call("end_function_run", p_run_id=run, **said)
        assert not await factory.call("end_function_run", p_run_id=run, **said)

    found = {
        row["function_name"]: row for row in await people.call(database, admin, "list_functions")
    }

    runs = found["retention"]["runs"]
    assert [run["result"]["n"] for run in runs] == list(range(59, 49, -1))
    assert (runs[0]["outcome"], len(runs[0]["error"])) == ("failed", 1000)
    assert runs[0]["seconds"] >= 0
    assert [run["outcome"] for run in found["webhooks"]["runs"]] == [None]
    count = await queries.one(factory.conn, "select count(*) from private.function_runs")
    assert count["count"] == 51


async def test_runs_in_progress_and_failed_ones_are_kept_for_a_day(
    database: databases.Database,
) -> None:
    """However many others start meanwhile: a long run can end, and the alert counts failures."""
    factory = await factories.Factory.of(database)
    begin = "select public.begin_function_run('retention') from generate_series(1, %s)"
    long = await factory.call("begin_function_run", p_function_name="retention")
    failed = await factory.call("begin_function_run", p_function_name="retention")
    assert await factory.call("end_function_run", p_run_id=failed, p_outcome="failed")
    await factory.conn.execute(begin.encode(), (60,))
    assert await factory.call("end_function_run", p_run_id=long, p_outcome="failed")
    count = "select count(*) from private.function_runs where outcome {}"
    assert (await queries.one(factory.conn, count.format("= 'failed'")))["count"] == 2
    assert (await queries.one(factory.conn, count.format("is null")))["count"] == 60

    await factory.conn.execute(
        "update private.function_runs set started_at = now() - interval '25 hours'"
    )
    await factory.conn.execute(begin.encode(), (1,))
    rows = await queries.rows(factory.conn, "select outcome from private.function_runs")
    assert [row["outcome"] for row in rows] == [None] * 50


async def test_a_function_is_switched_and_scheduled_and_it_is_written_down(
    database: databases.Database,
) -> None:
    """What is not named stays; pg_cron follows; the log says who changed what."""
    factory = await factories.Factory.of(database)
    admin, stranger = await factory.user(admin=True), await factory.user()
    conn = await database.connect()
    await stand_ins.install_pg_cron(database)
    call = {"p_function_name": "retention"}

    (set_,) = await people.call(
        database, admin, "set_function", **call, p_schedule=" 5,35  1-6/2 * * 0 "
    )
    assert set_["schedule"] == "5,35 1-6/2 * * 0"
    jobs = await stand_ins.jobs(conn)
    assert jobs["pagewarden-retention"][0] == "5,35 1-6/2 * * 0"
    (off,) = await people.call(database, admin, "set_function", **call, p_enabled=False)
    assert (off["enabled"], off["schedule"]) == (False, "5,35 1-6/2 * * 0")
    assert "pagewarden-retention" not in await stand_ins.jobs(conn)
    (none,) = await people.call(database, admin, "set_function", **call, p_schedule="")
    assert none["schedule"] is None
    await people.call(database, admin, "set_function", **call)
    with pytest.raises(errors.InsufficientPrivilege):
        await people.call(database, stranger, "set_function", **call, p_enabled=True)

    lines = await queries.rows(
        factory.conn,
        "select field_changed, new_value, user_id from hac_acts"
        " where action_type = 'function_changed' order by created_at",
    )
    assert [(line["field_changed"], line["new_value"]) for line in lines] == [
        ("schedule", "5,35 1-6/2 * * 0"),
        ("enabled", "false"),
        ("schedule", None),
    ]
    assert {line["user_id"] for line in lines} == {admin}


async def test_pauses_between_attempts_grow(database: databases.Database) -> None:
    """Twice as long after each failure, a fifth more or less."""
    factory = await factories.Factory.of(database)
    conn = factory.conn
    await conn.execute("update lanes set backoff_seconds = 100 where lane = 'image'")
    claim, seconds = await factory.claimed(), []
    for _ in range(2):
        key = {"p_document_id": claim.document_id, "p_lock_token": claim.lock_token}
        await factory.call("fail_document", **key, p_error_message="broken")
        row = await queries.one(
            conn,
            "select extract(epoch from retry_at - now()) as seconds from documents where id = %s",
            (claim.document_id,),
        )
        seconds.append(float(row["seconds"]))
        await conn.execute(
            "update documents set retry_at = now() where id = %s", (claim.document_id,)
        )
        answer = await factory.call(
            "acquire_document_lock", p_document_id=claim.document_id, p_worker_id="worker-1"
        )
        claim = factories.Claim(claim.document_id, uuid.UUID(answer["lock_token"]))
    assert seconds == [pytest.approx(100, rel=0.21), pytest.approx(200, rel=0.21)]
