"""What a worker does with documents, and what becomes of them when something is wrong."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from pagewarden import documents, errors
from pagewarden.database import User, tables
from pagewarden.documents import attempt, lanes
from pagewarden.documents import worker as worker_module
from tests.database import queries
from tests.documents import readers
from tests.support.single_reader import SingleReader

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from pagewarden.database import arguments
    from tests.support import databases


async def test_pages_and_their_number_are_saved_as_they_are_read(desk: readers.Desk) -> None:
    """Text, details and how many pages there are."""
    pages = [documents.Page(number, text=f"page {number}", of=3, confidence=0.5, language="fr",
                            details={"dpi": 300}) for number in (1, 2, 3)]  # fmt: skip
    document = await desk.factory.queued()

    assert await desk.drain(readers.Recorder(pages)) == {"completed": 1}

    row = await desk.row(document)
    assert (row["ocr_status"], row["page_count"], row["attempts"]) == ("completed", 3, 1)
    saved = await desk.link.select(tables.ocr_pages, order="page_number")
    assert [page["text"] for page in saved] == ["page 1", "page 2", "page 3"]
    assert (saved[0]["language"], saved[0]["details"]) == ("fr", {"dpi": 300})
    assert await queries.violations(desk.factory.conn) == []


async def test_a_conflict_of_transactions_is_tried_again(desk: readers.Desk) -> None:
    """A serialization failure at the completion costs neither the document nor its attempt."""
    await desk.factory.conn.execute("""
        create sequence public.completions;
        grant usage on sequence public.completions to public;
        create function public.conflict_once() returns trigger language plpgsql as $$
        begin
          if nextval('public.completions') = 1 then
            raise exception 'could not serialize access' using errcode = '40001';
          end if;
          return new;
        end $$;
        create trigger conflict_once before update on public.documents for each row
          when (new.ocr_status = 'completed') execute function public.conflict_once();
    """)
    document = await desk.factory.queued()

    assert await desk.drain(readers.Recorder()) == {"completed": 1}

    row = await desk.row(document)
    assert (row["ocr_status"], row["attempts"], row["retry_count"]) == ("completed", 1, 0)


async def test_a_worker_drains_its_lanes_and_asks_for_a_hint(desk: readers.Desk) -> None:
    """It ends when nothing is left, and what comes next is told to somebody."""
    for _ in range(3):
        await desk.factory.queued()
    await desk.factory.queued(lane="pdf")

    assert await desk.drain(readers.Recorder()) == {"completed": 3}
    await desk.is_waited_for()
    assert await desk.drain(readers.Recorder()) == {}


async def test_a_worker_whose_time_is_up_gives_back_what_is_unfinished(
    desk: readers.Desk,
) -> None:
    """Uncounted, with the pages it has read and their number; and it claims nothing more."""
    reader = readers.Recorder([documents.Page(1, text="text", of=9)], stuck=True)
    waiting = [await desk.factory.queued(), await desk.factory.queued()]

    outcomes = await desk.drain(reader, budget_seconds=2)

    assert outcomes == {"given_back": 1}
    for document in waiting:
        row = await desk.row(document)
        assert (row["ocr_status"], row["attempts"], row["lock_token"]) == ("queued", 0, None)
    assert {(await desk.row(document))["page_count"] for document in waiting} == {9, None}
    assert len(await desk.link.select(tables.ocr_pages)) == 1
    assert await queries.violations(desk.factory.conn) == []


async def test_the_next_attempt_goes_on_where_the_last_one_was(desk: readers.Desk) -> None:
    """Pages that are saved are not read again."""
    pages = [documents.Page(number, text="text") for number in (1, 2)]
    document = await desk.factory.queued()
    async with readers.at_work(desk.worker(readers.Recorder(pages, stuck=True))):
        await desk.has_saved(2)

    reader = readers.Recorder([*pages, documents.Page(3, text="text")])
    assert await desk.drain(reader) == {"completed": 1}

    assert reader.skipped == [frozenset({1, 2})]
    assert (await desk.row(document))["attempts"] == 1


async def test_towards_the_end_of_its_time_a_worker_claims_nothing(
    desk: readers.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it could only give back stays where it is."""
    monkeypatch.setattr(worker_module, "CLAIMING_SHARE", 0.0)
    document = await desk.factory.queued()

    assert await desk.drain(readers.Recorder(), budget_seconds=readers.LONG) == {}

    row = await desk.row(document)
    assert (row["ocr_status"], row["claimed_at"]) == ("queued", None)


async def test_a_service_that_wants_us_to_wait_is_left_alone_so_long(desk: readers.Desk) -> None:
    """Its own figure counts, not only the backoff of the lane."""
    document = await desk.factory.queued()
    wait = errors.RateLimited("too many requests", retry_after=3599.5)

    assert await desk.drain(readers.Recorder([wait])) == {"failed": 1}

    row = await desk.row(document)
    assert row["retry_count"] == 1
    assert datetime.fromisoformat(row["retry_at"]) > datetime.now(UTC) + timedelta(minutes=58)


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (errors.DamagedFile("the file is broken"), "permanent"),
        (errors.OutOfMemory("too large"), "resource"),
        (errors.FileNotFound("no such file"), "transient"),
        (ValueError("nobody foresaw this"), "unknown"),
        (ValueError(), "unknown"),
        (errors.DamagedFile("half a \ud800 letter, \0 and" + 20_000 * "é"), "permanent"),
    ],
    ids=["damaged", "memory", "no file", "surprise", "speechless", "unspeakable"],
)
async def test_an_error_is_written_down_with_its_category(
    desk: readers.Desk, error: Exception, category: str
) -> None:
    """Pages before it are kept; the worker takes the next document."""
    document = await desk.factory.queued()

    reader = readers.Recorder((documents.Page(1, text="kept"), error))
    assert await desk.drain(reader) == {"failed": 1}

    (noted,) = await desk.link.select(tables.ocr_errors, where={"document_id": str(document)})
    assert noted["error_category"] == category
    assert noted["error_details"] == {"type": type(error).__name__}
    assert noted["error_message"][:10] == (str(error) or "ValueError")[:10].replace("\ud800", "?")
    assert [page["text"] for page in await desk.link.select(tables.ocr_pages)] == ["kept"]
    assert await queries.violations(desk.factory.conn) == []


async def test_an_outage_pauses_the_lane_and_counts_nothing(desk: readers.Desk) -> None:
    """The store that is away is nobody's fault; the document waits."""
    document = await desk.factory.queued()

    outcomes = await desk.drain(readers.Recorder([errors.StoreUnavailable("the store is away")]))

    assert outcomes == {"given_back": 1}
    row = await desk.row(document)
    assert (row["ocr_status"], row["attempts"], row["retry_count"]) == ("queued", 0, 0)
    (lane,) = await desk.link.select(tables.lanes, where={"lane": "image"})
    assert (lane["pause_kind"], lane["pause_reason"]) == ("outage", "the store is away")


class OneFileAway(readers.Recorder):
    """Takes the store for away whenever it is asked for one of the documents."""

    async def read(
        self, claim: documents.Claim, done: frozenset[int]
    ) -> AsyncGenerator[documents.Page]:
        """Hand out the pages of all others."""
        if claim.name == "bad":
            raise errors.StoreUnavailable("the disk does not work")
        async for page in super().read(claim, done):
            yield page


async def test_an_outage_of_one_file_is_its_failure_and_stops_nothing_else(
    database: databases.Database,
) -> None:
    """The probe is another document; when that is read, the first one's attempts count."""
    async with readers.opened(database) as desk:
        await desk.factory.conn.execute("update lanes set probe_seconds = 0, backoff_seconds = 0")
        case = await desk.factory.case()
        bad = await desk.factory.queued(
            case, p_document_name="bad", p_new_dropbox_path="/a/bad.png"
        )
        good = await desk.factory.queued(case)

        outcomes = await desk.drain(OneFileAway())

        assert outcomes == {"given_back": 1, "completed": 1, "failed": 3}
        assert (await desk.row(good))["ocr_status"] == "completed"
        row = await desk.row(bad)
        assert (row["ocr_status"], row["retry_count"]) == ("dead_letter", 3)
        assert "/a/bad.png" in row["ocr_error"]
        (lane,) = await desk.link.select(tables.lanes, where={"lane": "image"})
        assert lane["paused_at"] is None
        assert await queries.violations(desk.factory.conn) == []


async def test_a_page_that_the_database_refuses_fails_its_document_alone(
    desk: readers.Desk,
) -> None:
    """Nonsense of a reader is no reason to stop."""
    bad, good = await desk.factory.queued(), await desk.factory.queued()
    nonsense = readers.Recorder([documents.Page(1, confidence=7.0)])

    outcomes = await desk.drain(nonsense)

    assert outcomes == {"failed": 2}
    assert {(await desk.row(one))["ocr_status"] for one in (bad, good)} == {"dead_letter"}


async def test_too_many_failed_pages_fail_the_document(desk: readers.Desk) -> None:
    """The database counts the attempt itself."""
    document = await desk.factory.queued()
    pages = [documents.Page(1, status="failed", error="torn"), documents.Page(2, text="text")]

    assert await desk.drain(readers.Recorder(pages)) == {"failed": 1}

    assert (await desk.row(document))["retry_count"] == 1


async def test_an_attempt_that_gains_no_page_does_not_yield(
    desk: readers.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that fails in every attempt cannot keep a document from its end."""

    async def find_other_work(worker: documents.Worker, claim: documents.Claim) -> str:
        return f"{worker.worker_id} prefers others to {claim.name}"

    monkeypatch.setattr(documents.Worker, "find_reason_to_yield", find_other_work)
    monkeypatch.setattr(attempt, "MAX_UNSAVED_PAGES", 1)  # so that each page is a batch
    await desk.factory.conn.execute("update lanes set failed_pages_allowed = 0.5")
    document = await desk.factory.queued()
    torn = documents.Page(2, status="failed", error="torn", of=4)
    reader = readers.Recorder(
        [documents.Page(1, of=4), torn, documents.Page(3, of=4), documents.Page(4, of=4)]
    )

    assert await desk.drain(reader) == {"given_back": 2, "completed": 1}

    assert reader.skipped == [frozenset(), frozenset({1}), frozenset({1, 3})]
    assert (await desk.row(document))["attempts"] == 1


async def test_a_failed_last_page_is_no_reason_to_yield(
    desk: readers.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left to read."""

    async def find_other_work(worker: documents.Worker, claim: documents.Claim) -> str:
        return f"{worker.worker_id} prefers others to {claim.name}"

    monkeypatch.setattr(documents.Worker, "find_reason_to_yield", find_other_work)
    await desk.factory.conn.execute("update lanes set failed_pages_allowed = 0.5")
    await desk.factory.queued()
    pages = [documents.Page(1, of=2), documents.Page(2, status="failed", error="torn", of=2)]

    assert await desk.drain(readers.Recorder(pages)) == {"completed": 1}


class _FailsOver(readers.Counted):
    """A database that is replaced by an older copy just before its first completion."""

    def __init__(self, desk: readers.Desk, lost: str) -> None:
        super().__init__(desk.link)
        self._conn = desk.factory.conn
        self._lost = lost

    async def _rpc(self, name: str, given: arguments.Arguments) -> Any:
        if name == "process_ocr_atomic" and not self.of(name):
            await self._conn.execute(self._lost.encode())
        return await super()._rpc(name, given)


@pytest.mark.parametrize(
    ("lost", "missing"),
    [
        ("delete from ocr_pages where page_number between 4 and 6", {4, 5, 6}),
        ("delete from ocr_pages where page_number >= 8", {8, 9}),
        (
            "update documents set page_count = null, open_run_id = null; delete from ocr_runs",
            set(range(1, 10)),
        ),
    ],
    ids=["a hole", "the end", "everything since the claim"],
)
async def test_pages_that_a_failover_lost_are_read_again(
    desk: readers.Desk, lost: str, missing: set[int]
) -> None:
    """The result is refused, the attempt counts as failed, and the next one reads just those."""
    reader = readers.Recorder([documents.Page(number, of=9) for number in range(1, 10)])
    document = await desk.factory.queued()

    assert await desk.drain(reader, database=_FailsOver(desk, lost)) == {"failed": 1}

    row = await desk.row(document)
    assert (row["ocr_status"], row["retry_count"], row["lock_token"]) == ("queued", 1, None)
    (error,) = await desk.link.select(tables.ocr_errors)
    assert (error["error_category"], set(error["error_details"]["missing"])) == (
        "transient",
        missing,
    )
    assert await queries.violations(desk.factory.conn) == []

    await desk.factory.conn.execute("update documents set retry_at = null")
    assert await desk.drain(reader) == {"completed": 1}

    assert reader.skipped == [frozenset(), frozenset(range(1, 10)) - missing]
    row = await desk.row(document)
    saved = await desk.link.select(tables.ocr_pages, order="page_number")
    assert [page["page_number"] for page in saved] == list(range(1, 10))
    assert (row["page_count"], {page["run_id"] for page in saved}) == (9, {row["run_id"]})
    assert await queries.violations(desk.factory.conn) == []


async def test_a_picture_whose_page_a_failover_lost_is_no_bad_picture() -> None:
    """The attempt fails, and the page is read again."""
    with pytest.raises(errors.ReadingError) as failure:
        await lanes.check_image(
            {
                "success": True, "error": None, "message": None, "document_id": None,
                "language": "fr", "allowed": [], "images": [], "pages": [],
            }
        )  # fmt: skip
    assert failure.value.category is not errors.Category.PERMANENT


async def test_a_document_that_is_taken_away_is_dropped(desk: readers.Desk) -> None:
    """The heartbeat finds out, and the worker goes on with the next one."""
    reader = readers.Recorder(stuck=True)
    worker = desk.worker(reader, heartbeat_seconds=0.05, idle_seconds=0.1)
    async with readers.at_work(worker):
        document = await desk.factory.queued()
        assert await reader.next() == str(document)
        await desk.factory.call("cancel_document", p_document_id=document)
        another = await desk.factory.queued()
        assert await reader.next() == str(another)
    assert (await desk.row(document))["ocr_status"] == "cancelled"
    assert (await desk.row(another))["ocr_status"] == "queued"


async def test_a_worker_stops_also_when_the_database_is_away(
    desk: readers.Desk, database: databases.Database
) -> None:
    """It cannot give its document back, and waits no longer than the lock would last."""
    async with readers.opened(database) as other:
        reader = readers.Recorder(stuck=True)
        async with readers.at_work(other.worker(reader, lock_seconds=1, idle_seconds=0.1)) as stop:
            document = await desk.factory.queued()
            assert await reader.next() == str(document)
            await other.link.aclose()
            stop.set()
    assert (await desk.row(document))["ocr_status"] == "processing"


async def test_a_worker_without_rights_ends_with_an_error(
    desk: readers.Desk, database: databases.Database
) -> None:
    """To try for ever what is never allowed would look like work."""
    async with readers.opened(database) as other:
        link = other.link.acting_as(User(str(await desk.factory.user())))
        worker = documents.Worker(link, SingleReader(readers.Recorder()), "w", ["image"], 20, 5)
        with pytest.raises(errors.Forbidden):
            await asyncio.wait_for(worker.run(asyncio.Event()), readers.PATIENCE)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.DocumentTooLarge("60,000 x 60,000 pixels"), "dead_letter"),
        (errors.DamagedFile("broken"), "dead_letter"),
        (errors.OutOfMemory("too much"), "queued"),
    ],
)
async def test_what_trying_again_cannot_help_is_not_tried_again(
    desk: readers.Desk, error: errors.PagewardenError, status: str
) -> None:
    """A file stays as large and as broken as it is; memory may be there the next time."""
    document = await desk.factory.queued(await desk.factory.case())
    await desk.drain(readers.Recorder([error]))
    row = await desk.row(document)
    assert (row["ocr_status"], row["attempts"]) == (status, 1)
