"""Alerts: each rule fires when it has been broken for its time, is told once, and is resolved."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.database import people, queries, volumes
from tests.database.watching import MINUTE, START, Watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support import databases

RULES = "select rule, severity, hold_seconds, calm_seconds from alert_rules order by rule"


@pytest.fixture
async def watch(database: databases.Database) -> AsyncIterator[Watch]:
    """Watch an empty database, from noon of a day to come."""
    made = await Watch.of(database)
    yield made
    # Results and documents of these tests come from nowhere; the alerts themselves must be sound.
    assert await queries.rows(made.conn, "select * from private.alert_violations()") == []


def _fires(rule: str, severity: str) -> list[str]:
    channels = ["email", "webhook"] if severity == "critical" else ["slack"]
    return [f"{rule} fired {channel}" for channel in channels]


async def test_stuck_documents_hold_for_their_time_and_resolve(watch: Watch) -> None:
    """More than 5 for 10 minutes is a warning, more than 10 for 15 minutes is critical."""
    told = await watch.pass_time(20, lambda: watch.stuck(11))

    assert told == [
        (11, "stuck-warning fired slack"),
        (16, "stuck-critical fired email"),
        (16, "stuck-critical fired webhook"),
    ]
    calm = await watch.pass_time(10, lambda: watch.stuck(0))
    assert calm == [
        (6, "stuck-critical resolved email"),
        (6, "stuck-critical resolved webhook"),
        (6, "stuck-warning resolved slack"),
    ]
    assert await watch.open() == []


async def test_what_is_broken_for_less_than_its_time_is_not_told(watch: Watch) -> None:
    """Every break begins anew, so nothing flaps."""
    for _ in range(3):
        assert await watch.pass_time(9, lambda: watch.stuck(6)) == []
        assert await watch.pass_time(1, lambda: watch.stuck(5)) == []


async def test_an_alert_that_is_calm_for_a_moment_stays_open(watch: Watch) -> None:
    """It is told once, however often it comes and goes meanwhile."""
    assert len(await watch.pass_time(11, lambda: watch.stuck(6))) == 1
    for _ in range(4):
        assert await watch.pass_time(4, lambda: watch.stuck(0)) == []
        assert await watch.pass_time(1, lambda: watch.stuck(6)) == []
    assert await watch.open() == ["stuck-warning"]


async def _nothing() -> None:
    pass


async def test_dead_letters_that_grow_page_hac(watch: Watch) -> None:
    """More than 20 in an hour; the task goes when the alert does."""
    await watch.dead_letters(20, attempts=1)
    assert await watch.pass_time(2) == []
    await watch.dead_letters(1, attempts=1)

    told = await watch.pass_time(1)

    assert told == [(1, line) for line in _fires("dead-letters-critical", "critical")]
    (task,) = await queries.rows(watch.conn, "select * from tasks")
    assert (task["kind"], task["priority"], task["status"]) == ("alert", "urgent", "pending")
    assert "the file is broken" in task["description"]
    later = await watch.pass_time(75)
    assert [line for _, line in later] == [
        "dead-letters-critical resolved email",
        "dead-letters-critical resolved webhook",
    ]
    assert later[0][0] == 57 + 10  # an hour after the first twenty came, and ten minutes
    (task,) = await queries.rows(watch.conn, "select * from tasks")
    assert task["status"] == "done"


async def test_a_success_rate_below_half_is_critical(watch: Watch) -> None:
    """With too few attempts nothing is judged."""
    await watch.result(count=14)
    for _ in range(15):
        await watch.failure()
    assert await watch.pass_time(1) == []

    await watch.failure("lock_expired")
    told = [line for _, line in await watch.pass_time(1)]

    assert told == sorted(
        _fires("success-critical", "critical") + _fires("retries-warning", "warning")
    )


async def test_conflicts_are_counted_against_attempts(watch: Watch) -> None:
    """More than a quarter in ten minutes: what came too late, and what never went away."""
    await watch.result(count=30)
    for _ in range(7):
        await watch.run("insert into private.conflicts (happened_at) values (%s)", watch.now)
    assert await watch.pass_time(1) == []

    await watch.failure("conflict")
    told = [line for _, line in await watch.pass_time(1)]

    assert told == _fires("conflicts-critical", "critical")


async def test_slow_reading_is_a_warning(watch: Watch) -> None:
    """More than a minute on average; more than 40 s over a day."""
    await watch.result(60_000, count=29)
    assert await watch.pass_time(1) == []
    await watch.result(60_000)
    assert await watch.pass_time(1) == [(1, "slow-day-warning fired slack")]
    await watch.result(60_100)

    assert [line for _, line in await watch.pass_time(1)] == _fires("slow-warning", "warning")


async def test_a_retry_rate_of_more_than_two_fifths_is_a_warning(watch: Watch) -> None:
    """Counted over an hour."""
    await watch.result(count=18)
    for _ in range(12):
        await watch.failure()
    assert await watch.pass_time(1) == []
    await watch.failure("deadline")

    assert [line for _, line in await watch.pass_time(1)] == _fires("retries-warning", "warning")


async def _late(watch: Watch) -> None:
    await watch.run("delete from documents")
    await watch.document(ocr_status="queued", created_at=watch.now - 61 * MINUTE)


async def _paused(watch: Watch) -> None:
    await watch.run(
        "update lanes set paused_at = now(), pause_kind = 'outage', pause_reason = 'away', "
        "probe_at = now() where lane = 'pdf'"
    )


async def _silent(watch: Watch) -> None:
    await watch.run(
        "insert into private.workers (worker_id, process, lanes, started_at, seen_at) "
        "values ('w', 'p', '{image}', now(), %s) "
        "on conflict (worker_id) do update set seen_at = excluded.seen_at",
        watch.now - 3 * MINUTE,
    )


async def _thrashing(watch: Watch) -> None:
    await watch.run(
        "insert into private.pool_switches (at, worker_id, from_lane, to_lane, reason) "
        "select %s - make_interval(mins => n), 'w', 'index', 'acte', 'x' "
        "from generate_series(0, 20) as n on conflict do nothing",
        watch.now,
    )


async def _undelivered(watch: Watch) -> None:
    document = await watch.factory.queued(watch.case)
    await watch.run(
        "insert into webhooks (document_id, url, settled_at, delivered, error) "
        "values (%s, 'https://example.org', %s, false, 'gone')",
        document, watch.now,
    )  # fmt: skip


async def _one_stuck(watch: Watch) -> None:
    await watch.stuck(1)


async def _three_dead(watch: Watch) -> None:
    if not await queries.rows(watch.conn, "select 1 as one from ocr_dead_letter"):
        await watch.dead_letters(3)


async def _retries_in_vain(watch: Watch) -> None:
    await watch.result(retry_count=2, count=8)
    await watch.dead_letters(2)


async def _some_conflicts(watch: Watch) -> None:
    await watch.result(count=100)
    await watch.failure("conflict")
    await watch.run("insert into private.conflicts (happened_at) values (%s)", watch.now)


async def _slow_day(watch: Watch) -> None:
    await watch.result(41_000, count=30)


async def _failing(watch: Watch) -> None:
    await watch.run(
        "insert into private.function_runs (function_name, started_at, ended_at, outcome, error) "
        "select 'retention', %s, %s, 'failed', 'x' from generate_series(1, 6)",
        watch.now, watch.now,
    )  # fmt: skip


async def _disk(watch: Watch) -> None:
    await watch.run("select public.report_gauge('free_disk_share', 0.02, %s)", watch.now)


async def _gpu(watch: Watch) -> None:
    await watch.run("select public.report_gauge('gpu_service_down', 1, %s)", watch.now)


async def _volume_turn(watch: Watch, outcome: str) -> None:
    """Have a turn of a volume end now, and none before."""
    if not await queries.rows(watch.conn, "select 1 as one from volume_tasks"):
        await (await volumes.Volumes.of(watch.database)).order()
    await watch.run(
        "delete from volume_runs where ended_at < %s - interval '30 minutes'", watch.now
    )
    await watch.run(
        "insert into volume_runs "
        "(task_id, job_id, stage, attempt, token, worker_id, started_at, ended_at, outcome, error) "
        "select id, job_id, 'ocr', 1, gen_random_uuid(), 'w', %s, %s, %s, '{\"message\": \"x\"}' "
        "from volume_tasks",
        watch.now, watch.now, outcome,
    )  # fmt: skip


async def _bucket_away(watch: Watch) -> None:
    for _ in range(3):
        await _volume_turn(watch, "outage")


async def _given_up(watch: Watch) -> None:
    await _volume_turn(watch, "failed")
    await watch.run(
        "update volume_tasks set current_stage = 'ocr', status = 'failed', attempts = max_attempts"
    )


async def _without_extractors(watch: Watch) -> None:
    await watch.run("delete from documents")
    since = watch.now - 61 * MINUTE
    await watch.document(ocr_status="awaiting_file", lane="acte", updated_at=since)


async def _extracting_for_hours(watch: Watch) -> None:
    await watch.run("delete from documents")
    since = watch.now - 61 * MINUTE
    await watch.document(ocr_status="extracting", lane="acte", extraction_started_at=since)


async def _failing_extractions(watch: Watch) -> None:
    await watch.run("delete from ocr_errors")
    await watch.run(
        "insert into ocr_errors (kind, error_message, created_at) "
        "select 'extraction', 'no login', %s from generate_series(1, 11)",
        watch.now,
    )


OTHERS = {
    "waiting-warning": _late,
    "awaiting-file-warning": _without_extractors,
    "extracting-warning": _extracting_for_hours,
    "extractions-warning": _failing_extractions,
    "lane-paused-critical": _paused,
    "silent-workers-warning": _silent,
    "stuck-any-warning": _one_stuck,
    "dead-letters-warning": _three_dead,
    "retry-success-warning": _retries_in_vain,
    "conflicts-warning": _some_conflicts,
    "slow-day-warning": _slow_day,
    "pool-thrashing-warning": _thrashing,
    "webhooks-warning": _undelivered,
    "functions-warning": _failing,
    "volume-outages-critical": _bucket_away,
    "volumes-warning": _given_up,
    "disk-warning": _disk,
    "disk-critical": _disk,
    "gpu-service-warning": _gpu,
}
SEEDS = {
    "stuck-critical", "dead-letters-critical", "success-critical", "conflicts-critical",
    "stuck-warning", "slow-warning", "retries-warning",
}  # fmt: skip


@pytest.mark.parametrize("rule", OTHERS)
async def test_each_other_rule_fires_after_its_time_and_resolves_by_itself(
    watch: Watch, rule: str
) -> None:
    """What it watches is broken, then nothing is any more; a day's time is shortened to an hour."""
    await watch.run("update alert_rules set hold_seconds = least(hold_seconds, 3600)")
    (row,) = [row for row in await queries.rows(watch.conn, RULES) if row["rule"] == rule]
    hold = row["hold_seconds"] // 60
    breaking = OTHERS[rule]

    told = await watch.pass_time(hold + 2, lambda: breaking(watch))
    mine = [(minute, line) for minute, line in told if line.startswith(f"{rule} ")]
    assert mine == [(hold + 1, line) for line in _fires(rule, row["severity"])]

    await watch.run("delete from documents")
    await watch.run("delete from private.workers")
    await watch.run("delete from private.pool_switches")
    await watch.run("delete from private.gauges")
    await watch.run("truncate ocr_processing_logs, ocr_errors, private.conflicts")
    await watch.run(
        "update lanes set paused_at = null, pause_kind = null, pause_reason = null, probe_at = null"
    )
    calm = await watch.pass_time(80)
    resolved = [line for _, line in calm if line.startswith(f"{rule} ")]
    assert resolved == [line.replace("fired", "resolved") for _, line in mine]
    assert await watch.open() == []


async def test_a_volume_that_will_be_tried_again_is_no_failed_one(watch: Watch) -> None:
    """Nor are two outages many."""
    await _volume_turn(watch, "failed")
    await _volume_turn(watch, "outage")
    await _volume_turn(watch, "outage")

    assert await watch.pass_time(2) == []


async def test_every_rule_is_tried_here(watch: Watch) -> None:
    """Whoever adds a rule shows that it fires."""
    rules = {row["rule"] for row in await queries.rows(watch.conn, RULES)}
    assert rules == SEEDS | {*OTHERS}


async def test_every_metric_can_be_measured(watch: Watch) -> None:
    """With nothing there it says nothing, or that there is nothing."""
    query = """
        select m.metric, (private.measure_metric(m.metric, 3600, 30, %s)).v_value as value
        from alert_metrics as m order by 1
    """
    rows = await queries.rows(watch.conn, query, (watch.now,))
    assert {row["value"] for row in rows} <= {None, 0}
    assert len(rows) == 21


async def test_a_requeued_document_waits_for_its_file_from_then_on(watch: Watch) -> None:
    """It may have been announced a month ago."""
    times = {"created_at": watch.now - 43_200 * MINUTE, "updated_at": watch.now - MINUTE}
    await watch.document(ocr_status="awaiting_file", lane="acte", **times)
    query = "select * from private.measure_metric('awaiting_file_seconds', null, 0, %s)"
    assert (await queries.one(watch.conn, query, (watch.now,)))["v_value"] == 60


async def test_a_silence_keeps_quiet_and_what_is_still_broken_is_told_after_it(
    watch: Watch,
) -> None:
    """The alert itself is there all the time; nobody is told the end of what nobody was told."""
    await watch.run("select private.silence_alerts('stuck-warning', 20, 'known', %s)", watch.now)
    assert await watch.pass_time(19, lambda: watch.stuck(6)) == []
    assert await watch.open() == ["stuck-warning"]
    assert await watch.pass_time(1, lambda: watch.stuck(6)) == [(1, "stuck-warning fired slack")]
    await watch.pass_time(7, lambda: watch.stuck(0))

    await watch.run("select private.silence_alerts(null, 60, 'all', %s)", watch.now)
    assert await watch.pass_time(15, lambda: watch.stuck(6)) == []
    assert await watch.open() == ["stuck-warning"]
    assert await watch.pass_time(10, lambda: watch.stuck(0)) == []
    assert await watch.open() == []


async def test_a_silence_can_be_ended(watch: Watch) -> None:
    """From then on everything is told again."""
    (row,) = await queries.rows(
        watch.conn, "select * from private.silence_alerts(null, 600, 'x', %s)", (watch.now,)
    )
    silence = row["silence_id"]
    await watch.pass_time(12, lambda: watch.stuck(6))
    await watch.run("select private.end_silence(%s, %s)", silence, watch.now)

    assert await watch.pass_time(1, lambda: watch.stuck(6)) == [(1, "stuck-warning fired slack")]
    again = "select * from private.end_silence(%s, %s)"
    row = await queries.one(watch.conn, again, (silence, watch.now))
    assert row["error"] == "SILENCE_NOT_FOUND"


async def test_nobody_knows_what_was_while_nobody_looked(watch: Watch) -> None:
    """After a gap a rule must be broken for its whole time again."""
    await watch.pass_time(9, lambda: watch.stuck(6))
    watch.now += 30 * MINUTE

    assert await watch.pass_time(10, lambda: watch.stuck(6)) == []
    assert await watch.pass_time(1, lambda: watch.stuck(6)) == [(1, "stuck-warning fired slack")]


async def test_a_rule_that_is_switched_off_ends_its_alert(watch: Watch) -> None:
    """Whoever was told is told."""
    await watch.pass_time(11, lambda: watch.stuck(6))
    await watch.factory.call(
        "set_alert_rule", p_rule="stuck-warning", p_changes=Jsonb({"enabled": False})
    )

    told = await watch.pass_time(1, lambda: watch.stuck(6))

    assert told == [(1, "stuck-warning resolved slack")]


async def test_a_test_goes_where_the_alert_would_and_changes_nothing_else(watch: Watch) -> None:
    """Also in silence: somebody wants to know whether it arrives."""
    await watch.run("select private.silence_alerts(null, 60, 'x', %s)", watch.now)
    await watch.run("select private.test_alert('disk-critical', %s)", watch.now)

    assert await watch.news() == ["disk-critical test email", "disk-critical test webhook"]
    assert await watch.open() == []


async def test_a_notice_that_fails_is_tried_again_and_given_up_in_the_end(watch: Watch) -> None:
    """At growing intervals, for about a day."""
    await watch.run("select private.test_alert('disk-warning', %s)", watch.now)
    begin = watch.now
    for attempt in range(1, 16):
        rows: list[Any] = []
        while not rows:
            claim = "select * from public.claim_alert_notices(1, 60, %s)"
            rows = await queries.rows(watch.conn, claim, (watch.now,))
            watch.now += timedelta(seconds=10)
        assert rows[0]["attempt"] == attempt
        settle = "select public.settle_alert_notice(%s, %s, 'HTTP 500', true, %s)"
        await watch.run(settle, rows[0]["id"], attempt, watch.now)
    (notice,) = await queries.rows(watch.conn, "select * from alert_notices")
    assert (notice["outcome"], notice["error"]) == ("given up", "HTTP 500")
    assert timedelta(hours=12) < watch.now - begin < timedelta(hours=36)


async def test_late_calls_are_counted_as_conflicts(watch: Watch) -> None:
    """Alone and in bulk; those that come in time are not."""
    claims = [await watch.factory.claimed(watch.case) for _ in range(3)]
    late = uuid.uuid4()
    done = {"p_ocr_data": Jsonb({}), "p_confidence": "0.9", "p_processing_time_ms": 1}
    first = {"p_document_id": claims[0].document_id}
    await watch.factory.call("process_ocr_atomic", **first, **done, p_lock_token=late)
    await watch.factory.call("extend_document_lock", **first, p_lock_token=late)
    first |= {"p_lock_token": claims[0].lock_token}
    await watch.factory.call("process_ocr_atomic", **first, **done)
    await watch.conn.execute(
        "select * from complete_documents(%s, %s::uuid[], array['{}', '{}']::jsonb[])",
        (
            [claim.document_id for claim in claims[1:]],
            [claims[1].lock_token, late],
        ),
    )

    row = await queries.one(watch.conn, "select count(*) from private.conflicts")
    assert row["count"] == 3


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"metric": "the_weather"}, "unknown metric the_weather"),
        ({"treshold": 1}, 'unknown rule field "treshold"'),
        ({"threshold": None}, "is invalid"),
        ({"severity": "mild"}, "is invalid"),
        ({"hold_seconds": -1}, "is invalid"),
        ({"window_seconds": 1}, "is invalid"),
        ({"comparison": "="}, "is invalid"),
    ],
)
async def test_a_rule_that_makes_no_sense_is_refused(
    watch: Watch, changes: dict[str, Any], word: str
) -> None:
    """With what it should be."""
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=word) as caught:
        await watch.factory.call("set_alert_rule", p_rule="disk-warning", p_changes=Jsonb(changes))
    assert caught.value.diag.message_hint


async def test_a_rule_of_ones_own_is_watched_like_the_others(watch: Watch) -> None:
    """Made and changed by HAC, and written down."""
    admin = await watch.factory.user(admin=True)
    made = {"metric": "paused_lanes", "threshold": 0, "severity": "warning"}
    for changes in (made, {"window_seconds": 300}):
        await people.call(
            watch.database, admin, "set_alert_rule", p_rule="mine", p_changes=Jsonb(changes)
        )
    rule = await queries.one(watch.conn, "select * from alert_rules where rule = 'mine'")
    assert (rule["window_seconds"], rule["threshold"]) == (300, 0)
    await _paused(watch)

    assert (1, "mine fired slack") in await watch.pass_time(1)
    acts = await queries.rows(
        watch.conn, "select user_id from hac_acts where action_type = 'alert_rule'"
    )
    assert [act["user_id"] for act in acts] == [admin, admin]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(broken=st.lists(st.booleans(), min_size=5, max_size=60), hold=st.integers(0, 5),
       calm=st.integers(0, 5))  # fmt: skip
def test_firing_and_resolving_agree_with_a_model(
    database: databases.Database, broken: list[bool], hold: int, calm: int
) -> None:
    """Whatever comes, minute by minute: fired once when held, resolved once when calm."""
    expected, is_open, since = [], False, 0
    for minute, is_broken in enumerate(broken):
        if minute == 0 or is_broken != broken[minute - 1]:
            since = minute
        if is_broken and not is_open and minute - since >= hold:
            expected.append((minute, "fired"))
            is_open = True
        elif not is_broken and is_open and minute - since >= calm:
            expected.append((minute, "resolved"))
            is_open = False
    url = database.url("supabase_admin")
    with psycopg.Connection.connect(url, row_factory=dict_row) as conn:
        conn.execute("update alert_rules set enabled = rule = 'disk-warning'")
        conn.execute(
            "update alert_rules set hold_seconds = %s, calm_seconds = %s", (60 * hold, 60 * calm)
        )
        for minute, is_broken in enumerate(broken):
            now = START + minute * MINUTE
            gauge = 0.01 if is_broken else 0.9
            conn.execute("select public.report_gauge('free_disk_share', %s, %s)", (gauge, now))
            conn.execute("select public.evaluate_alerts(%s)", (now,))
        rows = conn.execute(
            "select created_at, kind from alert_notices order by created_at"
        ).fetchall()
        found = [((row["created_at"] - START) // MINUTE, row["kind"]) for row in rows]
        conn.rollback()
    assert found == expected
