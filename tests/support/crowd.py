"""Many connections in several processes, all doing something to the same documents at once."""

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

    Act = Callable[[psycopg.AsyncConnection], Awaitable[None]]
    Claims = list[tuple[str, str]]

SERVICE = '{"role": "service_role"}'
CONFLICTS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


async def run(jobs: Sequence[tuple[Callable[..., Any], Sequence[Any]]]) -> list[Any]:
    """Run each job, a function of this module and its arguments, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(len(jobs), mp_context=context) as pool:
        running = [loop.run_in_executor(pool, job, *arguments) for job, arguments in jobs]
        return await asyncio.gather(*running)


async def connect(url: str) -> psycopg.AsyncConnection:
    """Connect as one of our services."""
    conn = await psycopg.AsyncConnection.connect(url, autocommit=True)
    await conn.execute("select set_config('request.jwt.claims', %s, false)", (SERVICE,))
    return conn


async def call(conn: psycopg.AsyncConnection, query: str, *params: Any) -> Any:
    """Ask for one value."""
    row = await (await conn.execute(query.encode(), params)).fetchone()
    return row[0] if row else None


def claim_all(url: str, connections: int, limit: int) -> list[str]:
    """Claim with that many connections until nothing is left; return what was claimed."""
    return asyncio.run(_claim_all(url, connections, limit))


async def _claim_all(url: str, connections: int, limit: int) -> list[str]:
    lists = await asyncio.gather(*(_claim_until_empty(url, limit) for _ in range(connections)))
    return [document for found in lists for document in found]


async def _claim_until_empty(url: str, limit: int) -> list[str]:
    taken: list[str] = []
    async with await connect(url) as conn:
        while True:
            cursor = await conn.execute(
                "select id::text from public.claim_documents(%s, null, %s, 600)",
                (f"worker-{uuid.uuid4()}", limit),
            )
            rows = await cursor.fetchall()
            if not rows:
                return taken
            taken += [document for (document,) in rows]


def upload(url: str, case: str, name: str, connections: int) -> list[dict[str, Any]]:
    """Upload different files under one name, all at once."""
    return asyncio.run(_upload(url, case, name, connections))


async def _upload(url: str, case: str, name: str, connections: int) -> list[dict[str, Any]]:
    async def one() -> dict[str, Any]:
        async with await connect(url) as conn:
            query = "select public.safe_document_reupload_v2(%s, %s, '/x', 'png', p_sha256 => %s)"
            answer: dict[str, Any] = await call(conn, query, case, name, uuid.uuid4().hex * 2)
            return answer

    return await asyncio.gather(*(one() for _ in range(connections)))


def quarrel(url: str, case: str, names: Sequence[str], rounds: int, seed: int) -> list[str]:
    """Do everything at once for so many rounds; return the results we were told are written."""
    return asyncio.run(_quarrel(url, case, names, rounds, seed))


async def _quarrel(url: str, case: str, names: Sequence[str], rounds: int, seed: int) -> list[str]:
    chance = random.Random(seed)  # noqa: S311  # the same run again, not a secret
    quarrel = Quarrel(case, names, chance)
    workers = [quarrel.finish, quarrel.finish, quarrel.fail, quarrel.die]
    people = [quarrel.sweep, quarrel.requeue, quarrel.recover, quarrel.replace]
    crowd = (workers, workers, workers, people, people)
    await asyncio.gather(*(quarrel.act(url, acts, rounds) for acts in crowd))
    return quarrel.written


@dataclass
class Quarrel:
    """What can happen to a document, in the hands of chance."""

    case: str
    names: Sequence[str]
    chance: random.Random
    written: list[str] = field(default_factory=list)
    in_hand: list[Claims] = field(default_factory=list)

    async def act(self, url: str, acts: Sequence[Act], rounds: int) -> None:
        """Do one of these things after the other; a conflict is an answer like any other."""
        async with await connect(url) as conn:
            for _ in range(rounds):
                with contextlib.suppress(*CONFLICTS):
                    await self.chance.choice(acts)(conn)

    async def finish(self, conn: psycopg.AsyncConnection) -> None:
        """Take some documents, and complete some of before, which others may have by now."""
        self.in_hand.append(await _claim(conn, 3))
        if len(self.in_hand) > 3:
            # On a slow machine what was taken long ago is always somebody else's.
            self.written += await _complete(conn, self.in_hand.pop(self.chance.choice((0, -1))))

    async def fail(self, conn: psycopg.AsyncConnection) -> None:
        """Fail at some documents."""
        for document, token in await _claim(conn, 2):
            category = self.chance.choice(["permanent", "transient"])
            query = "select public.fail_document(%s, %s, 'broken', '{}', %s, 0)"
            await call(conn, query, document, token, category)

    async def die(self, conn: psycopg.AsyncConnection) -> None:
        """Take some documents and never be heard of again."""
        await _claim(conn, 2)

    async def sweep(self, conn: psycopg.AsyncConnection) -> None:
        """Take back what the dead hold, and some that the living hold too."""
        await call(conn, "select public.sweep_documents(now() + interval '20 seconds')")

    async def requeue(self, conn: psycopg.AsyncConnection) -> None:
        """Send all dead letters round again."""
        query = """select public.resolve_dead_letters('{"lane": "image"}', 'requeue')"""
        await call(conn, query)

    async def recover(self, conn: psycopg.AsyncConnection) -> None:
        """Give everything back as stuck."""
        await call(conn, "select public.recover_stuck_documents(0)")

    async def replace(self, conn: psycopg.AsyncConnection) -> None:
        """Upload a new version of some document."""
        query = "select public.safe_document_reupload_v2(%s, %s, '/x', 'png', p_sha256 => %s)"
        await call(conn, query, self.case, self.chance.choice(self.names), uuid.uuid4().hex * 2)


async def claim_and_complete(conn: psycopg.AsyncConnection) -> list[str]:
    """Do what a worker does; return the results the database says it has taken."""
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
