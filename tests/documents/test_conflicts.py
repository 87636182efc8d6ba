"""Conflicts with other transactions: five retries, then a failed attempt that leaves a trace.

The conflicts are those of Postgres: a trigger raises them.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from pagewarden import errors, retry
from pagewarden.database import retry as database_retry
from pagewarden.database import tables
from pagewarden.documents import lease
from tests.documents import readers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support import databases

CLAIM = "new.ocr_status = 'processing' and old.ocr_status <> 'processing'"
COMPLETION = "new.ocr_status = 'completed'"
HEARTBEAT = "new.lock_expires_at > old.lock_expires_at"
ALWAYS = 1_000_000


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry at once; test_retry checks the pauses."""
    pauses = [0.0] * len(database_retry.CONFLICT_SECONDS)
    policy = retry.RetryPolicy(pauses, is_transient=lambda exc: isinstance(exc, errors.Conflict))
    monkeypatch.setattr(database_retry, "_CONFLICTS", policy)


@pytest.fixture
def conflicts(database: databases.Database) -> Any:
    """Let changes of documents conflict so many times; the value counts the tries."""

    @contextlib.asynccontextmanager
    async def make(when: str, times: int) -> AsyncIterator[Callable[[], Any]]:
        admin = await database.connect("supabase_admin")
        await admin.execute("create sequence private.tries")  # not rolled back
        await admin.execute(
            f"""
            create function private.conflict() returns trigger language plpgsql security definer
            set search_path = '' as $$
            begin
              if nextval('private.tries') <= {times} then
                raise exception 'could not serialize access' using errcode = '40001';
              end if;
              return new;
            end;
            $$
            """.encode()
        )
        await admin.execute(
            "create trigger aaa_conflict before update on public.documents for each row"
            f" when ({when}) execute function private.conflict()".encode()
        )

        async def count() -> int:
            row = await (await admin.execute("select last_value from private.tries")).fetchone()
            assert row is not None
            return int(row[0])

        try:
            yield count
        finally:
            await admin.execute("drop trigger aaa_conflict on public.documents")
            await admin.execute("drop function private.conflict; drop sequence private.tries")

    return make


async def switch_off(desk: readers.Desk) -> None:
    """Disable the retries."""
    await desk.factory.conn.execute(
        "update edge_function_config set enabled = false"
        " where function_name = 'ocr-worker-retry-v2'"
    )


async def recorded(desk: readers.Desk) -> list[tuple[str, str]]:
    """List the errors, by kind and category."""
    rows = await desk.link.select(tables.ocr_errors)
    return [(row["kind"], row["error_category"]) for row in rows]


async def acquire(desk: readers.Desk, document: object) -> Any:
    """Claim a known document, as ocr-universal does."""
    return await lease.acquire_claim(desk.link, str(document), worker_id="w", lock_seconds=20)


async def test_version_conflicts_are_retried(desk: readers.Desk, conflicts: Any) -> None:
    """Test 1 of seed 002: two conflicts, three calls, and the document is claimed."""
    document = await desk.factory.queued()
    async with conflicts(CLAIM, 2) as tries:
        assert (await acquire(desk, document)).attempts == 1
        assert await tries() == 3
    assert await recorded(desk) == []


@pytest.mark.parametrize(("enabled", "calls"), [(True, 6), (False, 1)])
async def test_a_document_that_cannot_be_claimed_has_failed_once(
    desk: readers.Desk, conflicts: Any, *, enabled: bool, calls: int
) -> None:
    """After five retries, or at once where ocr-worker-retry-v2 is off."""
    document = await desk.factory.queued()
    if not enabled:
        await switch_off(desk)
    async with conflicts(CLAIM, ALWAYS) as tries:
        with pytest.raises(errors.Conflict):
            await acquire(desk, document)
        assert await tries() == calls
    row = await desk.row(document)
    assert (row["ocr_status"], row["retry_count"], row["attempts"]) == ("queued", 1, 0)
    assert row["retry_at"] is not None
    assert await recorded(desk) == [("conflict", "transient")]


async def test_conflicts_move_a_document_to_the_dead_letters_after_its_last_retry(
    desk: readers.Desk, conflicts: Any
) -> None:
    """Test 2 of seed 002: the call is rejected, and the dead letter is transient."""
    document = await desk.factory.queued()
    await desk.factory.conn.execute("update documents set max_attempts = 2")
    async with conflicts(CLAIM, ALWAYS):
        for status in ("queued", "dead_letter"):
            with pytest.raises(errors.Conflict):
                await acquire(desk, document)
            assert (await desk.row(document))["ocr_status"] == status
    (letter,) = await desk.link.select(tables.ocr_dead_letter)
    assert (letter["document_id"], letter["error_category"]) == (str(document), "transient")
    assert letter["failure_count"] == 2


@pytest.mark.parametrize(("enabled", "calls"), [(True, 6), (False, 1)])
@pytest.mark.parametrize("when", [COMPLETION, HEARTBEAT])
async def test_conflicts_of_a_worker_are_a_failed_attempt(
    desk: readers.Desk, conflicts: Any, when: str, *, enabled: bool, calls: int
) -> None:
    """At the end of a reading, or in the middle of one."""
    document = await desk.factory.queued()
    if not enabled:
        await switch_off(desk)
    reader = readers.Recorder(stuck=when == HEARTBEAT)
    async with conflicts(when, ALWAYS) as tries:
        assert await desk.drain(reader, heartbeat_seconds=0.05) == {"failed": 1}
        assert await tries() == calls
    row = await desk.row(document)
    assert (row["ocr_status"], row["retry_count"], row["attempts"]) == ("queued", 1, 1)
    assert await recorded(desk) == [("failure", "transient")]


async def test_what_is_given_up_for_good_goes_through_the_named_function(
    desk: readers.Desk,
) -> None:
    """move_to_dead_letter_queue counts the attempt, and is called with the token."""
    document = await desk.factory.queued()
    counted = readers.Counted(desk.link)
    reader = readers.Recorder([errors.DamagedFile("the file is damaged")])
    assert await desk.drain(reader, database=counted) == {"failed": 1}
    assert counted.of("move_to_dead_letter_queue") == 1
    assert counted.of("fail_document") == 0
    row = await desk.row(document)
    assert (row["ocr_status"], row["retry_count"], row["lock_token"]) == ("dead_letter", 1, None)
    (letter,) = await desk.link.select(tables.ocr_dead_letter)
    assert (letter["error_category"], letter["failure_count"]) == ("permanent", 1)
    assert await recorded(desk) == [("failure", "permanent")]
