"""Page pool: child processes read the pages of a document and share the process slots fairly.

Each document has one worker of priority FIRST, served in order of arrival, and helpers that use the
slots left over. At the end of a page a worker checks whether it must release its slot, so that
a long document does not delay a short one.

A page that kills its child is read once more in a fresh child, unless the child was fresh already;
then the page fails, and the others are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pagewarden import concurrency, errors
from pagewarden.ocr import child_pool, limits, pages
from pagewarden.ocr.sandbox import host, protocol, tasks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Container, Iterator, Sequence

T = TypeVar("T")

# Pages read but not yet taken, per worker: enough to even out slow and fast pages.
AHEAD = 4
# A document fails when at least this many pages, and this share of all, have killed their child.
_MAX_CRASHING_PAGES = 3
_MAX_CRASHING_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Job:
    """The document to read, and how.

    file is opened while the document is read. skip has the pages to leave out; on_open is called
    with the number of pages. If strict, a page that cannot be read is an error of the document.
    """

    file: contextlib.AbstractContextManager[Path]
    name: str
    bounds: limits.Limits
    served_by: child_pool.Host
    password: str | None
    skip: Container[int]
    on_open: Callable[[int], None]
    strict: bool = False


class PagePool:
    """The children that read one document."""

    def __init__(
        self, job: Job, sandbox: host.Sandbox, slots: child_pool.ProcessSlots, width: int
    ) -> None:
        self._job = job
        self._path = Path()
        self._sandbox = sandbox
        self._slots = slots
        self._width = width
        self._clock = ReadingClock()
        self._workers: list[asyncio.Task[None]] = []
        self._plan: asyncio.Future[PagePlan] = asyncio.get_running_loop().create_future()
        self._results: asyncio.Queue[pages.ReadPage | Exception] = asyncio.Queue()
        self._deaths = child_pool.DeathPolicy(job.bounds)
        self._crashing_pages = 0

    async def read(self) -> AsyncGenerator[pages.ReadPage]:
        """Read the pages in order, until the caller closes the generator."""
        ahead: dict[int, pages.ReadPage] = {}
        with self._job.file as self._path:
            self._workers.append(
                asyncio.create_task(self._read_pages(child_pool.SlotPriority.FIRST))
            )
            try:
                plan = await self._plan
                for number in plan.numbers:
                    while number not in ahead:
                        page = await self._next_result()
                        ahead[page.number] = page
                    plan.mark_taken()
                    yield ahead.pop(number)
            finally:
                await concurrency.cancel_all(self._workers)

    async def _next_result(self) -> pages.ReadPage:
        result = await self._results.get()
        if isinstance(result, Exception):
            raise result
        return result

    async def _read_pages(self, priority: child_pool.SlotPriority) -> None:
        """Read while there are pages, taking turns with the workers of other documents."""
        try:
            while not self._plan.done() or await self._plan.result().wait():
                async with self._slots.hold(priority) as slot:
                    await self._read_in_child(slot)
        except Exception as exc:  # noqa: BLE001  # raised again in `read`
            if self._plan.done():
                self._results.put_nowait(exc)
            else:
                self._plan.set_exception(exc)

    async def _read_in_child(self, slot: child_pool.Slot) -> None:
        """Read with one child until it dies, no page is available or the slot must be released."""
        if self._plan.done() and not self._plan.result().has_page:
            return
        number, fresh = None, True
        with self._clock.running():
            async with self._open_session() as session:
                try:
                    plan = await self._open(session)
                    while (number := plan.next(fresh=fresh)) is not None:
                        self._results.put_nowait(await self._read_page(session, number))
                        if slot.must_release:
                            return
                        fresh = False
                except host.ChildDied as death:
                    self._handle_child_death(death, number, fresh=fresh)

    def _open_session(
        self,
    ) -> contextlib.AbstractAsyncContextManager[child_pool.ChildSession]:
        """Start a child that opens and reads the document."""
        job = self._job
        options = {
            "path": str(self._path.absolute()),
            "name": job.name,
            "password": job.password,
            "languages": job.served_by.hints.languages,
        }
        task = tasks.SandboxTask("pagewarden.ocr.pipeline", "ReadDocument", options)
        return child_pool.open_session(self._sandbox, job.bounds, job.served_by, task=task)

    def _handle_child_death(
        self, death: host.ChildDied, number: int | None, *, fresh: bool
    ) -> None:
        """Retry or fail the page that killed a child; opening the document fails all of it."""
        bounds = self._job.bounds
        if death.timed_out and death.seconds < bounds.page_seconds:
            raise host.document_timeout_error(self._job.name, bounds) from death
        error = self._deaths.decide(
            death, limits.describe_location(self._job.name, number), is_new=fresh
        )
        if error is None:
            if number is not None:
                self._plan.result().retry(number)
        elif number is None:
            raise error from death
        else:
            self._fail_crashing_page(number, error)

    def _fail_crashing_page(self, number: int, error: errors.ReadingError) -> None:
        self._crashing_pages += 1
        allowed_share = _MAX_CRASHING_SHARE * len(self._plan.result().numbers)
        if self._crashing_pages >= max(_MAX_CRASHING_PAGES, allowed_share):
            raise type(error)(
                f"{error} {self._crashing_pages} pages have failed like this, so the remaining "
                "pages are not read."
            )
        self._results.put_nowait(self._make_failed_page(number, error))

    async def _open(self, session: child_pool.ChildSession) -> PagePlan:
        """Let the child open the document; the first child also determines the number of pages."""
        count = await self._ask(session, {}, lambda message, _: protocol.unpack_count(message))
        if not self._plan.done():
            self._make_plan(count)
        return self._plan.result()

    def _make_plan(self, count: int) -> None:
        self._job.on_open(count)
        numbers = [number for number in range(1, count + 1) if number not in self._job.skip]
        self._plan.set_result(PagePlan(numbers, AHEAD * self._width))
        for _ in range(min(self._width, len(numbers)) - 1):
            self._workers.append(
                asyncio.create_task(self._read_pages(child_pool.SlotPriority.HELPER))
            )

    async def _read_page(self, session: child_pool.ChildSession, number: int) -> pages.ReadPage:
        try:
            page = await self._ask(
                session, {"page": number}, lambda _, blob: protocol.unpack_page(blob)
            )
        except errors.PAGE_ERRORS as error:
            return self._make_failed_page(number, error)
        return dataclasses.replace(page, number=number)

    async def _ask(
        self,
        session: child_pool.ChildSession,
        message: protocol.Message,
        parse: Callable[[protocol.Message, bytes], T],
    ) -> T:
        max_blob = max(protocol.MAX_PAGE, 3 * self._job.bounds.working_pixels)
        return await session.ask(
            message, seconds=self._seconds_left, max_blob=max_blob, parse=parse
        )

    def _seconds_left(self) -> float:
        """Return the time limit of a page, or of the rest of the document if that is shorter."""
        bounds = self._job.bounds
        return min(bounds.page_seconds, bounds.document_seconds - self._clock.seconds)

    def _make_failed_page(self, number: int, error: Exception) -> pages.ReadPage:
        if self._job.strict:
            raise error
        location = limits.describe_location(self._job.name, number)
        text = str(error) if str(error).startswith(self._job.name) else f"{location}: {error}"
        return pages.ReadPage(number, 0, 0, 0.0, pages.TextSource.FAILED, error=text)


class PagePlan:
    """Hands out pages in order, up to `ahead` pages before the one that the caller needs next."""

    def __init__(self, numbers: Sequence[int], ahead: int) -> None:
        self.numbers = numbers
        self._ahead = ahead
        self._handed_out = 0
        self._taken = 0
        self._retries: deque[int] = deque()
        self._changed = asyncio.Event()

    @property
    def has_page(self) -> bool:
        """Whether a page may be read now."""
        return bool(self._retries) or self._has_next

    @property
    def _has_next(self) -> bool:
        return self._handed_out < min(len(self.numbers), self._taken + self._ahead)

    def next(self, *, fresh: bool) -> int | None:
        """Hand out a page if there is one; only a fresh child gets a page to retry."""
        if fresh and self._retries:
            return self._retries.popleft()
        if not self._has_next:
            return None
        self._handed_out += 1
        return self.numbers[self._handed_out - 1]

    def retry(self, number: int) -> None:
        """Take back a page to read it once more."""
        self._retries.append(number)

    def mark_taken(self) -> None:
        """Record that the caller took a page, which makes room for another one."""
        self._taken += 1
        self._changed.set()

    async def wait(self) -> bool:
        """Wait for a page to read; False once all are handed out."""
        while not self.has_page:
            if self._handed_out == len(self.numbers):
                return False
            self._changed.clear()
            await self._changed.wait()
        return True


class ReadingClock:
    """Counts the seconds in which at least one worker has a slot; waiting does not count."""

    def __init__(self) -> None:
        self._workers = 0
        self._started = 0.0
        self._elapsed = 0.0

    @property
    def seconds(self) -> float:
        """The seconds counted so far."""
        running = time.monotonic() - self._started if self._workers else 0.0
        return self._elapsed + running

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Count while a worker has a slot."""
        if not self._workers:
            self._started = time.monotonic()
        self._workers += 1
        try:
            yield
        finally:
            self._workers -= 1
            if not self._workers:
                self._elapsed += time.monotonic() - self._started
