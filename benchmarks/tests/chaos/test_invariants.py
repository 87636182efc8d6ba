"""The monitor of `python -m benchmarks chaos` detects violations of broken builds."""

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
    """A program of a run: its connection and its worker are named after its number."""

    number: int
    conn: psycopg.AsyncConnection
    token: str = ""

    async def claim(self) -> str:
        """Claim the next document."""
        worker = f"{socket.gethostname()}-{self.number}-1"
        claim = await crowd.fetch_value(
            self.conn, "select (c.id, c.lock_token) from public.claim_documents(%s) as c", worker
        )
        document, self.token = map(str, claim)
        return document

    async def call(self, query: str, *params: object) -> bool:
        """Call a function and return its success."""
        return bool((await crowd.fetch_value(self.conn, query, *params))["success"])


@dataclass
class MonitoredDatabase:
    """A database with the monitor, a document, two programs, and an administrator."""

    admin: psycopg.AsyncConnection
    first: Program
    second: Program

    async def rules(self) -> list[str]:
        """List the violated rules."""
        rows = await self.admin.execute("select rule from chaos.violations order by id")
        return [rule for (rule,) in await rows.fetchall()]

    async def kinds(self) -> list[str]:
        """List the kinds of the recorded events."""
        rows = await self.admin.execute("select kind from chaos.events order by id")
        return [kind for (kind,) in await rows.fetchall()]

    async def take_over(self) -> str:
        """Let the lock of the first program expire, and the second claim its document."""
        document = await self.first.claim()
        await self.admin.execute("select public.sweep_documents(now() + interval '25 seconds')")
        assert await self.second.claim() == document
        return document


@pytest.fixture
async def monitored(database: databases.Database) -> AsyncIterator[MonitoredDatabase]:
    """A database with the monitor installed."""
    async with (
        await crowd.connect(database.url("supabase_admin")) as admin,
        await crowd.connect(database.url()) as one,
        await crowd.connect(database.url()) as two,
    ):
        await invariants.install(admin)
        case = await crowd.fetch_value(admin, "select public.create_case('chaos')")
        documents = json.dumps([{"name": "a"}])
        await admin.execute("select public.add_documents(%s, %s, 'image')", (case, documents))
        programs = [Program(number, conn) for number, conn in ((11, one), (12, two))]
        for program in programs:
            await program.conn.execute(
                "select set_config('application_name', %s, false)", (f"chaos-{program.number}",)
            )
        yield MonitoredDatabase(admin, *programs)


async def test_calls_of_holder_are_no_violations(monitored: MonitoredDatabase) -> None:
    """Claim, heartbeat, pages and completion by one program."""
    document = await monitored.first.claim()
    assert await monitored.first.call(BEAT, document, monitored.first.token)
    assert await monitored.first.call(SAVE, document, monitored.first.token, PAGE)
    assert await monitored.first.call(COMPLETE, document, monitored.first.token)

    assert await monitored.rules() == []
    assert await monitored.kinds() == ["claimed", "completed"]


async def test_late_worker_is_refused(monitored: MonitoredDatabase) -> None:
    """The monitor has recorded the rescue and the second claim."""
    document = await monitored.take_over()

    assert not await monitored.first.call(SAVE, document, monitored.first.token, PAGE)
    assert not await monitored.first.call(COMPLETE, document, monitored.first.token)
    assert await monitored.rules() == []
    assert await monitored.kinds() == ["claimed", "rescued", "claimed"]


@pytest.mark.parametrize("name", ["fencing", "tokens"])
async def test_late_worker_of_broken_build_is_violation(
    monitored: MonitoredDatabase, name: str
) -> None:
    """Its pages and its completion are accepted, and the monitor identifies it."""
    await plan.break_build(monitored.admin, name)
    document = await monitored.take_over()

    assert await monitored.first.call(SAVE, document, monitored.first.token, PAGE)
    assert await monitored.first.call(COMPLETE, document, monitored.first.token)
    assert set(await monitored.rules()) == {
        "only the holder saves pages of a document",
        "only the holder completes a document",
        "a result is written by the worker that read the document",
    }


async def test_early_release_is_violation_unless_by_hac(monitored: MonitoredDatabase) -> None:
    """Another program may not release a document; HAC may recover it as stuck."""
    document = await monitored.first.claim()
    stuck = "select to_jsonb(r) from public.recover_stuck_documents(0, array[%s::uuid]) as r"
    assert await crowd.fetch_value(monitored.admin, stuck, document)
    assert await monitored.rules() == []

    await monitored.first.claim()
    held = json.dumps([{"document_id": document, "lock_token": monitored.first.token}])
    assert await monitored.second.call(
        "select to_jsonb(r) from public.release_documents(%s) as r", held
    )
    assert await monitored.rules() == ["an unexpired lock is not taken away"]


async def test_heartbeats_of_broken_build_do_not_extend_lock(monitored: MonitoredDatabase) -> None:
    """They succeed without any effect."""
    await plan.break_build(monitored.admin, "heartbeat")
    document = await monitored.first.claim()
    query = "select lock_expires_at from public.documents"
    before = await crowd.fetch_value(monitored.admin, query)

    assert await monitored.first.call(BEAT, document, monitored.first.token)
    assert await crowd.fetch_value(monitored.admin, query) == before


async def test_process_id_is_found_in_name_of_worker(monitored: MonitoredDatabase) -> None:
    """The function in SQL and the one in Python agree."""
    worker = f"{socket.gethostname()}-4711-ocr-worker-2"
    process = await crowd.fetch_value(monitored.admin, "select chaos.process_of(%s)", worker)

    assert process == "4711"
    assert invariants.parse_pid(worker) == 4711
    assert invariants.parse_pid(None) == 0


def test_missing_safeguard_cannot_be_replaced() -> None:
    """Otherwise the build would not be broken."""
    changes: dict[str, Any] = {"and token = p_token": ""}

    assert (
        plan.replace_safeguards("where id = 1 and token = p_token", changes, "f") == "where id = 1 "
    )
    with pytest.raises(errors.LocalStackError, match="f no longer has"):
        plan.replace_safeguards("where id = 1", changes, "f")
