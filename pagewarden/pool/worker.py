"""A worker of the pool: its own lane first, and others when there is nothing to do in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from pagewarden import errors
from pagewarden.documents import worker as workers

if TYPE_CHECKING:
    import asyncio

    from pagewarden.pool import board, capacity

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolWorker(workers.Worker):
    """Serves the lane it is told, and helps in the others when that one is empty.

    Between two documents it looks at its post again, so a change of lane interrupts nothing.
    Room on the machine is taken before a document is claimed: what nobody can begin, nobody has.
    """

    post: board.Post
    told: board.Board = field(repr=False)
    room: capacity.Capacity = field(repr=False)

    async def serve(self, over: asyncio.Event) -> bool:
        """Read the next document, if there is one and room for it."""
        try:
            found = await self._take(over)
            if found is None:
                await self.database.wait_for_documents(lanes=list(self.lanes))
                found = await self._take(over)
            return bool(found)
        except (errors.DatabaseAway, errors.Conflict) as exc:
            log.warning("claim_failed", error=str(exc))
            return False

    def order(self) -> list[str]:
        """Name the lanes to look into: those below their minimum, its own, then all others.

        So whoever is free first goes where too few are, and nobody is idle while there is work.
        """
        wanted = [*self.told.short(), self.post.lane, *self.lanes]
        # What this program does not serve it is not told to serve by those who do.
        return [lane for lane in dict.fromkeys(wanted) if lane is not None and lane in self.lanes]

    async def _take(self, over: asyncio.Event) -> bool | None:
        """Read a document: True; there is none: None; there is no room for one: False."""
        with self.room.for_one_of(self.order(), self.told.urgent()) as place:
            if not place.lanes:
                return False
            claim = await self.claim(place.lanes)
            if claim is None:
                return None
            place.settle(claim.lane)
            self.post.reads_lane, self.post.reads_document = claim.lane, str(claim.id)
            try:
                await self.work_on(claim, over)
            finally:
                self.post.reads_lane = self.post.reads_document = None
            return True
