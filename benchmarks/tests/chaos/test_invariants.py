"""The referee of `python -m benchmarks chaos` sees what a broken build lets happen."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.chaos import invariants, plan
from pagewarden import errors
from tests.support import crowd

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import psycopg

    from tests.support import databases

SAVE = "select to_jsonb(r) from public.save_document_pages(%s, %s, %s, 'fake', '1') as r"
COMPLETE = "select public.process_ocr_atomic(%s, '{}', 1, 1, %s, 'fake', '1')"
BEAT = "select to_jsonb(r) from public.extend_document_lock(%s, %s) as r"
PAGE = json.dumps([{"page_number": 1, "text": "a"}])


@dataclass
class Program:
    """A program of a run: a connection that bears its number, and a worker that does."""

    number: int
    conn: psycopg.AsyncConnection
    token: str = ""

    async def claim(self) -> str:
        """Take the next document."""
        worker = f"{socket.gethostname()}-{self.number}-1"
        found = await crowd.call(
            self.conn, "select (c.id, c.lock_token) from public.claim_documents(%s) as c", worker
        )
        document, self.token = map(str, found)
        return document

    async def call(self, query: str, *params: object) -> bool:
        """Ask for something that may be refused."""
        return bool((await crowd.call(self.conn, query, *params))["success"])


@dataclass
class Hall:
    """A database with a referee, one document, two programs, and HAC."""

    admin: psycopg.AsyncConnection
    first: Program
    second: Program

    async def rules(self) -> list[str]:
        """Name the rules that were violated."""
        rows = await self.admin.execute("select rule from chaos.violations order by id")
        return [rule for (rule,) in await rows.fetchall()]

    async def kinds(self) -> list[str]:
        """Name what was seen."""
        rows = await self.admin.execute("select kind from chaos.events order by id")
        return [kind for (kind,) in await rows.fetchall()]

    async def take_over(self) -> str:
        """Let the lock of the first program expire, and the second take its document."""
        document = await self.first.claim()
        await self.admin.execute("select public.sweep_documents(now() + interval '25 seconds')")
        assert await self.second.claim() == document
        return document


@pytest.fixture
async def hall(database: databases.Database) -> AsyncIterator[Hall]:
    """Seat the referee."""
    async with (
        await crowd.connect(database.url("supabase_admin")) as admin,
        await crowd.connect(database.url()) as one,
        await crowd.connect(database.url()) as two,
    ):
        await invariants.install(admin)
        case = await crowd.call(admin, "select public.create_case('chaos')")
        listed = json.dumps([{"name": "a"}])
        await admin.execute("select public.add_documents(%s, %s, 'image')", (case, listed))
        programs = [Program(number, conn) for number, conn in ((11, one), (12, two))]
        for program in programs:
            await program.conn.execute(
                "select set_config('application_name', %s, false)", (f"chaos-{program.number}",)
            )
        yield Hall(admin, *programs)


async def test_whoever_has_a_document_may_read_it(hall: Hall) -> None:
    """Claim, heartbeat, pages and completion of one program are nothing to object to."""
    document = await hall.first.claim()
    assert await hall.first.call(BEAT, document, hall.first.token)
    assert await hall.first.call(SAVE, document, hall.first.token, PAGE)
    assert await hall.first.call(COMPLETE, document, hall.first.token)

    assert await hall.rules() == []
    assert await hall.kinds() == ["claimed", "completed"]


async def test_a_late_worker_of_a_sound_build_can_do_nothing(hall: Hall) -> None:
    """It is refused, and the referee has seen the rescue and the second claim."""
    document = await hall.take_over()

    assert not await hall.first.call(SAVE, document, hall.first.token, PAGE)
    assert not await hall.first.call(COMPLETE, document, hall.first.token)
    assert await hall.rules() == []
    assert await hall.kinds() == ["claimed", "rescued", "claimed"]


@pytest.mark.parametrize("name", ["fencing", "tokens"])
async def test_a_late_worker_of_a_broken_build_is_accused(hall: Hall, name: str) -> None:
    """Its pages and its completion are taken, and the referee saw who it was."""
    await plan.break_build(hall.admin, name)
    document = await hall.take_over()

    assert await hall.first.call(SAVE, document, hall.first.token, PAGE)
    assert await hall.first.call(COMPLETE, document, hall.first.token)
    assert set(await hall.rules()) == {
        "only who has a document saves pages of it",
        "only who has a document completes it",
        "a result is written by who read it",
    }


async def test_a_lock_taken_away_early_is_seen_unless_hac_did_it(hall: Hall) -> None:
    """Another program may not release it; HAC may take it for stuck."""
    document = await hall.first.claim()
    stuck = "select to_jsonb(r) from public.recover_stuck_documents(0, array[%s::uuid]) as r"
    assert await crowd.call(hall.admin, stuck, document)
    assert await hall.rules() == []

    await hall.first.claim()
    held = json.dumps([{"document_id": document, "lock_token": hall.first.token}])
    assert await hall.second.call("select to_jsonb(r) from public.release_documents(%s) as r", held)
    assert await hall.rules() == ["nobody takes away a lock that has not expired"]


async def test_heartbeats_of_a_broken_build_keep_nothing_alive(hall: Hall) -> None:
    """They are answered as if all were well, and the lock expires all the same."""
    await plan.break_build(hall.admin, "heartbeat")
    document = await hall.first.claim()
    asked = "select lock_expires_at from public.documents"
    before = await crowd.call(hall.admin, asked)

    assert await hall.first.call(BEAT, document, hall.first.token)
    assert await crowd.call(hall.admin, asked) == before


async def test_the_names_of_workers_lead_to_their_processes(hall: Hall) -> None:
    """The referee in the database and the one outside agree."""
    worker = f"{socket.gethostname()}-4711-ocr-worker-2"
    found = await crowd.call(hall.admin, "select chaos.process_of(%s)", worker)

    assert found == "4711"
    assert invariants.pid_of(worker) == 4711
    assert invariants.pid_of(None) == 0


def test_a_safeguard_that_is_no_longer_there_cannot_be_taken_away() -> None:
    """A sound build must not pass for a broken one."""
    changes: dict[str, Any] = {"and token = p_token": ""}

    assert plan.without("where id = 1 and token = p_token", changes, "f") == "where id = 1 "
    with pytest.raises(errors.LocalStackError, match="f no longer has"):
        plan.without("where id = 1", changes, "f")
