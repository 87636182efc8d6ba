"""Whoever waits for documents is told when some come; nobody else pays for it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
import pytest

from pagewarden.local import migrations
from tests.database import factories, queries, stand_ins

if TYPE_CHECKING:
    from tests.support import databases

CHANNEL = "pagewarden_documents"
PATIENCE = "20s"

Wait = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Ear:
    """Hears every hint of a database."""

    listener: psycopg.AsyncConnection
    speaker: psycopg.AsyncConnection

    @classmethod
    async def of(cls, database: databases.Database) -> Ear:
        """Begin to listen."""
        ear = cls(await database.connect("pagewarden_worker"), await database.connect())
        await ear.listener.execute(f"listen {CHANNEL}")
        return ear

    async def heard(self) -> list[str]:
        """Tell what was said so far: hints come in the order of their commits, ours is the last."""
        await self.speaker.execute("select pg_notify(%s, 'that is all')", (CHANNEL,))
        hints = []
        async for hint in self.listener.notifies():
            if hint.payload == "that is all":
                break
            hints.append(hint.payload)
        return hints


async def wait(conn: psycopg.AsyncConnection, *lanes: str) -> int:
    """Ask for a hint; tells how many lanes give one."""
    (count,) = await factories.call(conn, "wait_for_documents", p_lanes=list(lanes) or None)
    return int(count)


async def waited_for(conn: psycopg.AsyncConnection) -> list[str]:
    """Name the lanes that somebody waits for."""
    found = await queries.rows(conn, "select lane from private.idle_lanes order by lane")
    return [row["lane"] for row in found]


# Every way into the queue: each prepares, lets somebody wait, and acts. ---------------------


async def upload(factory: factories.Factory, begin: Wait) -> None:
    """Upload one file."""
    case = await factory.case()
    await begin()
    await factory.queued(case)


async def bulk_upload(factory: factories.Factory, begin: Wait) -> None:
    """Upload many files at once."""
    case = await factory.case()
    files = json.dumps([{"name": str(number)} for number in range(50)])
    await begin()
    await factories.call(
        factory.conn, "add_documents", p_case_id=case, p_documents=files, p_lane="image"
    )


async def same_bytes_again(factory: factories.Factory, begin: Wait) -> None:
    """Upload what had been given up once more."""
    case, same = await factory.case(), {"p_document_name": "same", "p_sha256": "0" * 64}
    document = await factory.queued(case, **same)
    await factory.call("cancel_document", p_document_id=document)
    await begin()
    await factory.queued(case, **same)


async def route(factory: factories.Factory, begin: Wait) -> None:
    """Say where a file of unknown type goes."""
    document = await factory.queued(lane=None)
    await begin()
    await factory.call("route_document", p_document_id=document, p_lane="image")


async def read_again(factory: factories.Factory, begin: Wait) -> None:
    """Have a document read again."""
    document = await factory.completed()
    await begin()
    await factory.call("read_again", p_document_id=document)


async def requeue(factory: factories.Factory, begin: Wait) -> None:
    """Give a dead letter another chance."""
    letter = await factory.dead_letter()
    await begin()
    await factory.call("resolve_dead_letter", p_dlq_id=letter.dlq_id, p_action="requeue")


async def give_back(factory: factories.Factory, begin: Wait) -> None:
    """Stop a worker."""
    claim = await factory.claimed()
    held = [{"document_id": str(claim.document_id), "lock_token": str(claim.lock_token)}]
    await begin()
    await factory.call("release_documents", p_documents=json.dumps(held))


async def recover(factory: factories.Factory, begin: Wait) -> None:
    """Take a document away from a worker that is stuck."""
    await factory.claimed()
    await begin()
    await factory.call("recover_stuck_documents", p_stuck_minutes=0)


async def sweep(factory: factories.Factory, begin: Wait) -> None:
    """Find out that a worker is dead."""
    await factory.claimed()
    await begin()
    await factory.conn.execute("select public.sweep_documents(now() + interval '1 minute')")


async def become_due(factory: factories.Factory, begin: Wait) -> None:
    """Let two pauses end; whoever notices takes one of the documents only."""
    for claim in (await factory.claimed(), await factory.claimed()):
        await factory.call(
            "fail_document",
            p_document_id=claim.document_id,
            p_lock_token=claim.lock_token,
            p_error_message="broken",
        )
    await begin()
    await factory.conn.execute(
        "select public.claim_documents('w', array['image'], 1, 20, now() + interval '1 day')"
    )


async def write_by_hand(factory: factories.Factory, begin: Wait) -> None:
    """Change the status by a statement of one's own."""
    document = await factory.queued()
    await factory.call("cancel_document", p_document_id=document)
    await begin()
    await factory.conn.execute(
        "update public.documents set ocr_status = 'queued' where id = %s", (document,)
    )


async def insert_by_hand(factory: factories.Factory, begin: Wait) -> None:
    """Insert a document by a statement of one's own."""
    case = await factory.case()
    await begin()
    await factory.conn.execute(
        "insert into public.documents (case_id, name, ocr_status) values (%s, 'own', 'queued')",
        (case,),
    )


WAYS = [
    upload, bulk_upload, same_bytes_again, route, read_again, requeue, give_back, recover, sweep,
    become_due, write_by_hand, insert_by_hand,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_every_way_into_the_queue_is_told_once_to_those_who_wait(
    database: databases.Database,
    way: Callable[[factories.Factory, Wait], Awaitable[None]],
) -> None:
    """The hint names the lane, the mark is gone, and nothing else has changed."""
    factory, ear = await factories.Factory.of(database), await Ear.of(database)

    async def begin() -> None:
        assert await ear.heard() == []  # nobody waited so far
        assert await wait(factory.conn, "image", "pdf") == 2

    await way(factory, begin)

    assert await ear.heard() == ["image"]
    assert await waited_for(factory.conn) == ["pdf"]
    assert await queries.violations(factory.conn) == []


async def test_the_registry_wakes_its_lanes(database: databases.Database) -> None:
    """A file that the extractor has fetched is waited for in lane index or acte."""
    factory, ear = await factories.Factory.of(database), await Ear.of(database)
    document = await factory.awaiting_file(lane="acte")
    assert await wait(factory.conn) == 5

    await factory.conn.execute(
        "update public.extraction_queue set status_id = 3, dropbox_path = '/x' where id = %s",
        (document,),
    )

    assert await ear.heard() == ["acte"]


async def test_nobody_is_told_twice(database: databases.Database) -> None:
    """A hint is for those who wait; who wants another one asks again."""
    factory, ear = await factories.Factory.of(database), await Ear.of(database)
    case = await factory.case()

    await wait(factory.conn, "image")
    await wait(factory.conn, "image")
    for _ in range(3):
        await factory.queued(case)
    assert await ear.heard() == ["image"]
    await factory.queued(case, lane="pdf")
    assert await ear.heard() == []

    await wait(factory.conn, "image")
    await factory.queued(case)
    assert await ear.heard() == ["image"]


async def test_an_upload_that_fails_tells_nobody_and_leaves_the_mark(
    database: databases.Database,
) -> None:
    """Hints come with the commit, or not at all."""
    factory, ear = await factories.Factory.of(database), await Ear.of(database)
    case = await factory.case()
    await wait(factory.conn, "image")

    async with factory.conn.transaction(force_rollback=True):
        await factory.queued(case)

    assert await ear.heard() == []
    assert await waited_for(factory.conn) == ["image"]


async def test_an_upload_under_way_holds_nobody_up(database: databases.Database) -> None:
    """Another upload and another waiter pass it by, and each upload tells when it is there."""
    slow, quick = await factories.Factory.of(database), await factories.Factory.of(database)
    ear, case = await Ear.of(database), await slow.case()
    await slow.queued(case)  # the first of all sets the clock of its lane, which takes a lock
    await quick.conn.execute("set lock_timeout = '5s'")
    await wait(quick.conn, "image")

    async with slow.conn.transaction():
        await slow.queued(case)
        await quick.queued(await quick.case())
        assert await ear.heard() == ["image"]
        assert await wait(quick.conn, "image") == 1

    assert await ear.heard() == ["image"]


async def test_a_paused_lane_gives_no_hints(database: databases.Database) -> None:
    """Its documents cannot be had, so nobody is woken for them."""
    factory, ear = await factories.Factory.of(database), await Ear.of(database)
    await factory.call("pause_lane", p_lane="image", p_reason="for the test")

    assert await wait(factory.conn, "image", "pdf") == 1
    await factory.queued()

    assert await ear.heard() == []


# Functions ----------------------------------------------------------------------------------


def _warnings(conn: psycopg.AsyncConnection) -> list[tuple[str | None, str | None]]:
    """Collect what the server says beside its answers: severity and hint."""
    said: list[tuple[str | None, str | None]] = []
    conn.add_notice_handler(
        lambda notice: said.append((notice.severity_nonlocalized, notice.message_hint))
    )
    return said


async def test_a_function_is_called_when_a_document_comes_and_nobody_is_at_work(
    database: databases.Database,
) -> None:
    """Once, with the key of Vault, and only the one that serves the lane."""
    factory = await factories.Factory.of(database)
    await stand_ins.install_pg_net(
        factory.conn, pagewarden_url=f"{stand_ins.URL}/", pagewarden_key=stand_ins.KEY
    )
    await factory.queued()
    await wait(factory.conn)

    await factory.queued()
    await factory.queued()

    assert await stand_ins.sent(factory.conn) == [
        {
            "url": f"{stand_ins.URL}/functions/v1/ocr-worker",
            "body": {"lanes": ["image"]},
            "headers": {"Content-Type": "application/json", "apikey": stand_ins.KEY},
            "timeout": 5000,
        }
    ]


async def test_a_key_that_is_a_token_is_sent_as_one(database: databases.Database) -> None:
    """Keys of the old kind are wanted in Authorization too."""
    factory = await factories.Factory.of(database)
    await stand_ins.install_pg_net(
        factory.conn, pagewarden_url=stand_ins.URL, pagewarden_key="ey.ey.x"
    )
    await wait(factory.conn)

    await factory.queued(lane="pdf")

    (request,) = await stand_ins.sent(factory.conn)
    assert request["url"].endswith("/pdf-worker")
    assert request["headers"]["Authorization"] == "Bearer ey.ey.x"


@pytest.mark.parametrize(
    "secrets", [{}, {"pagewarden_url": "https://x.example"}], ids=["no", "half"]
)
async def test_without_a_url_and_a_key_no_function_is_called(
    database: databases.Database, secrets: dict[str, str]
) -> None:
    """Where nobody told Vault, nothing is sent, and nobody is warned."""
    factory = await factories.Factory.of(database)
    await stand_ins.install_pg_net(factory.conn, **secrets)
    warnings = _warnings(factory.conn)
    await wait(factory.conn)

    await factory.queued()

    assert (await stand_ins.sent(factory.conn), warnings) == ([], [])


async def test_a_function_that_is_switched_off_is_not_called(database: databases.Database) -> None:
    """The switch is asked at every call."""
    factory = await factories.Factory.of(database)
    await stand_ins.install_pg_net(
        factory.conn, pagewarden_url=stand_ins.URL, pagewarden_key=stand_ins.KEY
    )
    await factory.conn.execute(
        "update public.edge_function_config set enabled = false where function_name = 'ocr-worker'"
    )
    await wait(factory.conn)

    await factory.queued()

    assert await stand_ins.sent(factory.conn) == []


@pytest.mark.parametrize(
    "trouble",
    [
        "drop function net.http_post",
        "alter table net.sent add constraint full_up check (false)",
        "alter schema net owner to supabase_admin",
        "drop schema vault cascade; create schema vault",
    ],
)
async def test_trouble_with_pg_net_is_a_warning_and_the_document_comes_in(
    database: databases.Database, trouble: str
) -> None:
    """A hint that cannot be given costs time, never a document."""
    factory, ear = await factories.Factory.of(database), await Ear.of(database)
    await stand_ins.install_pg_net(
        factory.conn, pagewarden_url=stand_ins.URL, pagewarden_key=stand_ins.KEY
    )
    operator = await database.connect("supabase_admin")
    await operator.execute(trouble.encode())
    warnings = _warnings(factory.conn)
    await wait(factory.conn)

    document = await factory.queued()

    assert warnings == [("WARNING", "It still runs on its schedule.")]
    assert await ear.heard() == ["image"]
    found = await queries.rows(operator, "select document_id from private.queue")
    assert found == [{"document_id": document}]


async def test_a_request_that_would_have_to_wait_is_given_up(database: databases.Database) -> None:
    """An upload waits half a second for pg_net, and no longer."""
    factory = await factories.Factory.of(database)
    await stand_ins.install_pg_net(
        factory.conn, pagewarden_url=stand_ins.URL, pagewarden_key=stand_ins.KEY
    )
    case = await factory.case()
    await wait(factory.conn)
    await factory.conn.execute(f"set statement_timeout = '{PATIENCE}'")
    other = await database.connect()

    async with other.transaction():
        await other.execute("lock table net.sent")
        await factory.queued(case)

    assert await stand_ins.sent(factory.conn) == []


# Schedules ----------------------------------------------------------------------------------


async def test_migrations_make_the_schedules_of_pg_cron(bare_database: databases.Database) -> None:
    """Every function that has a schedule gets a job; the sweep is SQL; jobs of others stay.

    Alerts have two: SQL evaluates them, and a function sends their messages, if it is to.
    """
    conn = await bare_database.connect()
    await stand_ins.install_pg_cron(bare_database)
    for job in ("pagewarden-sweep", "nightly"):
        await conn.execute("select cron.schedule(%s, '5 seconds', 'select 1')", (job,))

    await migrations.migrate(bare_database.url())

    jobs = await stand_ins.jobs(conn)
    wanted = await queries.rows(
        conn,
        "select function_name, schedule from public.edge_function_config "
        "where schedule is not null and enabled",
    )
    evaluate, send = "pagewarden-sql-evaluate-alerts", "pagewarden-alerts"
    assert {name for name in jobs if name not in ("nightly", evaluate)} == {
        f"pagewarden-{row['function_name']}" for row in wanted
    }
    assert jobs["nightly"] == ("5 seconds", "select 1")
    assert jobs["pagewarden-stale-monitor"] == ("5 seconds", "select public.sweep_documents()")
    command = "select private.call_function('ocr-worker')"
    assert jobs["pagewarden-ocr-worker"] == ("* * * * *", command)
    for _, command in jobs.values():
        await conn.execute(command.encode())

    evaluation = ("* * * * *", "select public.evaluate_alerts()")
    message = "select private.call_function('alerts')"
    assert (jobs.get(evaluate), jobs[send]) == (evaluation, ("* * * * *", message))
    for change, sent in (
        ("schedule = '*/5 * * * *'", ("*/5 * * * *", message)),
        ("enabled = false", None),
        ("enabled = true", ("*/5 * * * *", message)),
        ("schedule = null", None),
    ):
        update = f"update edge_function_config set {change} where function_name = 'alerts'"
        await conn.execute(update.encode())
        jobs = await stand_ins.jobs(conn)
        assert (jobs[evaluate], jobs.get(send)) == (evaluation, sent), change


async def test_a_change_of_the_configuration_is_a_change_of_the_schedule(
    database: databases.Database,
) -> None:
    """As our services make it: another schedule, a switch, a function that goes."""
    conn = await database.connect()
    await stand_ins.install_pg_cron(database)

    async with database.acting_as("service_role") as service:
        change = "update edge_function_config set {} where function_name = 'ocr-worker'"
        await service.execute(change.format("schedule = '*/5 * * * *'").encode())
    assert (await stand_ins.jobs(conn))["pagewarden-ocr-worker"][0] == "*/5 * * * *"
    before = await queries.rows(conn, "select ctid::text, jobname from cron.job order by jobname")

    async with database.acting_as("service_role") as service:
        await service.execute(change.format("enabled = false").encode())
        await service.execute("delete from edge_function_config where function_name = 'pdf-worker'")

    gone = {"pagewarden-ocr-worker", "pagewarden-pdf-worker"}
    after = await queries.rows(conn, "select ctid::text, jobname from cron.job order by jobname")
    assert after == [row for row in before if row["jobname"] not in gone]


async def test_without_pg_cron_a_schedule_is_only_kept(database: databases.Database) -> None:
    """Then the local scheduler reads it."""
    conn = await database.connect()
    async with conn.transaction(force_rollback=True):
        await conn.execute("update public.edge_function_config set schedule = '30 seconds'")
        found = await queries.one(conn, "select private.apply_schedules() as count")
        assert found == {"count": 0}


@pytest.mark.parametrize(
    "change",
    [
        "schedule = ''",
        "schedule = '60 seconds'",
        "schedule = '0 seconds'",
        "schedule = '5 minutes'",
        "schedule = '* * * *'",
        "lanes = '{nope}'",
        "lanes = null",
    ],
)
async def test_a_schedule_that_is_none_and_a_lane_that_is_not_there_are_refused(
    database: databases.Database, change: str
) -> None:
    """What nobody could follow is not kept."""
    conn = await database.connect()
    with pytest.raises(psycopg.IntegrityError):
        await conn.execute(f"update public.edge_function_config set {change}".encode())
