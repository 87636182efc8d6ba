"""A database, folders, an orchestrator and workers, all in one process."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
from psycopg.types.json import Jsonb

from pagewarden import waking
from pagewarden.database import answers
from pagewarden.volumes import orchestrator, queues, stages
from pagewarden.volumes import worker as workers
from pagewarden.volumes.queues import pgmq
from tests.database import queries
from tests.volumes import fakes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from pathlib import Path

    import psycopg

    from pagewarden.database import Database
    from pagewarden.volumes import turns

LAST_FIRST = tuple(reversed(stages.STAGES))


@dataclass(frozen=True, slots=True)
class House:
    """What a test looks into; service orders and orchestrates, link is what workers have."""

    service: Database
    link: Database
    places: turns.Places
    output: Path
    url: str
    worker_url: str
    conn: psycopg.AsyncConnection

    async def order(self, *names: str, **params: Any) -> int:
        """Order volumes called W1-I1 and so on; return the id of the job."""
        volumes = [dict(zip(("bdrc_w_id", "bdrc_i_id"), n.split("-"), strict=True)) for n in names]
        answer = await self.service.create_volume_job(volumes=volumes, **params)
        return answers.require(answer["job_id"])

    def worker(
        self,
        find: Callable[[str], stages.Stage] | None = None,
        *,
        name: str = "worker",
        serves: Sequence[str] = LAST_FIRST,
        queue: queues.StageQueue | None = None,
        hints: waking.Hints | None = None,
        heartbeat_seconds: float = 5,
    ) -> workers.Worker:
        """Make a worker of fake stages."""
        return workers.Worker(
            self.link,
            queue or pgmq.PgmqQueue(self.link),
            self.places,
            worker_id=name,
            stages=serves,
            lock_seconds=20,
            heartbeat_seconds=heartbeat_seconds,
            idle_seconds=60,
            hints=hints or waking.Hints(),
            find=find or fakes.steady(),
        )

    @property
    def orchestrator(self) -> orchestrator.Orchestrator:
        """Make an orchestrator; it logs in as workers do."""
        return orchestrator.Orchestrator(self.link, "test")

    async def work(self, *crew: workers.Worker) -> None:
        """Let orchestrator and workers take turns until nothing moves any more."""
        stop = asyncio.Event()
        while True:
            seen = await self.orchestrator.look()
            ends = [await one.drain(stop) for one in crew]
            if not any(ends) and seen is not None and not seen.published:
                return

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Ask the database."""
        return await (await self.conn.execute(query.encode())).fetchall()

    async def abandon(self) -> None:
        """Let all who are at work have died long ago, and their messages show again."""
        await self.conn.execute(
            "update volume_tasks set locked_at = now() - interval '2 hours', "
            "lock_expires_at = now() - interval '2 hours' where token is not null"
        )
        await self.show_messages()

    async def show_messages(self) -> None:
        """Let all messages show, whoever has them and whatever they wait for."""
        for stage in stages.STAGES:
            await self.conn.execute(f"update pgmq.q_ocr_{stage} set vt = now()".encode())

    async def send(self, stage: str, message: object) -> None:
        """Put a message into a queue, past everybody."""
        query = "select pgmq.send(%s, %s)"
        await self.conn.execute(query, (f"ocr_{stage}", Jsonb(message)))

    async def tasks(self, *columns: str) -> list[tuple[Any, ...]]:
        """Read columns of all tasks."""
        query = f"select {', '.join(columns)} from volume_tasks order by id"
        return await self.rows(query)

    async def violations(self) -> list[str]:
        """Name invariants that do not hold."""
        return await queries.violations(self.conn)


@contextlib.asynccontextmanager
async def listening(home: House) -> AsyncIterator[House]:
    """Have an orchestrator and a worker wait for something to do, as programs do."""
    stop = asyncio.Event()
    async with waking.listening(home.url, waking.VOLUMES) as hints:
        looking = orchestrator.Orchestrator(home.link, "test", hints=hints, sweep_seconds=60)
        crew = [looking.run(stop), home.worker(hints=hints).run(stop)]
        tasks = [asyncio.create_task(one) for one in crew]
        try:
            yield home
        finally:
            stop.set()
            await asyncio.gather(*tasks)


def artifacts_of(output: Path) -> dict[str, str]:
    """Hash every artifact, but for those that say who wrote them."""
    return {
        key: hashlib.sha256(path.read_bytes()).hexdigest()
        for key, path in _published(output, "*.parquet")
    }


def owners_of(output: Path) -> dict[str, set[str]]:
    """Name the tokens that wrote each artifact."""
    return {
        key: {row["token"] for row in pq.read_table(path).to_pylist()}
        for key, path in _published(output, "*.owners")
    }


def _published(output: Path, pattern: str) -> Iterator[tuple[str, Path]]:
    """Go through what is published; what the dead have left unpublished does not count."""
    for path in sorted((output / "jobs").rglob(pattern)):
        yield path.relative_to(output).as_posix(), path
