"""Stage queues in Postgres: pgmq, which Supabase Queues are.

The functions of the database stand between, so that workers need no rights on queues, and all of it
works over HTTP, too. Of pgmq they use send, read, set_vt and archive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden.volumes.queues import interface

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.database import Database


@dataclass(frozen=True, slots=True)
class PgmqQueue:
    """The queues ocr_line_detection, ocr_line_extraction, ocr_ocr and ocr_reduce."""

    database: Database

    async def receive(self, stages: Sequence[str], *, seconds: float) -> interface.Delivery | None:
        """Read a message."""
        rows = await self.database.receive_volume_messages(
            stages=list(stages), limit=1, visibility=math.ceil(seconds)
        )
        if not rows:
            return None
        return interface.Delivery(rows[0]["stage"], str(rows[0]["handle"]), rows[0]["message"])

    async def extend(self, delivery: interface.Delivery, seconds: float) -> None:
        """Set when it is seen again."""
        await self.database.extend_volume_message(
            stage=delivery.stage, handle=int(delivery.handle), seconds=math.ceil(seconds)
        )

    async def ack(self, delivery: interface.Delivery) -> None:
        """Archive it."""
        await self.database.remove_volume_message(stage=delivery.stage, handle=int(delivery.handle))
