"""The parts of a system started by `pagewarden up` are killed one after another.

`test_chaos.py` is the short test with random faults, which always runs.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import io
import itertools
import signal
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import psycopg
import pytest
from PIL import Image, ImageDraw, ImageFont

from benchmarks import system as systems
from pagewarden.local import server
from tests.ocr import samples
from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

TIMEOUT_SECONDS = 300.0
# Short times, so that documents of a dead worker are reclaimed within the test.
LOCKS = {"lock_seconds": "6", "heartbeat_seconds": "1", "sweep_seconds": "1"}
STEADY = {"engine": "fake-steady", "gpu_engine": "fake-steady", **LOCKS}
DAMAGED = b"%PDF-1.7\n" + b"x" * 2000


def _draw_page(number: int) -> Image.Image:
    """Draw a unique page."""
    page = Image.new("L", (800, 400), 255)
    font = ImageFont.load_default(size=32)
    ImageDraw.Draw(page).text((40, 40), f"page of document {number}", fill=0, font=font)
    return page


def _make_png(number: int) -> bytes:
    out = io.BytesIO()
    _draw_page(number).save(out, "PNG")
    return out.getvalue()


def _make_scan(number: int) -> bytes:
    out = io.BytesIO()
    pages = [_draw_page(number + page) for page in range(3)]
    pages[0].save(out, "PDF", save_all=True, append_images=pages[1:])
    return out.getvalue()


def _make_documents(count: int) -> Iterator[tuple[str, bytes, int]]:
    """Make documents: name, content, and number of readable pages."""
    for number in range(count):
        kind = number % 10
        if kind == 9:
            yield f"{number}-damaged.pdf", DAMAGED + str(number).encode(), 0
        elif kind >= 6:
            yield f"{number}-scan.pdf", _make_scan(1000 * number), 3
        elif kind == 5:
            lines = [f"Document {number}.", *samples.PROSE]
            yield f"{number}-text.pdf", samples.make_text_pdf(lines, lines), 2
        else:
            yield f"{number}-photo.png", _make_png(number), 1


async def _upload(client: httpx.AsyncClient, name: str, content: bytes) -> str:
    """Upload a file, retrying until it is accepted."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            with contextlib.suppress(httpx.TransportError):
                response = await client.post("/upload-to-dropbox", files={"file": (name, content)})
                if response.is_success:
                    document: str = response.json()["document_id"]
                    return document
                assert response.status_code in {500, 503}, response.text
            await asyncio.sleep(0.2)


class RunningSystem:
    """A system, the URL of its database, and the expected pages of each document."""

    def __init__(self, system: systems.System, url: str) -> None:
        self.system = system
        self.url = url
        self.expected: dict[str, int] = {}

    async def fetch_rows(self, query: str) -> Sequence[Any]:
        """Query the database, retrying while it is unavailable."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                try:
                    async with await psycopg.AsyncConnection.connect(self.url) as conn:
                        return await (await conn.execute(query.encode())).fetchall()
                except psycopg.OperationalError:
                    await asyncio.sleep(0.1)

    async def count(self, condition: str) -> int:
        """Count the documents with a condition."""
        ((number,),) = await self.fetch_rows(f"select count(*) from documents where {condition}")
        return int(number)

    async def upload(self, count: int) -> None:
        """Upload various documents."""
        async with self.system.client() as client:
            slots = asyncio.Semaphore(4)

            async def upload_one(name: str, content: bytes, pages: int) -> None:
                async with slots:
                    self.expected[await _upload(client, name, content)] = pages

            await asyncio.gather(*itertools.starmap(upload_one, _make_documents(count)))

    async def wait_until_ended(self, count: int) -> None:
        """Wait until a number of documents have ended."""

        async def have_ended() -> bool:
            return await self.count("ocr_status in ('completed', 'dead_letter')") >= count

        await polling.wait_until(have_ended, seconds=TIMEOUT_SECONDS)

    async def kill(self, name: str) -> int:
        """Kill a part as soon as it is running."""
        killed: list[int] = []

        def try_to_kill() -> bool:
            with contextlib.suppress(LookupError, psutil.Error):
                part = self.system.part(name)
                part.send_signal(signal.SIGKILL)
                killed.append(part.pid)
            return bool(killed)

        await polling.wait_until(try_to_kill)
        return killed[0]

    async def check(self) -> None:
        """Check that every document has one correct result and no invariant is violated."""
        rows = await self.fetch_rows(
            "select id::text, ocr_status, page_count, run_id from documents"
        )
        assert {row[0] for row in rows} == set(self.expected)
        ends = collections.Counter((row[1], self.expected[row[0]] > 0) for row in rows)
        assert set(ends) == {("completed", True), ("dead_letter", False)}, ends
        results = await self.fetch_rows(
            "select document_id::text, count(*) from ocr_processing_logs group by 1"
        )
        assert dict(results) == {d: 1 for d, pages in self.expected.items() if pages}
        saved = await self.fetch_rows(
            """
            select d.id::text, count(*) from documents d join ocr_pages p on p.run_id = d.run_id
            where p.status = 'read' group by 1
            """
        )
        assert dict(saved) == {d: pages for d, pages in self.expected.items() if pages}
        assert await self.fetch_rows("select * from private.invariant_violations()") == []


@contextlib.asynccontextmanager
async def open_system(**settings: str) -> AsyncIterator[RunningSystem]:
    """Start a system."""
    async with (
        systems.open_system(**settings) as system,
        server.open_server(system.home) as local,
    ):
        yield RunningSystem(system, local.url())


async def _kill_each_in_turn(tested: RunningSystem, count: int) -> None:
    """Kill every part while documents are uploaded and read; restart the database, too."""
    uploading = asyncio.create_task(tested.upload(count))
    victims = ["worker", "gpu", "functions", "database"]
    for step, victim in enumerate(victims, 1):
        await tested.wait_until_ended(count * step // (len(victims) + 2))
        if victim == "database":
            tested.system.database().send_signal(signal.SIGINT)  # fast shutdown ends all sessions
        else:
            await tested.kill(victim)
    await uploading
    await tested.wait_until_ended(count)
    await tested.check()


@pytest.mark.long
@pytest.mark.parametrize("settings", [STEADY, LOCKS], ids=["steady", "real"])
async def test_200_documents_survive_kills_of_every_part(settings: dict[str, str]) -> None:
    """Test a fake engine of constant cost, and the real one."""
    async with open_system(**settings) as tested:
        await _kill_each_in_turn(tested, 200)


async def _keep_killing(tested: RunningSystem, name: str, unavailable: asyncio.Event) -> None:
    """Kill a part whenever it is restarted."""
    while unavailable.is_set():
        with contextlib.suppress(LookupError, psutil.Error):
            tested.system.part(name).send_signal(signal.SIGKILL)
        await asyncio.sleep(0.02)


async def _run_with_outage(tested: RunningSystem, seconds: float) -> None:
    """Make the GPU service unavailable for a time while PDFs wait for it."""
    unavailable = asyncio.Event()
    unavailable.set()
    killing = asyncio.create_task(_keep_killing(tested, "gpu", unavailable))
    await tested.upload(20)
    paused = "select pause_kind from lanes where lane = 'pdf' and paused_at is not null"

    async def is_paused() -> bool:
        return await tested.fetch_rows(paused) == [("outage",)]

    await polling.wait_until(is_paused, seconds=TIMEOUT_SECONDS)
    await asyncio.sleep(seconds)
    # There is a task, the lane is paused, and no attempt was counted.
    assert await is_paused()
    tasks = "select count(*) from tasks where kind = 'outage' and status = 'pending'"
    assert await tested.fetch_rows(tasks) == [(1,)]
    assert await tested.count("lane = 'pdf' and (ocr_status = 'dead_letter' or attempts > 0)") == 0
    unavailable.clear()
    await killing
    await tested.wait_until_ended(20)
    assert await tested.fetch_rows(paused) == []
    assert await tested.fetch_rows(tasks) == [(0,)]
    await tested.check()


@pytest.mark.long
async def test_gpu_service_is_unavailable_for_five_minutes() -> None:
    """The lane pauses, a task is created, nothing is dead-lettered, and all is read finally."""
    async with open_system(**STEADY) as tested:
        await _run_with_outage(tested, 300.0)
