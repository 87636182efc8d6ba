"""The whole system as `pagewarden up` starts it, while its parts are killed one after another.

test_chaos.py is what runs every time: all of it at once, by chance.
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
from tests.reading import samples
from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

PATIENCE = 300.0
# Shorter than usual, so that what a dead worker held is found within the test.
LOCKS = {"lock_seconds": "6", "heartbeat_seconds": "1", "sweep_seconds": "1"}
STEADY = {"engine": "fake-steady", "gpu_engine": "fake-steady", **LOCKS}
DAMAGED = b"%PDF-1.7\n" + b"x" * 2000


def _page(number: int) -> Image.Image:
    """Draw a page that no other is like."""
    page = Image.new("L", (800, 400), 255)
    font = ImageFont.load_default(size=32)
    ImageDraw.Draw(page).text((40, 40), f"page of document {number}", fill=0, font=font)
    return page


def _png(number: int) -> bytes:
    out = io.BytesIO()
    _page(number).save(out, "PNG")
    return out.getvalue()


def _scan(number: int) -> bytes:
    out = io.BytesIO()
    pages = [_page(number + turn) for turn in range(3)]
    pages[0].save(out, "PDF", save_all=True, append_images=pages[1:])
    return out.getvalue()


def _mixed(count: int) -> Iterator[tuple[str, bytes, int]]:
    """Make documents: name, bytes, and how many pages are rightly read (0: none can be)."""
    for number in range(count):
        kind = number % 10
        if kind == 9:
            yield f"{number}-damaged.pdf", DAMAGED + str(number).encode(), 0
        elif kind >= 6:
            yield f"{number}-scan.pdf", _scan(1000 * number), 3
        elif kind == 5:
            lines = [f"Document {number}.", *samples.PROSE]
            yield f"{number}-text.pdf", samples.text_pdf(lines, lines), 2
        else:
            yield f"{number}-photo.png", _png(number), 1


async def _upload(client: httpx.AsyncClient, name: str, content: bytes) -> str:
    """Send it as a client does that was promised nothing: again, until it is taken."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = await client.post("/upload-to-dropbox", files={"file": (name, content)})
                if answer.is_success:
                    document: str = answer.json()["document_id"]
                    return document
                assert answer.status_code in {500, 503}, answer.text
            await asyncio.sleep(0.2)


class Chaos:
    """A system, a connection to its database that survives, and what was uploaded."""

    def __init__(self, system: systems.System, url: str) -> None:
        self.system = system
        self.url = url
        self.expected: dict[str, int] = {}

    async def rows(self, query: str) -> Sequence[Any]:
        """Ask the database, as often as it takes."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    async with await psycopg.AsyncConnection.connect(self.url) as conn:
                        return await (await conn.execute(query.encode())).fetchall()
                except psycopg.OperationalError:
                    await asyncio.sleep(0.1)

    async def count(self, condition: str) -> int:
        """Count documents."""
        ((found,),) = await self.rows(f"select count(*) from documents where {condition}")
        return int(found)

    async def upload(self, count: int) -> None:
        """Bring in a mix of documents."""
        async with self.system.client() as client:
            places = asyncio.Semaphore(4)

            async def one(name: str, content: bytes, pages: int) -> None:
                async with places:
                    self.expected[await _upload(client, name, content)] = pages

            await asyncio.gather(*itertools.starmap(one, _mixed(count)))

    async def has_ended(self, count: int) -> None:
        """Wait until so many documents have ended."""

        async def is_so() -> bool:
            return await self.count("ocr_status in ('completed', 'dead_letter')") >= count

        await polling.until(is_so, seconds=PATIENCE)

    async def kill(self, name: str) -> int:
        """Kill a part, once it runs."""
        killed: list[int] = []

        def try_it() -> bool:
            with contextlib.suppress(LookupError, psutil.Error):
                part = self.system.part(name)
                part.send_signal(signal.SIGKILL)
                killed.append(part.pid)
            return bool(killed)

        await polling.until(try_it)
        return killed[0]

    async def check(self) -> None:
        """See that every document ended rightly, once, and that nothing contradicts itself."""
        rows = await self.rows("select id::text, ocr_status, page_count, run_id from documents")
        assert {row[0] for row in rows} == set(self.expected)
        ends = collections.Counter((row[1], self.expected[row[0]] > 0) for row in rows)
        assert set(ends) == {("completed", True), ("dead_letter", False)}, ends
        results = await self.rows(
            "select document_id::text, count(*) from ocr_processing_logs group by 1"
        )
        assert dict(results) == {d: 1 for d, pages in self.expected.items() if pages}
        saved = await self.rows(
            """
            select d.id::text, count(*) from documents d join ocr_pages p on p.run_id = d.run_id
            where p.status = 'read' group by 1
            """
        )
        assert dict(saved) == {d: pages for d, pages in self.expected.items() if pages}
        assert await self.rows("select * from private.invariant_violations()") == []


@contextlib.asynccontextmanager
async def chaos(**settings: str) -> AsyncIterator[Chaos]:
    """Start a system to break."""
    async with (
        systems.running(**settings) as system,
        server.running(system.home) as local,
    ):
        yield Chaos(system, local.url())


async def _kill_each_in_turn(found: Chaos, count: int) -> None:
    """Kill every part while documents come in and are read; restart the database, too."""
    uploading = asyncio.create_task(found.upload(count))
    victims = ["worker", "gpu", "functions", "database"]
    for turn, victim in enumerate(victims, 1):
        await found.has_ended(count * turn // (len(victims) + 2))
        if victim == "database":
            found.system.database().send_signal(signal.SIGINT)  # fast shutdown: sessions end
        else:
            await found.kill(victim)
    await uploading
    await found.has_ended(count)
    await found.check()


@pytest.mark.long
@pytest.mark.parametrize("settings", [STEADY, LOCKS], ids=["steady", "real"])
async def test_200_documents_survive_the_death_of_every_part(settings: dict[str, str]) -> None:
    """Once with an engine of known cost, once with the real one."""
    async with chaos(**settings) as found:
        await _kill_each_in_turn(found, 200)


async def _keep_dead(found: Chaos, name: str, away: asyncio.Event) -> None:
    """Kill a part whenever it is started again."""
    while away.is_set():
        with contextlib.suppress(LookupError, psutil.Error):
            found.system.part(name).send_signal(signal.SIGKILL)
        await asyncio.sleep(0.02)


async def _outage(found: Chaos, seconds: float) -> None:
    """Take the GPU service away for so long while PDFs wait for it."""
    away = asyncio.Event()
    away.set()
    killing = asyncio.create_task(_keep_dead(found, "gpu", away))
    await found.upload(20)
    paused = "select pause_kind from lanes where lane = 'pdf' and paused_at is not null"

    async def is_paused() -> bool:
        return await found.rows(paused) == [("outage",)]

    await polling.until(is_paused, seconds=PATIENCE)
    await asyncio.sleep(seconds)
    # A person knows, the lane waits, and no document has paid for it.
    assert await is_paused()
    tasks = "select count(*) from tasks where kind = 'outage' and status = 'pending'"
    assert await found.rows(tasks) == [(1,)]
    assert await found.count("lane = 'pdf' and (ocr_status = 'dead_letter' or attempts > 0)") == 0
    away.clear()
    await killing
    await found.has_ended(20)
    assert await found.rows(paused) == []
    assert await found.rows(tasks) == [(0,)]
    await found.check()


@pytest.mark.long
async def test_the_gpu_service_may_be_away_for_five_minutes() -> None:
    """Its lane is paused, somebody is told, nothing is dead-lettered, all is read in the end."""
    async with chaos(**STEADY) as found:
        await _outage(found, 300.0)
