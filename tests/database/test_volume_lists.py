"""What people see of volumes: jobs, boards, volumes, history; and what it costs to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.database import factories, plans, queries, volumes

if TYPE_CHECKING:
    from tests.support import databases

# Past the functions: sixty thousand orders would take a while.
MANY = """
    insert into volumes (bdrc_w_id, bdrc_i_id)
    select 'W9', 'I' || n from generate_series(1, 20000) as n;
    insert into volume_jobs (job_key) values ('many');
    insert into volume_tasks (
      job_id, volume_id, current_stage, status, published_to, attempts, token, locked_by,
      locked_at, lock_expires_at, deadline
    )
    select j.id, v.id,
      case v.id % 10 when 1 then 'ocr' when 2 then 'line_detection' when 3 then 'pending'
        else 'done' end,
      case v.id % 10 when 1 then 'failed' when 2 then 'running' when 3 then 'pending'
        else 'done' end,
      'pgmq', case v.id % 10 when 1 then 3 else 0 end,
      case when v.id % 2000 = 2 then gen_random_uuid() end,
      case when v.id % 2000 = 2 then 'w' end, case when v.id % 2000 = 2 then now() end,
      case when v.id % 2000 = 2 then now() + interval '1 hour' end,
      case when v.id % 2000 = 2 then now() + interval '1 hour' end
    from volumes as v, volume_jobs as j
    where v.bdrc_w_id = 'W9' and j.job_key = 'many'
"""


@pytest.fixture
async def made(database: databases.Database) -> volumes.Volumes:
    """Begin without any volumes."""
    return await volumes.Volumes.of(database)


async def _list(made: volumes.Volumes, function: str, **params: Any) -> list[dict[str, Any]]:
    return await factories.call(made.factory.conn, function, **params)


async def test_jobs_are_listed_newest_first_with_how_far_they_are(made: volumes.Volumes) -> None:
    """Page by page; by status, too."""
    first = await made.order("W1-I1", p_max_attempts=1)
    await made.advance("reduce")
    second = await made.order("W1-I1", "W1-I2", p_max_attempts=1)
    await made.orchestrate()
    await made.fail(await made.take("line_detection"))
    await made.take("line_detection")
    rows = await _list(made, "list_volume_jobs")
    shown = [
        tuple(row[key] for key in ("job_id", "status", "volumes", "done", "failed", "in_hand"))
        for row in rows
    ]
    assert shown == [(second, "running", 2, 0, 1, 1), (first, "completed", 1, 1, 0, 0)]
    (page,) = await _list(made, "list_volume_jobs", p_limit=1)
    after = {"p_before": page["created_at"], "p_before_id": page["job_id"]}
    assert [row["job_id"] for row in await _list(made, "list_volume_jobs", **after)] == [first]
    assert len(await _list(made, "list_volume_jobs", p_status="completed")) == 1


async def test_a_board_shows_stages_what_is_in_hand_and_what_they_take(
    made: volumes.Volumes,
) -> None:
    """Counts per stage and status; pages and seconds of turns that ended well."""
    job = await made.order("W1-I1", "W1-I2", "W1-I3")
    await made.orchestrate()
    await made.complete(await made.take("line_detection"), p_failed_pages=1)
    held = await made.take("line_detection", "worker-7")
    await made.call("extend_volume_lock", **held.key, p_pages_done=3, p_pages_total=9)
    board = await made.call("volume_board", p_job_id=job)
    assert board["stages"] == [
        {"stage": "line_detection", "status": "done", "volumes": 1},
        {"stage": "line_detection", "status": "running", "volumes": 2},
    ]
    (shown,) = board["in_hand"]
    assert (shown["task_id"], shown["worker"]) == (held.task_id, "worker-7")
    assert (shown["pages_done"], shown["pages_total"]) == (3, 9)
    timing = board["timing"]["line_detection"]
    assert (timing["volumes"], timing["pages"], timing["failed_pages"]) == (1, 2, 1)
    assert timing["seconds"] > 0
    assert board["orchestrator"]["by"] == "unknown"


async def test_volumes_are_listed_failed_ones_first_with_their_timing(
    made: volumes.Volumes,
) -> None:
    """Page by page, each with what its stages took, and what came out."""
    job = await made.order(*(f"W1-I{n}" for n in range(4)), p_max_attempts=1)
    await made.advance("reduce")
    await made.take("line_detection")
    await made.fail(await made.take("line_detection"))
    everything = await _list(made, "list_volume_tasks", p_job_id=job)
    statuses = [(row["stage"], row["status"]) for row in everything]
    assert statuses == [
        ("line_detection", "failed"),
        ("line_detection", "running"),
        ("line_detection", "running"),
        ("done", "done"),
    ]
    assert everything[0]["last_error"]["message"] == volumes.BROKEN["message"]
    assert set(everything[-1]["seconds"]) == set(volumes.STAGES)
    assert everything[-1]["result"]["total_lines"] == 20
    paged: list[dict[str, Any]] = []
    while len(paged) < 4:
        last = paged[-1] if paged else {"rank": None, "task_id": None}
        after = {"p_after_rank": last["rank"], "p_after_id": last["task_id"]}
        paged += await _list(made, "list_volume_tasks", p_job_id=job, p_limit=1, **after)
    assert paged == everything
    by_id = [
        (await _list(made, "list_volume_tasks", p_job_id=job, p_by_id=True, p_limit=1, **after))[0]
        for after in ({}, *({"p_after_id": task} for task in sorted(await made.where())[:3]))
    ]
    assert by_id == sorted(everything, key=lambda row: row["task_id"])
    by_stage = await _list(made, "list_volume_tasks", p_job_id=job, p_stage="done")
    assert [row["task_id"] for row in by_stage] == [everything[-1]["task_id"]]


async def test_the_history_of_a_volume_is_every_turn_at_it(made: volumes.Volumes) -> None:
    """Newest first, with worker, outcome and error."""
    await made.order()
    await made.orchestrate()
    held = await made.take("line_detection", "first")
    await made.fail(held)
    await made.orchestrate()
    await made.complete(await made.take("line_detection", "second"))
    history = await _list(made, "volume_history", p_task_id=held.task_id)
    assert [(run["worker_id"], run["outcome"]) for run in history] == [
        ("second", "done"),
        ("first", "failed"),
    ]
    assert history[1]["error"]["message"] == volumes.BROKEN["message"]


# What it costs --------------------------------------------------------------------------------


async def _reads(conn: psycopg.AsyncConnection, query: str) -> dict[str, int]:
    """Count rows of tables that a call reads, whatever it does inside."""
    read: dict[str, int] = {}
    for _ in range(7):  # after five runs Postgres settles for one plan
        async with plans.collected(conn) as found:
            await queries.rows(conn, query.encode())
        read = {}
        for plan in found:
            for table, rows in plan.read().items():
                read[table] = read.get(table, 0) + rows
    return read


@pytest.mark.fresh
async def test_with_many_volumes_the_hot_calls_read_a_few(database: databases.Database) -> None:
    """Looking over all, starting, heartbeats and a page of the list; others count by index."""
    owner = await database.connect("supabase_admin", claims={"role": "service_role"})
    await owner.execute(MANY)
    conn = await plans.connect(database)
    for analyzed in (False, True):
        if analyzed:
            await owner.execute("analyze volume_tasks")
        looked = await _reads(conn, "select public.orchestrate_volumes('pgmq', 1, 'test')")
        # 200 that wait for the stage, a handful in hand, and what is published.
        assert looked["volume_tasks"] < 1000, looked
        read = await _reads(conn, "select private.sweep_volumes(now())")
        assert read["volume_tasks"] <= 20, read
        beat = "select public.extend_volume_lock(id, token) from volume_tasks where id = 2"
        assert (await _reads(conn, beat))["volume_tasks"] <= 2
        (job,) = await queries.rows(owner, "select id from volume_jobs where job_key = 'many'")
        for order in ("", ", p_by_id => true, p_after_id => 5000"):
            page = f"select * from public.list_volume_tasks({job['id']}, p_limit => 20{order})"
            assert (await _reads(conn, page))["volume_tasks"] <= 100


SOURCE = "jobs/{key}/volumes/{{w_id}}-{{i_id}}/ocr/ocr_results.parquet"


@pytest.mark.parametrize(
    "source", [SOURCE.format(key="theirs"), SOURCE.format(key="nobodys"), "elsewhere/a.parquet"]
)
async def test_nobody_gets_at_texts_of_others_by_combining(
    made: volumes.Volumes, source: str
) -> None:
    """Neither when a job is ordered, nor when it is done again; HAC may combine everything."""
    owner, other = await made.factory.user(), await made.factory.user()
    admin = await made.factory.user(admin=True)
    await made.order("W1-I1", owner=other, p_job_key="theirs")
    mine = await made.order("W1-I1", owner=owner, p_job_key="mine")

    def combining(key: str) -> Jsonb:
        return Jsonb({"reducer": "combine", "sources": [SOURCE.format(key="mine"), key]})

    with pytest.raises(
        psycopg.errors.InsufficientPrivilege, match="does not belong to one of your jobs"
    ):
        await made.order("W1-I1", owner=owner, p_config=combining(source))
    async with made.factory.database.acting_as(owner) as conn:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await factories.call(conn, "rerun_volumes", p_job_id=mine, p_config=combining(source))
    await made.order("W1-I1", owner=owner, p_config=combining(SOURCE.format(key="mine")))
    await made.order("W1-I1", owner=admin, p_config=combining(source))
    await made.order("W1-I1", p_config=combining(source))
