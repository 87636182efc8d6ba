"""What the workers of this program have been told, and what they tell."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pagewarden.database import Database

log = structlog.get_logger(__name__)

REPORT_SECONDS = 2.0


@dataclass(slots=True)
class Post:
    """A worker: the lane it is to serve, and what it reads."""

    lane: str | None = None
    reads_lane: str | None = None
    reads_document: str | None = None


@dataclass(slots=True)
class Board:
    """The posts of this program's workers, by id, and how many of the whole pool read where."""

    database: Database
    process: str
    minimums: Mapping[str, int]
    posts: dict[str, Post] = field(default_factory=dict)
    reading: Mapping[str, int] = field(default_factory=dict)
    waiting: Collection[str] = ()

    def short(self) -> list[str]:
        """Name the lanes in which fewer read than there should be, if they have work."""
        return [lane for lane, least in self.minimums.items() if self.reading.get(lane, 0) < least]

    def urgent(self) -> list[str]:
        """Name those of them that have work."""
        return [lane for lane in self.short() if lane in self.waiting]

    async def run(self, stop: asyncio.Event, *, seconds: float = REPORT_SECONDS) -> None:
        """Report and hear again and again."""
        while not stop.is_set():
            await self.report()
            await _pause(stop, seconds)

    async def leave(self) -> None:
        """Say that nobody of this program is here any more."""
        self.posts.clear()
        await self.report()

    async def report(self) -> None:
        """Say who is here and what each reads, and hear which lane each is to serve."""
        try:
            answer = await self.database.report_pool(
                process=self.process, workers=list(self._rows())
            )
        except errors.DatabaseError as exc:
            # Everybody goes on where they are.
            log.warning("report_failed", process=self.process, error=str(exc))
            return
        self.reading, self.waiting = answer["reading"], answer["waiting"]
        for worker_id, lane in answer["lanes"].items():
            if (post := self.posts.get(worker_id)) is not None:
                post.lane = lane

    def _rows(self) -> Iterator[dict[str, object]]:
        for worker_id, post in self.posts.items():
            yield {
                "worker_id": worker_id,
                "lane": post.reads_lane,
                "document_id": post.reads_document,
            }


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
