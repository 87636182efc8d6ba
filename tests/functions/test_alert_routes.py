"""An alert reaches people by every route: the real pg_cron, and the stand-in for it.

pg_cron runs the jobs that the migrations made; a job calls the function `alerts` over HTTP. The
HTTP call itself, which is pg_net's, is a stand-in by both routes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest

from pagewarden import database as gateways
from tests.database import queries, stand_ins
from tests.functions import house
from tests.functions.test_alerts import Post, open_post
from tests.support import pg_cron, polling

if TYPE_CHECKING:
    import psycopg

    from pagewarden import settings as settings_module
    from tests.documents import readers
    from tests.support import databases

RULE = "dead-letters-critical"
EVALUATE, SEND = "pagewarden-sql-evaluate-alerts", "pagewarden-alerts"


async def _install_pg_net(conn: psycopg.AsyncConnection, post: Post) -> None:
    await stand_ins.install_pg_net(
        conn, pagewarden_url=post.functions.url, pagewarden_key=house.KEYS.secret_key or ""
    )


async def _send(conn: psycopg.AsyncConnection) -> None:
    """Send what pg_net was asked to send to the function `alerts`."""
    requests = await queries.rows(
        conn, "delete from net.sent where url like '%/alerts' returning url, headers, body"
    )
    async with httpx.AsyncClient(trust_env=False) as client:
        for request in requests:
            answer = await client.post(
                request["url"], headers=request["headers"], json=request["body"]
            )
            answer.raise_for_status()


async def _give_up(post: Post) -> None:
    """Have as many dead letters as it takes."""
    factory = post.functions.factory
    case = await factory.case()
    for _ in range(21):
        await factory.dead_letter(case)


def _assert_told(post: Post) -> None:
    """Check the webhook and the e-mail."""
    notice = json.loads(post.hook.received[0][1])
    assert (notice["type"], notice["data"]["rule"]) == ("alert.fired", RULE)
    assert f"Subject: Alert: {RULE} (critical)" in post.box.messages[0]


async def test_the_jobs_of_the_stand_in_deliver_an_alert(
    database: databases.Database,
    gateway: gateways.Database,
    chosen: settings_module.Settings,
    recorder: readers.Recorder,
) -> None:
    """Each job is run once, the evaluation before the function: then people are told."""
    await stand_ins.install_pg_cron(database)
    conn = await database.connect()
    await conn.execute("select private.apply_schedules()")
    async with open_post(database, gateway, chosen, recorder) as post:
        await _install_pg_net(conn, post)
        await _give_up(post)

        for _, (_, command) in sorted((await stand_ins.jobs(conn)).items(), reverse=True):
            await conn.execute(command.encode())
        await _send(conn)

        _assert_told(post)


async def test_the_real_pg_cron_delivers_an_alert(
    pytestconfig: pytest.Config, chosen: settings_module.Settings, recorder: readers.Recorder
) -> None:
    """The migrations apply, every job runs, and by the second minute the notice is there.

    The pg_cron of Debian 12 (1.4) knows no seconds: those jobs run every minute.
    """
    programs = pg_cron.find_programs(pytestconfig.option.server_bin)
    if programs is None:
        pytest.skip("needs pg_cron, for example of the Debian package postgresql-15-cron")
    async with (
        pg_cron.open_database(programs) as database,
        await gateways.connect_direct(database.url()) as gateway,
        open_post(database, gateway, chosen, recorder) as post,
    ):
        conn = await database.connect()
        jobs = await stand_ins.jobs(conn)
        wanted = await queries.rows(
            conn,
            "select function_name, schedule from public.edge_function_config "
            "where schedule is not null and enabled",
        )
        assert {*jobs} == {EVALUATE} | {f"pagewarden-{row['function_name']}" for row in wanted}
        version = await queries.one(
            conn, "select extversion from pg_extension where extname = 'pg_cron'"
        )
        if tuple(map(int, version["extversion"].split("-")[0].split("."))) < (1, 5):
            assert jobs["pagewarden-stale-monitor"] == (
                "* * * * *",
                "select public.sweep_documents()",
            )
        await _install_pg_net(conn, post)
        await _give_up(post)
        each_minute = {name for name, (schedule, _) in jobs.items() if schedule == "* * * * *"}

        async def has_run() -> bool:
            runs = await queries.rows(
                conn,
                "select j.jobname, r.status, r.return_message from cron.job_run_details as r "
                "join cron.job as j using (jobid)",
            )
            assert [run for run in runs if run["status"] == "failed"] == []
            return each_minute <= {run["jobname"] for run in runs if run["status"] == "succeeded"}

        async def was_told() -> bool:
            await _send(conn)
            return bool(post.hook.received and post.box.messages)

        await polling.wait_until(has_run, seconds=60)
        await polling.wait_until(was_told, seconds=60)

        _assert_told(post)
