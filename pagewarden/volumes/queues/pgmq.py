"""Stage queues in Postgres, by pgmq, the extension behind Supabase Queues.

Workers call database functions, so they need no rights on the queues, and everything works over
HTTP too. The functions use send, read, set_vt and archive of pgmq.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden.volumes.queues import base

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.database import Database


@dataclass(frozen=True, slots=True)
class PgmqQueue:
    """The queues ocr_line_detection, ocr_line_extraction, ocr_ocr and ocr_reduce."""

    database: Database

    async def receive(self, stages: Sequence[str], *, seconds: float) -> base.Delivery | None:
        """Read a message."""
        rows = await self.database.receive_volume_messages(
            stages=list(stages), limit=1, visibility=math.ceil(seconds)
        )
        if not rows:
            return None
        return base.Delivery(rows[0]["stage"], str(rows[0]["handle"]), rows[0]["message"])

    async def set_visibility(self, delivery: base.Delivery, seconds: float) -> None:
        """Set the visibility timeout of a message."""
        await self.database.extend_volume_message(
            stage=delivery.stage, handle=int(delivery.handle), seconds=math.ceil(seconds)
        )

    async def ack(self, delivery: base.Delivery) -> None:
        """Archive a message."""
        await self.database.remove_volume_message(stage=delivery.stage, handle=int(delivery.handle))
