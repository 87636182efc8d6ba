"""Statements written for plain tables jobs, tasks, volumes run as printed on schema volumes."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.database import queries, volumes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support import databases

# With %(stage)s for $1 and so on, which psycopg does not know.
READY = """
    SELECT t.*, v.bdrc_w_id, v.bdrc_i_id, j.job_key
    FROM tasks t
    JOIN volumes v ON t.volume_id = v.id
    JOIN jobs j ON t.job_id = j.id
    WHERE t.current_stage = %(stage)s  -- prev_stage
      AND t.status = CASE WHEN %(stage)s = 'pending' THEN 'pending' ELSE 'done' END
      AND j.status = 'running';
"""
RETRIABLE = """
    SELECT t.*, v.bdrc_w_id, v.bdrc_i_id, j.job_key
    FROM tasks t
    JOIN volumes v ON t.volume_id = v.id
    JOIN jobs j ON t.job_id = j.id
    WHERE t.status = 'failed'
      AND t.attempts < t.max_attempts
      AND j.status = 'running';
"""
CONFIG = "SELECT config FROM jobs WHERE id = %(id)s;"
MARK_RUNNING = """
    UPDATE tasks
    SET status = 'running', started_at = NOW()
    WHERE id = %(id)s;
"""
MARK_COMPLETE = """
    UPDATE tasks
    SET status = 'done', done_at = NOW()
    WHERE id = %(id)s;
"""
MARK_REDUCED = """
    UPDATE tasks
    SET status = 'done', current_stage = 'done', done_at = NOW()
    WHERE id = %(id)s;
"""
MARK_FAILED = """
    UPDATE tasks
    SET status = 'failed', attempts = attempts + 1, last_error = %(error)s::jsonb
    WHERE id = %(id)s;
"""
COMPLETE_JOBS = """
    UPDATE jobs
    SET status = 'completed', finished_at = NOW()
    WHERE id IN (
        SELECT j.id FROM jobs j
        WHERE j.status = 'running'
        AND NOT EXISTS (
            SELECT 1 FROM tasks t
            WHERE t.job_id = j.id
            AND t.current_stage != 'done'
        )
    );
"""
FAIL_JOBS = """
    UPDATE jobs
    SET status = 'failed', finished_at = NOW()
    WHERE id IN (
        SELECT j.id FROM jobs j
        WHERE j.status = 'running'
        AND NOT EXISTS (
            SELECT 1 FROM tasks t
            WHERE t.job_id = j.id
            AND t.status NOT IN ('done', 'failed')
        )
        AND EXISTS (
            SELECT 1 FROM tasks t
            WHERE t.job_id = j.id
            AND t.status = 'failed'
            AND t.attempts >= t.max_attempts
        )
    );
"""
RESET = "update tasks set current_stage = %(stage)s, status = %(status)s where id = %(id)s"
ERROR = {"type": "Broken", "message": "no ink"}


@contextlib.asynccontextmanager
async def _service(database: databases.Database) -> AsyncIterator[psycopg.AsyncConnection]:
    async with database.acting_as("service_role") as conn:
        await conn.execute("set local search_path = volumes, public")
        yield conn


async def _changed(database: databases.Database, statement: str, **params: Any) -> int:
    """Run a statement in a transaction of its own; tell how many rows it changed."""
    async with _service(database) as conn:
        return (await conn.execute(statement.encode(), params)).rowcount


async def _found(database: databases.Database, query: str, **params: Any) -> list[dict[str, Any]]:
    async with _service(database) as conn:
        return await queries.rows(conn, query.encode(), params)


async def test_the_orchestrator_finds_what_is_ready(database: databases.Database) -> None:
    """Of each stage, and what may try again, with the columns that were asked for."""
    made = await volumes.Volumes.of(database)
    job = await made.order("W1-I1", p_config=Jsonb({"k_factor": 2.5}))
    (row,) = await _found(database, READY, stage="pending")
    assert (row["bdrc_w_id"], row["bdrc_i_id"], row["job_id"]) == ("W1", "I1", job)
    assert row["last_error"] is None
    await made.orchestrate()
    assert await _found(database, READY, stage="pending") == []
    await made.complete(await made.take("line_detection"))
    assert len(await _found(database, READY, stage="line_detection")) == 1
    await made.orchestrate()
    await made.fail(await made.take("line_extraction"))
    (row,) = await _found(database, RETRIABLE)
    assert (row["current_stage"], row["attempts"], row["max_attempts"]) == ("line_extraction", 1, 3)
    (row,) = await _found(database, CONFIG, id=job)
    assert row["config"] == {"k_factor": 2.5}


async def test_a_worker_of_plain_statements_takes_a_volume_to_its_end(
    database: databases.Database,
) -> None:
    """It has no tokens, so it counts while nobody has one; then the job is completed."""
    made = await volumes.Volumes.of(database)
    job = await made.order()
    for stage in volumes.STAGES[:-1]:
        await made.orchestrate()
        delivery = await made.receive(stage, 60)
        task = delivery["message"]["task_id"]
        assert await _changed(database, MARK_RUNNING, id=task) == 1
        assert await _changed(database, MARK_COMPLETE, id=task) == 1
    await made.orchestrate()
    assert await _changed(database, COMPLETE_JOBS) == 0
    result = {"job": job, "volume": delivery["message"]["volume_id"]}
    figures = """
        insert into volume_results (job_id, volume_id, total_images, total_lines)
        values (%(job)s, %(volume)s, 7, 70)
    """
    assert await _changed(database, figures, **result) == 1
    assert await _changed(database, MARK_REDUCED, id=task) == 1
    (row,) = await _found(database, "select * from volume_results where job_id = %(job)s", **result)
    assert (row["total_images"], row["total_lines"]) == (7, 70)
    assert row["processing_duration_ms"] is None
    assert await _changed(database, FAIL_JOBS) == 0
    assert await _changed(database, COMPLETE_JOBS) == 1
    assert await made.job(job) == "completed"
    # Messages it did not remove are known as stale, and nothing else is wrong.
    stale = await made.receive("reduce", 60)
    assert (await made.start(stale))["error"] == "STALE_MESSAGE"
    assert await queries.violations(made.factory.conn) == []


async def test_a_plain_update_counts_only_while_nobody_has_the_task(
    database: databases.Database,
) -> None:
    """A late worker changes nothing of what another one does."""
    made = await volumes.Volumes.of(database)
    await made.order()
    await made.orchestrate()
    held = await made.take("line_detection")
    for statement in (MARK_RUNNING, MARK_COMPLETE, MARK_FAILED):
        assert await _changed(database, statement, id=held.task_id, error=Jsonb(ERROR)) == 0
    assert (await made.complete(held))["success"]
    assert await _changed(database, MARK_FAILED, id=held.task_id, error=Jsonb(ERROR)) == 0
    assert await made.where() == {held.task_id: ("line_detection", "done")}


async def test_a_plain_failure_is_tried_again_until_the_attempts_are_used_up(
    database: databases.Database,
) -> None:
    """The error is kept; the job fails when nothing else is to be done."""
    made = await volumes.Volumes.of(database)
    job = await made.order(p_max_attempts=2)
    await made.orchestrate()
    task = (await made.task())["id"]
    assert await _changed(database, MARK_FAILED, id=task, error=Jsonb(ERROR)) == 1
    assert (await made.task())["last_error"]["message"] == "no ink"
    assert await _changed(database, FAIL_JOBS) == 0
    await made.factory.conn.execute("update volume_tasks set retry_at = now()")
    await made.orchestrate()
    assert await made.where() == {task: ("line_detection", "running")}
    assert await _changed(database, MARK_FAILED, id=task, error=Jsonb(ERROR)) == 1
    assert await _found(database, RETRIABLE) == []
    assert await _changed(database, FAIL_JOBS) == 1
    assert await made.job(job) == "failed"
    assert await queries.violations(made.factory.conn) == []


async def test_a_volume_that_is_given_more_attempts_goes_on(database: databases.Database) -> None:
    """Also when its job had failed already; with fewer it ends where it is."""
    made = await volumes.Volumes.of(database)
    job = await made.order(p_max_attempts=1)
    await made.orchestrate()
    await made.fail(await made.take("line_detection"))
    await made.orchestrate()
    assert await made.job(job) == "failed"
    task = (await made.task())["id"]
    listener = await database.connect()
    await listener.execute("listen pagewarden_volumes")
    more = "update tasks set max_attempts = %(most)s where id = %(id)s"
    assert await _changed(database, more, id=task, most=3) == 1
    heard = [note.payload async for note in listener.notifies(timeout=1, stop_after=1)]
    assert heard == ["orchestrator"]
    assert await made.job(job) == "running"
    assert await queries.violations(made.factory.conn) == []
    await made.orchestrate()
    await made.fail(await made.take("line_detection"), retry_after=60)
    assert await _changed(database, more, id=task, most=2) == 1
    assert await queries.violations(made.factory.conn) == []
    await made.orchestrate()
    assert await made.job(job) == "failed"


async def test_a_volume_of_a_cancelled_job_goes_on_only_with_its_job(
    database: databases.Database,
) -> None:
    """More attempts are kept for then."""
    made = await volumes.Volumes.of(database)
    job = await made.order("W1-I1", "W1-I2", p_max_attempts=1)
    await made.orchestrate()
    held = await made.take("line_detection")
    await made.fail(held)
    await made.call("cancel_volume_job", p_job_id=job)
    more = "update tasks set max_attempts = 2 where id = %(id)s"
    assert await _changed(database, more, id=held.task_id) == 1
    assert await made.job(job) == "cancelled"
    resume = "update jobs set status = 'running' where id = %(id)s"
    assert await _changed(database, resume, id=job) == 1
    assert (await made.orchestrate())["published"] == 2


async def test_a_job_does_not_fail_while_a_volume_is_between_two_stages(
    database: databases.Database,
) -> None:
    """The statement takes "done" for the end; such a job would never be finished."""
    made = await volumes.Volumes.of(database)
    job = await made.order("W1-I1", "W1-I2", p_max_attempts=1)
    await made.orchestrate()
    await made.complete(await made.take("line_detection"))
    await made.fail(await made.take("line_detection"))
    assert {*(await made.where()).values()} == {
        ("line_detection", "done"),
        ("line_detection", "failed"),
    }
    assert await _changed(database, FAIL_JOBS) == 0
    assert await made.job(job) == "running"


async def test_a_stage_is_done_again_after_a_reset_by_hand(database: databases.Database) -> None:
    """As written: current_stage back to the one before, status done; the job runs again."""
    made = await volumes.Volumes.of(database)
    job = await made.order()
    await made.advance("reduce")
    assert await made.job(job) == "completed"
    task = (await made.task())["id"]
    reset = {"id": task, "stage": "line_extraction", "status": "done"}
    assert await _changed(database, RESET, **reset) == 1
    assert await made.job(job) == "running"
    await made.orchestrate()
    delivery = await made.receive("ocr", 60)
    assert (await made.start(delivery))["is_forced"]
    assert await made.receive("line_detection") is None
    assert await queries.violations(made.factory.conn) == []


@pytest.mark.parametrize(
    ("stage", "status"),
    [
        ("ocr", "running"),
        ("done", "done"),
        ("ocr", "done"),
        ("nope", "done"),
        ("pending", "running"),
    ],
)
async def test_a_task_does_not_jump_by_hand(
    database: databases.Database, stage: str, status: str
) -> None:
    """Only the orchestrator moves tasks on."""
    made = await volumes.Volumes.of(database)
    await made.order()
    await made.orchestrate()
    task = (await made.task())["id"]
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="cannot change from"):
        await _changed(database, RESET, id=task, stage=stage, status=status)


async def test_of_many_who_finish_a_task_at_once_one_does(database: databases.Database) -> None:
    """Whoever waited for another sees that the task has moved on."""
    made = await volumes.Volumes.of(database)
    await made.order()
    await made.orchestrate()
    task = (await made.task())["id"]
    update = MARK_FAILED.replace("WHERE id", "WHERE status = 'running' AND id")
    tries = [_changed(database, update, id=task, error=Jsonb(ERROR)) for _ in range(12)]
    assert sorted(await asyncio.gather(*tries)) == [0] * 11 + [1]
    assert (await made.task())["attempts"] == 1


async def test_jobs_are_cancelled_resumed_and_changed_by_plain_updates(
    database: databases.Database,
) -> None:
    """Through the same ways as by function; a config that makes no sense is refused."""
    made = await volumes.Volumes.of(database)
    job = await made.order()
    await made.orchestrate()
    held = await made.take("line_detection")
    update = "update jobs set status = %(status)s where id = %(id)s"
    assert await _changed(database, update, id=job, status="cancelled") == 1
    assert (await made.complete(held))["error"] == "LOCK_LOST"
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="from cancelled to completed"):
        await _changed(database, update, id=job, status="completed")
    assert await _changed(database, update, id=job, status="running") == 1
    config = "update jobs set config = %(config)s where id = %(id)s"
    assert await _changed(database, config, id=job, config=Jsonb({"use_tps": True})) == 1
    with pytest.raises(psycopg.errors.InvalidParameterValue, match='unknown key "tps"'):
        await _changed(database, config, id=job, config=Jsonb({"tps": True}))
    assert await queries.violations(made.factory.conn) == []
