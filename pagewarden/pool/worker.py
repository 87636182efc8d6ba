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
    """Serves the lane it is told, and helps in the others of lanes unless it is reserved.

    Between two documents it looks at its post again, so a change of lane interrupts nothing.
    Room on the machine is taken before a document is claimed: what nobody can begin, nobody has.
    """

    post: board.Post
    room: capacity.Capacity = field(repr=False)

    async def serve(self, over: asyncio.Event) -> bool:
        """Read the next document, if there is one and room for it."""
        try:
            if await self._take(over):
                return True
            await self.database.rpc("wait_for_documents", p_lanes=self.order())
            return await self._take(over)
        except (errors.DatabaseAway, errors.Conflict) as exc:
            log.warning("claim_failed", worker=self.worker_id, error=str(exc))
            return False

    def order(self) -> list[str]:
        """Name the lanes to look into: its own first, the others only if it may help."""
        own = self.post.lane
        if own is None:
            return list(self.lanes)
        if self.post.is_reserved:
            return [own]
        return [own, *(lane for lane in self.lanes if lane != own)]

    async def _take(self, over: asyncio.Event) -> bool:
        for lane in self.order():
            with self.room.room_for(lane) as fits:
                if not fits:
                    continue
                claim = await self.claim([lane])
                if claim is not None:
                    self.post.reads_lane, self.post.reads_document = lane, str(claim.id)
                    try:
                        await self.work_on(claim, over)
                    finally:
                        self.post.reads_lane = self.post.reads_document = None
                    return True
        return False
