"""Programs of the pool: calls of idle workers, the order of lanes, and documents that yield."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pagewarden import database as gateways
from pagewarden import documents
from pagewarden.database import listener, tables
from pagewarden.pool import manager, program
from pagewarden.pool.capacity import Capacity, Reservation, ResourceCost
from pagewarden.pool.plan import PoolPlan
from pagewarden.pool.program import PoolProgram
from tests.database import factories, queries
from tests.documents import readers
from tests.support import polling
from tests.support.single_reader import SingleReader

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable
    from pathlib import Path

    import pytest

    from pagewarden.database import arguments, rows
    from tests.support import databases


def _make_plan(*lanes: str, size: int = 4, folder: Path | None = None) -> PoolPlan:
    weights = dict.fromkeys(lanes, Fraction(1))
    minimums: dict[str, int] = {lane: 1 for lane in lanes if lane in {"index", "acte"}}
    limit = ResourceCost(99, 1e6)
    return PoolPlan(weights, minimums, size, size, 600.0, limit, usage_folder=folder)


async def test_idle_pool_does_not_poll_the_database(
    database: databases.Database, tmp_path: Path
) -> None:
    """Each worker claims, subscribes and claims again; then no more calls follow."""
    async with await gateways.connect_direct(database.url()) as link:
        counted, hints, stop = readers.Counted(link), listener.Listener(), asyncio.Event()
        pool = PoolProgram(counted, SingleReader(readers.Recorder()), hints, "p", 20, 5, 600)
        working = asyncio.create_task(
            pool.run(_make_plan("index", "acte", folder=tmp_path / "usage"), stop)
        )
        calls = 4 * 3  # claim, wait, claim
        await polling.wait_until(lambda: counted.of("claim_documents") >= 8)
        for _ in range(50):  # time for more calls
            await link.select(tables.lanes)
        assert counted.of("claim_documents", "wait_for_documents") <= calls + 4
        stop.set()
        await working
        assert (await link.pool_status())["workers"] == []


@dataclass(frozen=True, slots=True)
class PagedReader:
    """Reads documents of 100 pages in lane acte, of one in others, each page after a permit."""

    permits: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    read_pages: list[tuple[str, int]] = field(default_factory=list)

    async def get_run(self, claim: documents.Claim) -> documents.ReadingRun:
        """Name a run that is always the same."""
        assert claim.lock_token
        return documents.ReadingRun("paged", "1")

    async def read(
        self, claim: documents.Claim, done: frozenset[int]
    ) -> AsyncGenerator[documents.Page]:
        """Yield the pages that are not done."""
        count = 100 if claim.lane == "acte" else 1
        for number in range(1, count + 1):
            if number not in done:
                await self.permits.acquire()
                self.read_pages.append((claim.lane, number))
                yield documents.Page(number, text="text", confidence=number / 100, of=count)


@contextlib.asynccontextmanager
async def _run_pool(
    database: databases.Database,
    reader: PagedReader,
    plan: PoolPlan,
    wrap: Callable[[gateways.Database], gateways.Database] = lambda link: link,
) -> AsyncIterator[asyncio.Event]:
    """Run a program of the pool with the privileges of a worker."""
    url, stop = database.url("pagewarden_worker"), asyncio.Event()
    async with (
        await gateways.connect_direct(url) as link,
        listener.open_listener(url) as hints,
    ):
        pool = PoolProgram(wrap(link), SingleReader(reader), hints, "p", 20, 5, 0.05)
        running = asyncio.create_task(pool.run(plan, stop))
        yield stop
        stop.set()
        await running


async def test_long_document_yields_between_pages_and_is_resumed(
    database: databases.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single worker reads an upload in the middle of an acte, which counts as one attempt."""
    monkeypatch.setattr(program, "TURN_SECONDS", 0.0)
    reader, factory = PagedReader(), await factories.Factory.of(database)
    plan = _make_plan("image", "acte", size=1, folder=tmp_path / "usage")

    async def has_state(lane: str, status: str) -> bool:
        query = "select ocr_status = %s from documents where lane = %s"
        return await (await factory.conn.execute(query, (status, lane))).fetchone() == (True,)

    async with _run_pool(database, reader, plan):
        await factory.queued(lane="acte")
        await polling.wait_until(lambda: has_state("acte", "processing"))
        await factory.queued(lane="image")
        while not await has_state("image", "completed"):
            reader.permits.release()
            await asyncio.sleep(0.01)
        for _ in range(100):
            reader.permits.release()
        await polling.wait_until(lambda: has_state("acte", "completed"))
    assert ("image", 1) in reader.read_pages[1:100]
    pages = [number for lane, number in reader.read_pages if lane == "acte"]
    assert set(pages) == set(range(1, 101))
    assert len(pages) < 110  # those that were being read meanwhile are read again
    (acte,) = await queries.rows(
        factory.conn,
        "select d.attempts, d.retry_count, d.rescues, confidence_score::float as confidence"
        " from documents as d join ocr_processing_logs as r on r.document_id = d.id"
        " where lane = 'acte'",
    )
    assert acte == {"attempts": 1, "retry_count": 0, "rescues": 0, "confidence": 0.505}
    assert await queries.violations(factory.conn) == []


class HeldClaims(readers.Counted):
    """The answer of a claim of lane image alone arrives when the test says so."""

    def __init__(self, link: gateways.Database) -> None:
        super().__init__(link)
        self.claimed, self.answer = asyncio.Event(), asyncio.Event()

    async def _rpc(self, name: str, given: arguments.Arguments) -> Any:
        answer = await super()._rpc(name, given)
        if name == "claim_documents" and given.values.get("p_lanes") == ["image"] and answer:
            self.claimed.set()
            await self.answer.wait()
        return answer


async def test_a_document_claimed_during_a_stop_is_given_back(
    database: databases.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stop ends the attempt that was about to yield; the sweep has nothing to rescue."""
    monkeypatch.setattr(program.WorkerActivity, "has_turn", lambda _, now: now < 0)
    reader, factory = PagedReader(), await factories.Factory.of(database)
    plan = _make_plan("image", "acte", size=1, folder=tmp_path / "usage")
    held: list[HeldClaims] = []

    def wrap(link: gateways.Database) -> HeldClaims:
        held.append(HeldClaims(link))
        return held[0]

    async def has_status(document: object, status: str) -> bool:
        query = "select ocr_status = %s from documents where id = %s"
        return await (await factory.conn.execute(query, (status, document))).fetchone() == (True,)

    async with _run_pool(database, reader, plan, wrap) as stop:
        acte = await factory.queued(lane="acte")
        await polling.wait_until(lambda: has_status(acte, "processing"))
        image = await factory.queued(lane="image")
        while not held[0].claimed.is_set():
            reader.permits.release()
            await asyncio.sleep(0.01)
        stop.set()
        await polling.wait_until(lambda: has_status(acte, "queued"))
        held[0].answer.set()
    row = await queries.one(factory.conn, "select * from documents where id = %s", (image,))
    assert (row["ocr_status"], row["attempts"], row["rescues"]) == ("queued", 0, 0)


def test_a_turn_begins_with_the_first_page_and_makes_up_for_the_fetch() -> None:
    """Lanes that share a worker would otherwise fetch a file for each page."""
    state = _make_state("acte", waiting=set())
    (activity,) = state.workers.values()
    for fetched, ends in ((0.5, 3.5), (10.0, 20.0)):
        activity.first_page_at = None
        times = (fetched, ends - 0.1, ends + 0.1)
        turns = [activity.has_turn(activity.since + seconds) for seconds in times]
        assert turns == [True, True, False]


def _make_state(*reading: str, waiting: set[str]) -> program.PoolState:
    plan = _make_plan("image", "check", "pdf", "index", "acte")
    state = program.PoolState(
        plan,
        Capacity(plan.limit),
        {lane: asyncio.Event() for lane in plan.lanes},
        waiting=waiting,
    )
    for number, lane in enumerate(reading):
        activity = program.WorkerActivity(Reservation(state.capacity))
        activity.start(
            documents.Claim(str(number), "token", "name", lane, None, None, None, None, 1)
        )
        state.workers[str(number)] = activity
    return state


def test_lanes_with_work_and_too_few_workers_come_in_turn() -> None:
    """A minimum of two, work that has just arrived, and readers of other programs count."""
    state = _make_state("acte", "acte", waiting={"acte", "index", "image"})
    assert state.list_neglected("acte") == ["image", "index"]
    assert state.list_neglected("image") == ["index", "image"]
    state.arrivals["pdf"].set()
    assert state.list_neglected(None) == ["image", "pdf", "index"]
    state.reading_elsewhere = {"image": 1, "pdf": 1}
    assert state.list_neglected(None) == ["index"]
    state.record_empty(["index"])
    assert state.list_neglected(None) == []
    assert state.count_surplus("acte") == 1


def test_programs_with_the_same_lanes_share_their_workers() -> None:
    """A program for PDFs only gets no other lane, whatever waits."""
    plan = _make_plan("image", "pdf", "index", "acte")
    workers: list[rows.AssignableWorker] = [
        {"worker_id": name, "lane": None, "is_idle": True, "seconds": None, "lanes": lanes}
        for name, lanes in (
            ("a", ["image", "pdf", "index", "acte"]),
            ("b", ["image", "pdf", "index", "acte"]),
            ("c", ["pdf"]),
        )
    ]
    backlog = {"image": 0, "pdf": 1, "index": 10, "acte": 10}
    assigned = manager.assign_lanes(plan, backlog, workers)
    assert {w.worker_id: w.lane for w in assigned} == {"a": "index", "b": "acte", "c": "pdf"}
    assert {w.reason for w in assigned} == {"the worker is new"}
