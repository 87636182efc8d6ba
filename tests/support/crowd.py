"""Concurrent calls on the same documents, from many connections in several processes."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import random
import uuid
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    Call = Callable[[psycopg.AsyncConnection], Awaitable[None]]
    Claims = list[tuple[str, str]]

SERVICE = '{"role": "service_role"}'
CONFLICTS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


async def run(jobs: Sequence[tuple[Callable[..., Any], Sequence[Any]]]) -> list[Any]:
    """Run each job, a function of this module with arguments, in a separate process."""
    context = multiprocessing.get_context("spawn")
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(len(jobs), mp_context=context) as pool:
        running = [loop.run_in_executor(pool, job, *arguments) for job, arguments in jobs]
        return await asyncio.gather(*running)


async def connect(url: str) -> psycopg.AsyncConnection:
    """Connect as a service."""
    conn = await psycopg.AsyncConnection.connect(url, autocommit=True)
    await conn.execute("select set_config('request.jwt.claims', %s, false)", (SERVICE,))
    return conn


async def fetch_value(conn: psycopg.AsyncConnection, query: str, *params: Any) -> Any:
    """Return the value of a query with one column and row."""
    row = await (await conn.execute(query.encode(), params)).fetchone()
    return row[0] if row else None


def claim_all(url: str, connections: int, limit: int) -> list[str]:
    """Claim with a number of connections until the queue is empty; return the documents."""
    return asyncio.run(_claim_all(url, connections, limit))


async def _claim_all(url: str, connections: int, limit: int) -> list[str]:
    lists = await asyncio.gather(*(_claim_until_empty(url, limit) for _ in range(connections)))
    return [document for documents in lists for document in documents]


async def _claim_until_empty(url: str, limit: int) -> list[str]:
    claimed: list[str] = []
    async with await connect(url) as conn:
        while True:
            cursor = await conn.execute(
                "select id::text from public.claim_documents(%s, null, %s, 600)",
                (f"worker-{uuid.uuid4()}", limit),
            )
            rows = await cursor.fetchall()
            if not rows:
                return claimed
            claimed += [document for (document,) in rows]


def upload(url: str, case: str, name: str, connections: int) -> list[dict[str, Any]]:
    """Upload different files concurrently under one name."""
    return asyncio.run(_upload(url, case, name, connections))


async def _upload(url: str, case: str, name: str, connections: int) -> list[dict[str, Any]]:
    async def upload_one() -> dict[str, Any]:
        async with await connect(url) as conn:
            query = "select public.safe_document_reupload_v2(%s, %s, '/x', 'png', p_sha256 => %s)"
            answer: dict[str, Any] = await fetch_value(
                conn, query, case, name, uuid.uuid4().hex * 2
            )
            return answer

    return await asyncio.gather(*(upload_one() for _ in range(connections)))


def run_random_calls(
    url: str, case: str, names: Sequence[str], rounds: int, seed: int
) -> list[str]:
    """Make random calls concurrently for a number of rounds; return the confirmed results."""
    return asyncio.run(_run_random_calls(url, case, names, rounds, seed))


async def _run_random_calls(
    url: str, case: str, names: Sequence[str], rounds: int, seed: int
) -> list[str]:
    calls = RandomCalls(case, names, random.Random(seed))  # noqa: S311  # no secret
    of_workers = [calls.finish, calls.finish, calls.fail, calls.abandon]
    of_users = [calls.sweep, calls.requeue, calls.recover, calls.replace]
    clients = (of_workers, of_workers, of_workers, of_users, of_users)
    await asyncio.gather(*(calls.make(url, choices, rounds) for choices in clients))
    return calls.written


@dataclass
class RandomCalls:
    """Random calls on documents by workers and users."""

    case: str
    names: Sequence[str]
    rng: random.Random
    written: list[str] = field(default_factory=list)
    claimed: list[Claims] = field(default_factory=list)

    async def make(self, url: str, choices: Sequence[Call], rounds: int) -> None:
        """Make random calls of these, one after another; conflicts are allowed."""
        async with await connect(url) as conn:
            for _ in range(rounds):
                with contextlib.suppress(*CONFLICTS):
                    await self.rng.choice(choices)(conn)

    async def finish(self, conn: psycopg.AsyncConnection) -> None:
        """Claim some documents, and complete earlier ones, which may have been taken away."""
        self.claimed.append(await _claim(conn, 3))
        if len(self.claimed) > 3:
            # On a slow machine the oldest claims have always expired, so use the newest ones, too.
            self.written += await _complete(conn, self.claimed.pop(self.rng.choice((0, -1))))

    async def fail(self, conn: psycopg.AsyncConnection) -> None:
        """Claim some documents and fail them."""
        for document, token in await _claim(conn, 2):
            category = self.rng.choice(["permanent", "transient"])
            query = "select public.fail_document(%s, %s, 'broken', '{}', %s, 0)"
            await fetch_value(conn, query, document, token, category)

    async def abandon(self, conn: psycopg.AsyncConnection) -> None:
        """Claim some documents and do nothing with them, like a dead worker."""
        await _claim(conn, 2)

    async def sweep(self, conn: psycopg.AsyncConnection) -> None:
        """Reclaim documents of dead workers, and some of living ones."""
        await fetch_value(conn, "select public.sweep_documents(now() + interval '20 seconds')")

    async def requeue(self, conn: psycopg.AsyncConnection) -> None:
        """Requeue all dead letters."""
        query = """select public.resolve_dead_letters('{"lane": "image"}', 'requeue')"""
        await fetch_value(conn, query)

    async def recover(self, conn: psycopg.AsyncConnection) -> None:
        """Release all documents as stuck."""
        await fetch_value(conn, "select public.recover_stuck_documents(0)")

    async def replace(self, conn: psycopg.AsyncConnection) -> None:
        """Upload a new version of a random document."""
        query = "select public.safe_document_reupload_v2(%s, %s, '/x', 'png', p_sha256 => %s)"
        await fetch_value(conn, query, self.case, self.rng.choice(self.names), uuid.uuid4().hex * 2)


async def claim_and_complete(conn: psycopg.AsyncConnection) -> list[str]:
    """Claim and complete documents as a worker does; return the accepted results."""
    return await _complete(conn, await _claim(conn, 3))


async def _complete(conn: psycopg.AsyncConnection, claims: Claims) -> list[str]:
    documents, tokens = [d for d, _ in claims], [t for _, t in claims]
    cursor = await conn.execute(
        "select id::text from public.complete_documents(%s::uuid[], %s::uuid[], %s::jsonb[])",
        (documents, tokens, [Jsonb({"pages_read": 0})] * len(claims)),
    )
    refused = {document for (document,) in await cursor.fetchall()}
    return [f"{d} {t}" for d, t in claims if d not in refused]


async def _claim(conn: psycopg.AsyncConnection, limit: int) -> Claims:
    cursor = await conn.execute(
        "select id::text, lock_token::text from public.claim_documents('w', null, %s, 10)", (limit,)
    )
    return await cursor.fetchall()
