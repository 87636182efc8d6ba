"""Volumes from stage to stage: tokens, counts, retries, messages, and the end of jobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from pagewarden.volumes import config, stages
from tests.database import factories, queries, stand_ins, volumes
from tests.support import crowd

if TYPE_CHECKING:
    import psycopg

    from tests.support import databases

MESSAGE = {"task_id", "job_id", "volume_id", "bdrc_w_id", "bdrc_i_id", "attempt", "job_key"}


@pytest.fixture
async def made(database: databases.Database) -> volumes.Volumes:
    """Begin without any volumes."""
    return await volumes.Volumes.of(database)


# While a server is young, everybody has one lock period to be heard again; so they are short.
SHORT: dict[str, Any] = {"p_lock_seconds": 1}


async def _expire(made: volumes.Volumes) -> None:
    """Let workers have been silent for a minute."""
    await made.factory.conn.execute(
        "update volume_tasks set locked_at = locked_at - interval '1 minute', "
        "lock_expires_at = lock_expires_at - interval '1 minute'"
    )


async def _let_an_hour_pass(made: volumes.Volumes) -> None:
    """Let messages have been published, and looked for, an hour ago."""
    await made.factory.conn.execute(
        "update private.volume_orchestrator_state set reconciled_at = now() - interval '1 hour'"
    )
    await made.factory.conn.execute(
        "update volume_tasks set published_at = now() - interval '1 hour'"
    )


async def _outcomes(made: volumes.Volumes) -> list[tuple[str, str]]:
    rows = await queries.rows(
        made.factory.conn, "select stage, outcome from volume_runs order by id"
    )
    return [(row["stage"], row["outcome"]) for row in rows]


# Stages and config ----------------------------------------------------------------------------


async def test_stages_and_config_are_those_of_the_code(made: volumes.Volumes) -> None:
    """The database knows the stages, the keys of a config and their types as Python does."""
    row = await queries.one(
        made.factory.conn,
        "select private.volume_stages() as stages, private.volume_config_types() as types",
    )
    assert row["stages"] == ["pending", *stages.STAGES, "done"]
    properties = config.VolumeConfig.model_json_schema()["properties"]
    assert row["types"] == {key: _json_type(schema) for key, schema in properties.items()}


def _json_type(schema: dict[str, Any]) -> str:
    found = {part["type"] for part in schema.get("anyOf", [schema])} - {"null"}
    (name,) = {"number" if name == "integer" else name for name in found}
    return name


async def test_the_defaults_of_a_config_are_one(made: volumes.Volumes) -> None:
    """What Python would send with all keys is accepted."""
    await made.order(p_config=Jsonb(config.VolumeConfig().model_dump(mode="json")))


# Ordering -------------------------------------------------------------------------------------


async def test_a_volume_that_is_named_twice_is_read_once(made: volumes.Volumes) -> None:
    """Within a job; another job reads it anew, as the same volume."""
    await made.order("W1-I1", "W1-I1", "W1-I2")
    await made.order("W1-I1")
    counts = "select count(*) as tasks, count(distinct volume_id) as volumes from volume_tasks"
    assert await queries.one(made.factory.conn, counts) == {"tasks": 3, "volumes": 2}


async def test_a_key_belongs_to_one_job(made: volumes.Volumes) -> None:
    """Artifacts of two jobs never meet; the second is told, and nothing is ordered."""
    await made.order(p_job_key="tengyur")
    again = {"p_volumes": Jsonb([{"bdrc_w_id": "W9", "bdrc_i_id": "I9"}]), "p_job_key": "tengyur"}
    answer = await made.call("create_volume_job", **again)
    assert answer["error"] == "JOB_KEY_TAKEN"
    assert len(await made.where()) == 1


async def test_messages_have_exactly_the_agreed_fields(made: volumes.Volumes) -> None:
    """Numbers are numbers; the attempt counts messages of the task."""
    job = await made.order("W22084-I0886", p_job_key="key")
    await made.orchestrate()
    message = (await made.receive("line_detection"))["message"]
    task = await made.task()
    assert message == {
        "task_id": task["id"],
        "job_id": job,
        "volume_id": task["volume_id"],
        "bdrc_w_id": "W22084",
        "bdrc_i_id": "I0886",
        "attempt": 1,
        "job_key": "key",
    }
    assert set(message) == MESSAGE


# The way of a volume --------------------------------------------------------------------------


async def test_a_volume_goes_from_stage_to_stage(made: volumes.Volumes) -> None:
    """One message at a time, and the figures of the last stage become the result."""
    job = await made.order()
    task = (await made.task())["id"]
    for stage in volumes.STAGES:
        await made.orchestrate()
        await made.orchestrate()  # has nothing to add
        assert await made.where() == {task: (stage, "running")}
        await made.complete(await made.take(stage))
        assert await made.receive(stage) is None
    assert await made.where() == {task: ("done", "done")}
    await made.orchestrate()
    assert await made.job(job) == "completed"
    result = await queries.one(made.factory.conn, "select * from volume_results")
    assert {key: result[key] for key in volumes.METRICS} == volumes.METRICS
    assert result["processing_duration_ms"] > 0
    assert await queries.violations(made.factory.conn) == []


async def test_a_failure_is_tried_again_and_the_last_one_stays(made: volumes.Volumes) -> None:
    """Attempts are counted in all stages together; then the job fails, and the error is kept."""
    job = await made.order(p_max_attempts=2)
    await made.orchestrate()
    assert not (await made.fail(await made.take("line_detection")))["is_final"]
    await made.orchestrate()
    await made.complete(await made.take("line_detection"))
    await made.orchestrate()
    assert (await made.fail(await made.take("line_extraction")))["is_final"]
    await made.orchestrate()
    task = await made.task()
    assert (task["current_stage"], task["status"], task["attempts"]) == (
        "line_extraction",
        "failed",
        2,
    )
    error = {key: task["last_error"][key] for key in ("type", "message", "category", "stage")}
    assert error == volumes.BROKEN | {"category": "transient", "stage": "line_extraction"}
    assert await made.job(job) == "failed"


async def test_a_failure_waits_before_it_is_tried_again(made: volumes.Volumes) -> None:
    """The orchestrator says when that is, so that it looks in time."""
    await made.order()
    await made.orchestrate()
    await made.fail(await made.take("line_detection"), retry_after=40)
    seen = await made.orchestrate()
    assert seen["published"] == 0
    assert 30 < seen["retry_in"] <= 40


async def test_what_cannot_succeed_is_not_tried_again(made: volumes.Volumes) -> None:
    """A permanent error is the last one; the rest of the job goes on."""
    job = await made.order("W1-I1", "W1-I2")
    await made.orchestrate()
    assert (await made.fail(await made.take("line_detection"), "permanent"))["is_final"]
    await made.orchestrate()
    assert sorted((await made.where()).values()) == [
        ("line_detection", "failed"),
        ("line_detection", "running"),
    ]
    assert await made.job(job) == "running"


async def test_giving_back_counts_nothing(made: volumes.Volumes) -> None:
    """The same message starts the stage again."""
    await made.order(p_max_attempts=1)
    await made.orchestrate()
    answer = await made.start(await made.receive("line_detection"))
    key = {"p_task_id": answer["task_id"], "p_token": answer["token"]}
    await made.call("release_volume_stage", **key, p_reason="because")
    task = await made.task()
    assert (task["status"], task["attempts"], task["rescues"]) == ("running", 0, 0)
    await made.complete(await made.take("line_detection"))
    assert [outcome for _, outcome in await _outcomes(made)] == ["given_back", "done"]


# Outages --------------------------------------------------------------------------------------


async def _meet_outage(made: volumes.Volumes, volume: str, worker: str = "worker-1") -> Any:
    """Have a worker that gets this volume find that what its stage needs is away."""
    task = await queries.one(
        made.factory.conn,
        "select t.id, t.publications from volume_tasks as t "
        "join volumes as v on v.id = t.volume_id where v.bdrc_i_id = %s",
        (volume,),
    )
    message = {"task_id": task["id"], "attempt": task["publications"]}
    answer = await made.start({"stage": "line_detection", "message": message}, worker)
    key = {"p_task_id": answer["task_id"], "p_token": answer["token"]}
    given_back = await made.call("release_volume_stage", **key, p_reason="no key", p_outage=True)
    await made.factory.conn.execute(
        "delete from pgmq.q_ocr_line_detection where message @> %s", (Jsonb(message),)
    )
    return given_back


DELAYS = """
    select extract(epoch from vt - enqueued_at)::integer as seconds
    from pgmq.q_ocr_line_detection order by msg_id desc limit 1
"""


async def test_an_outage_counts_nothing_and_pauses_grow(made: volumes.Volumes) -> None:
    """A message of its own comes each time, behind all others; none of before counts any more."""
    await made.order(p_max_attempts=1)
    await made.orchestrate()
    first = await made.receive("line_detection")
    seconds = []
    for _ in range(6):
        await _meet_outage(made, "I1")
        seconds.append((await queries.one(made.factory.conn, DELAYS))["seconds"])
    assert seconds == [30, 60, 120, 240, 300, 300]
    assert (await made.start(first))["error"] == "STALE_MESSAGE"
    task = await made.task()
    assert (task["status"], task["attempts"], task["rescues"]) == ("running", 0, 0)
    assert task["last_error"]["type"] == "Outage"
    assert [outcome for _, outcome in await _outcomes(made)] == ["outage"] * 6
    assert await queries.violations(made.factory.conn) == []


async def test_a_message_for_another_queue_waits_for_the_end_of_its_pause(
    made: volumes.Volumes,
) -> None:
    """In the outbox, as FIFO queues delay no single message."""
    await made.order()
    await made.orchestrate(p_queue="sqs")
    (row,) = await factories.call(made.factory.conn, "claim_volume_outbox")
    sent = [{"task_id": row["message"]["task_id"], "attempt": 1}]
    await made.call("settle_volume_outbox", p_messages=Jsonb(sent))
    await _meet_outage(made, "I1")
    assert await factories.call(made.factory.conn, "claim_volume_outbox") == []
    later = "select * from public.claim_volume_outbox(1, 30, now() + interval '31 seconds')"
    row = await queries.one(made.factory.conn, later)
    assert row["message"]["attempt"] == 2
    assert await queries.violations(made.factory.conn) == []


async def test_an_outage_that_others_do_not_meet_is_a_failure_of_the_volume(
    made: volumes.Volumes,
) -> None:
    """The fifth time in a row, if its worker has done others of the job since the first."""
    await made.order("W1-I1", "W1-I2", p_max_attempts=2)
    await made.orchestrate()
    await _meet_outage(made, "I1")
    await made.complete(await made.take("line_detection"))
    counted = [(await _meet_outage(made, "I1"))["is_counted"] for _ in range(4)]
    assert counted == [False, False, False, True]
    (task,) = [
        row
        for row in await queries.rows(made.factory.conn, "select * from volume_tasks")
        if row["status"] == "failed"
    ]
    assert (task["attempts"], task["last_error"]["type"]) == (1, "OnlyThisVolume")
    assert "other volumes of the job are not affected: no key" in task["last_error"]["message"]
    assert task["retry_at"] is not None


async def test_what_other_workers_have_done_makes_no_failure_of_an_outage(
    made: volumes.Volumes,
) -> None:
    """The one that meets it may be set up wrongly."""
    await made.order("W1-I1", "W1-I2")
    await made.orchestrate()
    await _meet_outage(made, "I1")
    await made.complete(await made.take("line_detection", "somebody-else"))
    counted = [(await _meet_outage(made, "I1"))["is_counted"] for _ in range(8)]
    assert counted == [False] * 8


# Fencing --------------------------------------------------------------------------------------


async def test_whoever_lost_the_task_changes_nothing(made: volumes.Volumes) -> None:
    """Heartbeat, completion, failure and giving back of a former owner all answer LOCK_LOST."""
    await made.order()
    await made.orchestrate()
    late = await made.take("line_detection", "late", **SHORT)
    await _expire(made)
    delivery = {"stage": "line_detection", "message": {"task_id": late.task_id, "attempt": 1}}
    owner = await made.start(delivery, "owner")
    assert owner["success"]
    before = await made.task()
    answers = [
        await made.call("extend_volume_lock", **late.key),
        await made.complete(late),
        await made.fail(late),
        await made.call("release_volume_stage", **late.key),
    ]
    assert {answer["error"] for answer in answers} == {"LOCK_LOST"}
    assert await made.task() == before
    assert (before["locked_by"], before["rescues"]) == ("owner", 1)


async def test_a_late_worker_that_nobody_replaced_may_still_finish(made: volumes.Volumes) -> None:
    """Its lock has expired, but the work is good."""
    await made.order()
    await made.orchestrate()
    held = await made.take("line_detection")
    await _expire(made)
    assert (await made.complete(held))["success"]


async def test_messages_that_come_twice_late_or_out_of_order_have_no_effect(
    made: volumes.Volumes,
) -> None:
    """Of another stage, of an earlier attempt, of a task in hand, or after the end."""
    await made.order()
    await made.orchestrate()
    first = await made.receive("line_detection", 60)
    held = await made.start(first)
    assert (await made.start(first, "other"))["error"] == "STAGE_HELD"
    wrong = first | {"stage": "ocr"}
    assert (await made.start(wrong))["error"] == "STALE_MESSAGE"
    key = {"p_task_id": held["task_id"], "p_token": held["token"]}
    await made.call("fail_volume_stage", **key, p_error=Jsonb(volumes.BROKEN), p_retry_after=0)
    assert (await made.start(first))["error"] == "STALE_MESSAGE"
    await made.orchestrate()
    assert (await made.start(first))["error"] == "STALE_MESSAGE"
    assert (await made.task())["publications"] == 2


async def test_a_task_that_kills_its_workers_stops_by_itself(made: volumes.Volumes) -> None:
    """After a few deaths over one stage it fails for good, filed under resource."""
    await made.order()
    await made.orchestrate()
    for _ in range(6):
        await made.start(await made.receive("line_detection"), **SHORT)
        await _expire(made)
        await made.orchestrate()
    task = await made.task()
    assert (task["status"], task["last_error"]["category"]) == ("failed", "resource")
    assert "6 workers died" in task["last_error"]["message"]
    assert [outcome for _, outcome in await _outcomes(made)] == ["lost"] * 6


async def test_a_stage_that_takes_too_long_is_taken_from_its_living_worker(
    made: volumes.Volumes,
) -> None:
    """Heartbeats do not help any more, and it counts as a failure."""
    await made.order()
    await made.orchestrate()
    held = await made.take("line_detection")
    await made.factory.conn.execute("update volume_tasks set deadline = now() - interval '1 s'")
    assert (await made.call("extend_volume_lock", **held.key))["error"] == "LOCK_LOST"
    await made.orchestrate()
    task = await made.task()
    assert (task["status"], task["attempts"], task["last_error"]["type"]) == (
        "failed",
        1,
        "StageTimedOut",
    )
    assert await _outcomes(made) == [("line_detection", "deadline")]


async def test_after_the_database_was_away_everybody_may_be_heard_again(
    made: volumes.Volumes,
) -> None:
    """A lock that ran out meanwhile counts for one more period from when that was noticed."""
    await made.order()
    await made.orchestrate()
    held = await made.take("line_detection", **SHORT)
    await _expire(made)
    await made.factory.conn.execute(
        "update private.sweep_state set server_since = server_since - interval '1 day'"
    )
    assert await made.receive("line_detection") is None
    assert (await made.orchestrate())["rescued"] == 0
    assert (await made.orchestrate())["rescued"] == 0
    assert (await made.call("extend_volume_lock", **held.key))["success"]


async def test_whoever_finds_no_message_takes_back_what_the_dead_had(
    made: volumes.Volumes,
) -> None:
    """So recovery needs no orchestrator."""
    await made.order()
    await made.orchestrate()
    await made.take("line_detection", **SHORT)
    await _expire(made)
    await made.factory.conn.execute("update private.volume_orchestrator_state set swept_at = null")
    assert await made.receive("line_detection") is None
    assert (await made.task())["token"] is None


# Messages -------------------------------------------------------------------------------------


async def test_no_job_fills_the_queues_alone(made: volumes.Volumes) -> None:
    """Of each, 200 messages wait for a stage; the next come when those are taken."""
    await made.order(*(f"W1-I{n}" for n in range(450)))
    await made.order("W2-I1")
    assert (await made.orchestrate())["published"] == 201
    assert (await made.orchestrate())["published"] == 0
    await made.take("line_detection")
    assert (await made.orchestrate())["published"] == 1


async def test_a_look_is_bounded_and_says_that_there_is_more(made: volumes.Volumes) -> None:
    """One transaction does not grow with the number of volumes."""
    await made.order(*(f"W1-I{n}" for n in range(5)))
    seen = [await made.orchestrate(p_limit=2) for _ in range(3)]
    assert [(s["published"], s["is_more"]) for s in seen] == [(2, True), (2, True), (1, False)]


async def test_messages_that_were_lost_are_published_again(made: volumes.Volumes) -> None:
    """When somebody emptied a queue, after ten minutes; those that are there are left alone."""
    await made.order("W1-I1", "W1-I2")
    await made.orchestrate()
    await _let_an_hour_pass(made)
    lost = await made.receive("line_detection", 60)
    await made.call("remove_volume_message", p_stage="line_detection", p_handle=lost["handle"])
    assert await queries.violations(made.factory.conn) == [
        "a running volume has exactly one current message"
    ]
    assert (await made.orchestrate())["republished"] == 1
    assert await queries.violations(made.factory.conn) == []
    assert (await made.start(lost))["error"] == "STALE_MESSAGE"


async def test_two_orchestrators_do_not_look_at_the_same_time(
    database: databases.Database,
) -> None:
    """The second is told so at once, and waits for nothing."""
    made = await volumes.Volumes.of(database)
    await made.order()
    other = await database.connect(claims={"role": "service_role"})
    async with other.transaction():
        await other.execute("select orchestrate_volumes()")
        assert await made.orchestrate() is None
    assert (await made.orchestrate())["published"] == 0


async def test_messages_for_other_queues_wait_in_the_outbox(made: volumes.Volumes) -> None:
    """Each is handed out until it is settled; a newer one takes its place."""
    await made.order("W1-I1", "W1-I2")
    await made.orchestrate(p_queue="sqs")
    assert await made.receive("line_detection") is None
    claim = {"p_limit": 10, "p_lease_seconds": 30}
    rows = await factories.call(made.factory.conn, "claim_volume_outbox", **claim)
    assert [row["stage"] for row in rows] == ["line_detection"] * 2
    assert await factories.call(made.factory.conn, "claim_volume_outbox", **claim) == []
    settled = [{"task_id": rows[0]["message"]["task_id"], "attempt": 1}]
    assert await made.call("settle_volume_outbox", p_messages=Jsonb(settled)) == 1
    await made.factory.conn.execute("update private.volume_outbox set claimed_until = now()")
    assert len(await factories.call(made.factory.conn, "claim_volume_outbox", **claim)) == 1
    assert await queries.violations(made.factory.conn) == []
    # What was sent, and is not in its queue any more, is sent again under a new number.
    assert await made.call("republish_volumes", p_stage="line_detection", p_older_seconds=0) == 1
    newer = "select max((message ->> 'attempt')::int) as attempt from private.volume_outbox"
    assert await queries.one(made.factory.conn, newer) == {"attempt": 2}
    late = [{"task_id": rows[0]["message"]["task_id"], "attempt": 1}]
    assert await made.call("settle_volume_outbox", p_messages=Jsonb(late)) == 0


async def test_a_message_that_has_come_is_not_sent_once_more(made: volumes.Volumes) -> None:
    """Though whoever sent it died before saying so, and the volume is done meanwhile."""
    await made.order()
    for _ in volumes.STAGES:
        await made.orchestrate(p_queue="sqs")
        (sent,) = await factories.call(made.factory.conn, "claim_volume_outbox")
        begun = await made.start(sent)
        key = {"p_task_id": begun["task_id"], "p_token": begun["token"]}
        metrics = volumes.METRICS if sent["stage"] == "reduce" else {}
        await made.call("complete_volume_stage", **key, p_pages=2, p_metrics=Jsonb(metrics))
        assert await queries.violations(made.factory.conn) == []
    assert (await made.task())["current_stage"] == "done"


async def test_messages_that_could_not_be_sent_let_others_go_first(made: volumes.Volumes) -> None:
    """Whatever is wrong with their queue; when all have been tried, their turn comes again."""
    await made.order("W1-I1", "W1-I2", "W1-I3")
    await made.orchestrate(p_queue="sqs")
    claim = "select * from public.claim_volume_outbox(1, 30, now() + %s * interval '1 minute')"
    tried = [
        (await queries.one(made.factory.conn, claim, (minute,)))["message"]["task_id"]
        for minute in range(4)
    ]
    assert tried == [*sorted({*tried}), tried[0]]


async def test_a_message_for_another_queue_goes_when_the_kind_of_queue_changes(
    made: volumes.Volumes,
) -> None:
    """It is published anew, here, and nothing that no longer counts is left to be sent."""
    await made.order()
    await made.orchestrate(p_queue="sqs")
    await _let_an_hour_pass(made)
    assert (await made.orchestrate(p_queue="pgmq"))["republished"] == 1
    assert await queries.rows(made.factory.conn, "select task_id from private.volume_outbox") == []
    assert await queries.violations(made.factory.conn) == []


# Once more ------------------------------------------------------------------------------------


async def test_a_stage_is_done_again_and_none_before_it(made: volumes.Volumes) -> None:
    """The stage is told to do it whatever is there; the old result stays until the new one."""
    job = await made.order()
    await made.advance("reduce")
    answer = await made.call(
        "rerun_volumes", p_job_id=job, p_stage="ocr", p_config=Jsonb({"engine": "tesseract"})
    )
    assert (answer["rerun"], answer["skipped"]) == (1, 0)
    assert await made.job(job) == "running"
    assert await queries.rows(made.factory.conn, "select task_id from volume_results")
    await made.orchestrate()
    start = await made.start(await made.receive("ocr", 60))
    assert start["is_forced"]
    assert start["config"] == {"engine": "tesseract"}
    key = {"p_task_id": start["task_id"], "p_token": start["token"]}
    await made.call("complete_volume_stage", **key, p_pages=2)
    await made.orchestrate()
    start = await made.start(await made.receive("reduce", 60))
    assert not start["is_forced"]
    stages_done = [stage for stage, outcome in await _outcomes(made) if outcome == "done"]
    assert stages_done == [*volumes.STAGES, "ocr"]
    (line,) = await queries.rows(
        made.factory.conn, "select * from hac_acts where action_type = 'volumes_rerun'"
    )
    assert line["metadata"]["stage"] == "ocr"
    assert line["metadata"]["old_config"] == {}


async def test_failed_volumes_go_on_where_they_failed(made: volumes.Volumes) -> None:
    """With fresh attempts, and the others are left alone."""
    job = await made.order("W1-I1", "W1-I2", p_max_attempts=1)
    await made.orchestrate()
    await made.complete(await made.take("line_detection"))
    await made.fail(await made.take("line_detection"), "permanent")
    await made.orchestrate()
    good = await made.take("line_extraction")
    answer = await made.call("rerun_volumes", p_job_id=job)
    assert (answer["rerun"], answer["skipped"]) == (1, 0)
    await made.orchestrate()
    again = await made.take("line_detection")
    task = await made.task(again.task_id)
    assert (task["attempts"], task["max_attempts"], task["forced_stage"]) == (0, 1, None)
    assert (await made.complete(good))["success"]


async def test_a_stage_that_was_not_come_to_is_not_done_again(made: volumes.Volumes) -> None:
    """Such volumes are skipped, and said to be."""
    job = await made.order()
    await made.orchestrate()
    answer = await made.call("rerun_volumes", p_job_id=job, p_stage="ocr")
    assert (answer["rerun"], answer["skipped"]) == (0, 1)
    assert list((await made.where()).values()) == [("line_detection", "running")]


async def test_a_rerun_takes_the_task_from_whoever_has_it(made: volumes.Volumes) -> None:
    """What that one does is void."""
    job = await made.order()
    await made.orchestrate()
    held = await made.take("line_detection")
    await made.call("rerun_volumes", p_job_id=job, p_stage="line_detection")
    assert (await made.complete(held))["error"] == "LOCK_LOST"
    assert await _outcomes(made) == [("line_detection", "taken_away")]
    assert await queries.violations(made.factory.conn) == []


async def test_a_cancelled_job_goes_on_when_it_is_told_to(made: volumes.Volumes) -> None:
    """Workers lose its tasks at once; later it goes on with the same stage, uncounted."""
    job = await made.order()
    await made.advance("line_detection")
    held = await made.take("line_extraction")
    assert (await made.call("cancel_volume_job", p_job_id=job))["taken_back"] == 1
    assert (await made.complete(held))["error"] == "LOCK_LOST"
    assert (await made.orchestrate())["published"] == 0
    assert (await made.call("cancel_volume_job", p_job_id=job))["error"] == "JOB_ENDED"
    await made.call("rerun_volumes", p_job_id=job)
    await made.orchestrate()
    assert list((await made.where()).values()) == [("line_extraction", "running")]
    assert (await made.task())["attempts"] == 0


# Hints ----------------------------------------------------------------------------------------


async def test_whoever_has_something_to_do_hears_of_it(made: volumes.Volumes) -> None:
    """An order calls the orchestrator, a message the workers of its stage, an end again it."""
    listener = await made.factory.database.connect()
    await listener.execute("listen pagewarden_volumes")

    async def heard() -> list[str]:
        return [note.payload async for note in listener.notifies(timeout=1, stop_after=1)]

    await made.order()
    assert await heard() == ["orchestrator"]
    await made.orchestrate()
    assert await heard() == ["line_detection"]
    await made.complete(await made.take("line_detection"))
    assert await heard() == ["orchestrator"]


async def test_the_function_is_called_once_until_it_came(database: databases.Database) -> None:
    """On Supabase, by pg_net; on its schedule it comes anyway."""
    made = await volumes.Volumes.of(database)
    await stand_ins.install_pg_net(
        made.factory.conn, pagewarden_url=stand_ins.URL, pagewarden_key=stand_ins.KEY
    )
    await made.order("W1-I1")
    await made.order("W1-I2")
    sent = "select url from net.sent"
    (row,) = await queries.rows(made.factory.conn, sent)
    assert row["url"].endswith("/functions/v1/volume-orchestrator")
    await made.orchestrate()
    await made.order("W1-I3")
    assert len(await queries.rows(made.factory.conn, sent)) == 2


async def test_the_function_is_called_again_for_what_happens_while_it_looks(
    database: databases.Database,
) -> None:
    """It may have looked there already."""
    made, worker = await volumes.Volumes.of(database), await volumes.Volumes.of(database)
    observer = await database.connect("supabase_admin")
    await made.order()
    await made.orchestrate()
    held = await made.take("line_detection")
    await stand_ins.install_pg_net(
        made.factory.conn, pagewarden_url=stand_ins.URL, pagewarden_key=stand_ins.KEY
    )
    await made.order("W1-I2")
    sent = "select url from net.sent"
    assert len(await queries.rows(observer, sent)) == 1
    async with made.factory.conn.transaction():
        await made.orchestrate()
        end = asyncio.create_task(worker.fail(held))
        await _until_waiting(observer, "fail_volume_stage")
    assert (await end)["success"]
    assert len(await queries.rows(observer, sent)) == 2


# Races ----------------------------------------------------------------------------------------


async def test_of_many_who_get_the_same_message_one_starts(database: databases.Database) -> None:
    """The others are told that it is in hand."""
    made = await volumes.Volumes.of(database)
    await made.order()
    await made.orchestrate()
    delivery = await made.receive("line_detection")
    crew = [await volumes.Volumes.of(database) for _ in range(12)]
    answers = await asyncio.gather(*(one.start(delivery) for one in crew))
    refusals = [answer["error"] for answer in answers if not answer["success"]]
    assert refusals == ["STAGE_HELD"] * 11
    assert len(await _outcomes(made)) == 1


async def test_nobody_waits_for_an_orchestrator(database: databases.Database) -> None:
    """Workers start and finish stages of jobs that it is looking at."""
    made, worker = await volumes.Volumes.of(database), await volumes.Volumes.of(database)
    await made.order("W1-I1", "W1-I2")
    await made.orchestrate()
    await worker.factory.conn.execute("set lock_timeout = '5s'")
    async with made.factory.conn.transaction():
        await made.orchestrate()
        assert (await worker.complete(await worker.take("line_detection")))["success"]
        assert (await worker.fail(await worker.take("line_detection")))["success"]


async def test_a_start_that_waited_for_a_cancellation_gets_nothing(
    database: databases.Database,
) -> None:
    """Start and cancel neither wait for each other for ever nor both win."""
    made, worker = await volumes.Volumes.of(database), await volumes.Volumes.of(database)
    observer = await database.connect("supabase_admin")
    job = await made.order()
    await made.orchestrate()
    delivery = await made.receive("line_detection")
    async with made.factory.conn.transaction():
        await made.call("cancel_volume_job", p_job_id=job)
        start = asyncio.create_task(worker.start(delivery))
        await _until_waiting(observer, "start_volume_stage")
    assert (await start)["error"] == "STALE_MESSAGE"


async def _until_waiting(observer: psycopg.AsyncConnection, call: str) -> None:
    """Return when somebody who made this call waits for a lock."""
    waiting = f"""
        select count(*) from pg_stat_activity
        where wait_event_type = 'Lock' and query like '%%{call}%%'
    """
    async with asyncio.timeout(10):
        while not await crowd.fetch_value(observer, waiting):  # noqa: ASYNC110  # another session
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("crowd_size", [6])
async def test_everything_at_once_leaves_nothing_undone(
    database: databases.Database, crowd_size: int
) -> None:
    """Workers that finish, fail and die race with orchestrators; each stage is done once."""
    made = await volumes.Volumes.of(database)
    job = await made.order(*(f"W1-I{n}" for n in range(12)), p_max_attempts=100)
    crew = [await volumes.Volumes.of(database) for _ in range(crowd_size)]

    async def work(number: int, one: volumes.Volumes) -> None:
        for turn in range(40):
            await one.orchestrate()
            stage = volumes.STAGES[-1 - (turn + number) % 4]
            delivery = await one.receive(stage)
            answer = await one.start(delivery) if delivery else {"success": False}
            if not answer["success"]:
                continue
            key = {"p_task_id": answer["task_id"], "p_token": answer["token"]}
            if (turn + number) % 7 == 0:
                error = Jsonb(volumes.BROKEN)
                await one.call("fail_volume_stage", **key, p_error=error, p_retry_after=0)
            elif (turn + number) % 11 != 0:
                await one.call("complete_volume_stage", **key, p_pages=1)
            await one.call("remove_volume_message", p_stage=stage, p_handle=delivery["handle"])

    await asyncio.gather(*(work(number, one) for number, one in enumerate(crew)))
    assert await _double(made) == []
    broken = await queries.violations(made.factory.conn)
    # Who died here removed the message, too, which is what the orchestrator mends.
    assert set(broken) <= {"a running volume has exactly one current message"}
    await made.call("rerun_volumes", p_job_id=job)
    assert await _double(made) == []


async def _double(made: volumes.Volumes) -> list[dict[str, Any]]:
    """Find stages that were done twice for one message."""
    return await queries.rows(
        made.factory.conn,
        "select task_id, stage, attempt from volume_runs where outcome = 'done' "
        "group by 1, 2, 3 having count(*) > 1",
    )
