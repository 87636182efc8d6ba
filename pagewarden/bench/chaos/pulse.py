"""Feels the pulse of the database: how much waits in each lane, and when nobody answered."""

from __future__ import annotations

import asyncio
import collections
import time
from typing import TYPE_CHECKING, Any

import psycopg

from pagewarden.bench.chaos import journal as journals

if TYPE_CHECKING:
    from pagewarden.bench.chaos.ground import Ground

_SECONDS = 0.25
_STATEMENT_SECONDS = 3.0
_COUNT = """
select (select count(*) from chaos.events where kind = 'completed') as completed,
  (
    select coalesce(jsonb_object_agg(w.lane, w.waiting), '{}') from (
      select d.lane, count(*) as waiting from public.documents as d
      where d.ocr_status not in ('completed', 'dead_letter', 'failed', 'cancelled')
      group by d.lane
    ) as w
  ) as waiting
"""


class Pulse:
    """What the database said last; an outage is noted once it is over."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._heard = time.time()
        self.completed = 0
        self.waiting: collections.Counter[str] = collections.Counter()

    async def feel(self) -> None:
        """Ask again and again, for ever."""
        while True:
            try:
                async with await self._ground.connect() as conn:
                    while True:
                        await self._ask(conn)
                        await asyncio.sleep(_SECONDS)
            except (psycopg.OperationalError, TimeoutError):
                await asyncio.sleep(_SECONDS)

    async def _ask(self, conn: psycopg.AsyncConnection[dict[str, Any]]) -> None:
        async with asyncio.timeout(_STATEMENT_SECONDS):
            row = await (await conn.execute(_COUNT)).fetchone()
        assert row is not None  # noqa: S101  # there is always one
        now = time.time()
        if now - self._heard > _STATEMENT_SECONDS:
            self._ground.journal.outages.append(journals.Span(self._heard, now))
        self._heard = now
        self.completed = row["completed"]
        self.waiting = collections.Counter(row["waiting"])
