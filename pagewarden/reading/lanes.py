"""One document under way: children read its pages side by side.

A page that kills its reader is tried once more in a child of its own, unless it had one; then it
is given up, and costs nothing but itself.
"""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.reading import agenda, pages, remote, trouble, turns
from pagewarden.reading.sandbox import deaths, host, wire

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Container, Mapping
    from pathlib import Path
    from typing import Any

    from pagewarden.reading import engine, limits

# Pages that are read but not yet taken, per lane: enough to even out slow and quick ones.
AHEAD = 4
# When this many pages, and this share of all, have killed their readers, the document has failed.
DEADLY_PAGES = 3
DEADLY_SHARE = 0.1
# How often a document survives that the sandbox itself is killed.
LOSSES = 3

PAGE_ERRORS = (errors.ReadingError, errors.AnswerRefused, errors.AnswerUnusable)


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be read, and how; done are the pages to leave out.

    opened is told the number of pages. remote is the engine, where it is not the children's. Where
    it is strict, a page that cannot be read is an error of the whole document.
    """

    path: Path
    name: str
    bounds: limits.Limits
    hints: engine.Hints
    password: str | None
    done: Container[int]
    opened: Callable[[int], None]
    remote: engine.Engine | None
    strict: bool = False

    def message(self, folder: Path) -> wire.Message:
        """Give the child what it has to know."""
        return {
            "path": str(self.path),
            "name": self.name,
            "folder": str(folder),
            "limits": dataclasses.asdict(self.bounds),
            "languages": self.hints.languages,
            "password": self.password,
            "engine": self.remote.name if self.remote else None,
        }


class Lanes:
    """The children at work on one document."""

    def __init__(self, job: Job, sandbox: host.Host, places: turns.Turns, width: int) -> None:
        self._job = job
        self._sandbox = sandbox
        self._places = places
        self._width = width
        self._clock = turns.Clock()
        self._tasks: list[asyncio.Task[None]] = []
        self._agenda: asyncio.Future[agenda.Agenda] = asyncio.get_running_loop().create_future()
        self._news: asyncio.Queue[pages.ReadPage | Exception] = asyncio.Queue()
        self._deadly = 0
        self._losses = 0

    async def read(self) -> AsyncGenerator[pages.ReadPage]:
        """Read the pages in order; whoever stops taking them stops the reading."""
        self._start(turns.Rank.FIRST)
        ahead: dict[int, pages.ReadPage] = {}
        try:
            plan = await self._agenda
            for number in plan.numbers:
                while number not in ahead:
                    page = await self._hear()
                    ahead[page.number] = page
                plan.taken()
                yield ahead.pop(number)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _hear(self) -> pages.ReadPage:
        news = await self._news.get()
        if isinstance(news, Exception):
            raise news
        return news

    def _start(self, rank: turns.Rank) -> None:
        self._tasks.append(asyncio.create_task(self._lane(rank)))

    async def _lane(self, rank: turns.Rank) -> None:
        """Read as long as there are pages, in turn with the lanes of other documents."""
        try:
            while not self._agenda.done() or await self._agenda.result().wait():
                async with self._places.taken(rank) as turn:
                    await self._serve(turn)
        except Exception as exc:  # noqa: BLE001  # raised again where the pages are taken
            if self._agenda.done():
                self._news.put_nowait(exc)
            else:
                self._agenda.set_exception(exc)

    async def _serve(self, turn: turns.Turn) -> None:
        """Read with one child, while it lives, it is our turn, and a page is due."""
        if self._agenda.done() and not self._agenda.result().is_due:
            return
        number, fresh = None, True
        with self._clock.running():
            async with self._sandbox.child(self._job.hints.languages) as child:
                try:
                    plan = await self._open(child)
                    while (number := plan.next(fresh=fresh)) is not None:
                        self._news.put_nowait(await self._read(child, number))
                        if turn.is_over:
                            return
                        fresh = False
                except host.Died as death:
                    self._mourn(death, number, fresh=fresh)
                except wire.Broken:
                    self._mourn(host.Died(await child.end()), number, fresh=fresh)

    def _mourn(self, death: host.Died, number: int | None, *, fresh: bool) -> None:
        """Decide what becomes of the page, or of the document, that killed a child."""
        if death.end.lost and self._losses < LOSSES:
            self._losses += 1
            if number is not None:
                self._agenda.result().again(number)
            return
        error = deaths.explain(death, trouble.place(self._job.name, number), self._job.bounds)
        if number is None:
            raise error from death
        if fresh or isinstance(error, errors.ReadingTimedOut):
            self._give_up(number, error)
        else:
            self._agenda.result().again(number)

    def _give_up(self, number: int, error: errors.ReadingError) -> None:
        self._deadly += 1
        if self._deadly >= max(DEADLY_PAGES, DEADLY_SHARE * len(self._agenda.result().numbers)):
            raise type(error)(
                f"{error} It is page no. {self._deadly} to end like this: we stop here."
            )
        self._news.put_nowait(self._failed(number, error))

    async def _open(self, child: host.Child) -> agenda.Agenda:
        """Have the child open the document; the first one to do so finds out what is to read."""
        message, _ = await self._ask(child, self._job.message(child.folder))
        if "error" in message:
            raise wire.unpack_error(message["error"])
        if not self._agenda.done():
            self._begin(wire.unpack_count(message))
        return self._agenda.result()

    def _begin(self, count: int) -> None:
        self._job.opened(count)
        numbers = [number for number in range(1, count + 1) if number not in self._job.done]
        self._agenda.set_result(agenda.Agenda(numbers, AHEAD * self._width))
        for _ in range(min(self._width, len(numbers)) - 1):
            self._start(turns.Rank.HELPER)

    async def _read(self, child: host.Child, number: int) -> pages.ReadPage:
        message, blob = await self._ask(child, {"page": number})
        if "image" in message and self._job.remote is not None:
            answer = await self._recognise(self._job.remote, message["image"], blob)
            message, blob = await self._ask(child, answer)
        if "error" not in message:
            return dataclasses.replace(wire.unpack_page(blob), number=number)
        error = wire.unpack_error(message["error"])
        if isinstance(error, PAGE_ERRORS):
            return self._failed(number, error)
        raise error

    async def _recognise(
        self, reader: engine.Engine, image: Mapping[str, Any], pixels: bytes
    ) -> wire.Message:
        try:
            return await remote.recognise(reader, image, pixels, self._job.hints)
        except PAGE_ERRORS as exc:
            return {"error": wire.pack_error(exc)}

    async def _ask(self, child: host.Child, message: wire.Message) -> tuple[wire.Message, bytes]:
        bounds = self._job.bounds
        left = bounds.document_seconds - self._clock.seconds
        try:
            return await child.ask(
                message,
                seconds=min(bounds.page_seconds, left),
                max_blob=max(wire.MAX_PAGE, 3 * bounds.working_pixels),
            )
        except host.Died as death:
            if death.timed_out and left <= bounds.page_seconds:
                raise deaths.out_of_time(self._job.name, bounds) from death
            raise

    def _failed(self, number: int, error: Exception) -> pages.ReadPage:
        if self._job.strict:
            raise error
        place = trouble.place(self._job.name, number)
        text = str(error) if str(error).startswith(self._job.name) else f"{place}: {error}"
        return pages.ReadPage(number, 0, 0, 0.0, pages.Source.FAILED, error=text)
