"""How long one claim takes when much is waiting, against how long when little is."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pagewarden.bench.queue import contest, contestant, databases, peers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg

# After so many claims the same number of documents is added, so that the backlog stays as it is.
_SLICE = 250

_WARM_UP_CLAIMS = 20

_CREATE_CASE = "insert into public.cases (name, kind) values ('Backlog', 'client')"

# By the owner of the table: a million documents through the RPC would take longer than all the
# rest of the benchmark.
_FILL = """
insert into public.documents (case_id, name, dropbox_path, lane, ocr_status, turn)
select c.id, 'scan-' || n || '.png', '/inbox/scan-' || n || '.png', 'image', 'queued', n
from public.cases as c, generate_series(%s::bigint, %s::bigint) as n
"""

_CLAIM = "select * from public.claim_documents('bench', array['image'], 1, 3600)"


@dataclass(frozen=True, slots=True)
class Plan:
    """How many documents wait, and how many claims are measured at each of these backlogs."""

    backlogs: Sequence[int] = (1_000, 1_000_000)
    claims: int = 2_000


QUICK = Plan(backlogs=(1_000, 5_000), claims=100)


@dataclass(frozen=True, slots=True)
class Claims:
    """How long claims of one document took with so many waiting, the commit included."""

    backlog: int
    claims: int
    p50_ms: float
    p99_ms: float


@dataclass(slots=True)
class Backlog:
    """A database with so many documents waiting, and what was measured in it."""

    size: int
    owner: psycopg.AsyncConnection
    worker: psycopg.AsyncConnection
    filled: int = 0
    milliseconds: list[float] = field(default_factory=list)

    async def fill(self, count: int) -> None:
        """Put more documents into the queue, behind all others."""
        await self.owner.execute(_FILL, (self.filled + 1, self.filled + count))
        self.filled += count

    async def claim(self) -> None:
        """Claim one document and note how long it took; it stays in processing."""
        begun = time.perf_counter()
        cursor = await self.worker.execute(_CLAIM)
        self.milliseconds.append((time.perf_counter() - begun) * 1000)
        if cursor.rowcount != 1:
            raise contestant.RoundFailedError(f"a claim returned {cursor.rowcount} documents")

    def result(self) -> Claims:
        """Sum up."""
        ordered = sorted(self.milliseconds)
        p50, p99 = (contest.percentile(ordered, share) for share in (0.5, 0.99))
        return Claims(self.size, len(ordered), p50, p99)


async def measure(url: str, plan: Plan, announce: Callable[[str], None]) -> list[Claims]:
    """Claim from each backlog in turn, so that noise falls on all alike.

    The template of our own contestant must be there.
    """
    names = [f"backlog_{size}" for size in plan.backlogs]
    try:
        async with AsyncExitStack() as stack:
            backlogs = []
            for size, name in zip(plan.backlogs, names, strict=True):
                announce(f"backlog of {size:,}: filling")
                fresh = await databases.make_fresh(url, peers.OURS, name)
                backlogs.append(await _open(fresh, size, stack))
            announce("claiming one by one")
            await _settle(url, backlogs)
            await _claim(backlogs, plan.claims)
            return [backlog.result() for backlog in backlogs]
    finally:
        for name in names:
            await databases.drop(url, name)


async def _open(url: str, size: int, stack: AsyncExitStack) -> Backlog:
    owner = await stack.enter_async_context(await databases.connect(url))
    worker = await stack.enter_async_context(await databases.connect(url))
    await worker.execute("set role pagewarden_worker")
    await owner.execute(_CREATE_CASE)
    backlog = Backlog(size, owner, worker)
    await backlog.fill(size)
    await owner.execute("vacuum analyze public.documents")
    return backlog


async def _settle(url: str, backlogs: Sequence[Backlog]) -> None:
    """Write out what filling has left in memory, and have every statement prepared."""
    async with await databases.connect(url) as connection:
        await connection.execute("checkpoint")
    for backlog in backlogs:
        for _ in range(_WARM_UP_CLAIMS):
            await backlog.claim()
        backlog.milliseconds.clear()


async def _claim(backlogs: Sequence[Backlog], claims: int) -> None:
    for number in range(claims):
        for backlog in backlogs:
            if number % _SLICE == 0:
                await backlog.fill(_SLICE)
            await backlog.claim()
