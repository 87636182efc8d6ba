"""A database, folders, an orchestrator and workers, all in one process."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
from psycopg.types.json import Jsonb

from pagewarden.database import answers
from pagewarden.database.listener import VOLUME_CHANNEL, Listener, open_listener
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
    from pagewarden.volumes import stage_attempt

LAST_FIRST = tuple(reversed(stages.STAGES))


@dataclass(frozen=True, slots=True)
class House:
    """Resources of a test; `service` creates jobs, `link` is the connection of workers."""

    service: Database
    link: Database
    environment: stage_attempt.StageEnvironment
    output: Path
    url: str
    worker_url: str
    conn: psycopg.AsyncConnection

    async def order(self, *names: str, **params: Any) -> int:
        """Create a job of volumes named W1-I1 and so on; return its id."""
        volumes = [dict(zip(("bdrc_w_id", "bdrc_i_id"), n.split("-"), strict=True)) for n in names]
        answer = await self.service.create_volume_job(volumes=volumes, **params)
        return answers.require_field(answer["job_id"])

    def worker(
        self,
        load_stage: Callable[[str], stages.Stage] | None = None,
        *,
        name: str = "worker",
        serves: Sequence[str] = LAST_FIRST,
        queue: queues.StageQueue | None = None,
        listener: Listener | None = None,
        heartbeat_seconds: float = 5,
    ) -> workers.StageWorker:
        """Return a worker of fake stages."""
        return workers.StageWorker(
            self.link,
            queue or pgmq.PgmqQueue(self.link),
            self.environment,
            worker_id=name,
            stages=serves,
            lock_seconds=20,
            heartbeat_seconds=heartbeat_seconds,
            idle_seconds=60,
            listener=listener or Listener(),
            load_stage=load_stage or fakes.steady(),
        )

    @property
    def orchestrator(self) -> orchestrator.Orchestrator:
        """Return an orchestrator, which logs in as workers do."""
        return orchestrator.Orchestrator(self.link, "test")

    async def work(self, *stage_workers: workers.StageWorker) -> None:
        """Run orchestrator and workers in turn until nothing changes any more."""
        stop = asyncio.Event()
        while True:
            seen = await self.orchestrator.step()
            ends = [await one.drain(stop) for one in stage_workers]
            if not any(ends) and seen is not None and not seen.published:
                return

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Run a query."""
        return await (await self.conn.execute(query.encode())).fetchall()

    async def abandon(self) -> None:
        """Expire all locks, as if the workers had died, and make their messages visible."""
        await self.conn.execute(
            "update volume_tasks set locked_at = now() - interval '2 hours', "
            "lock_expires_at = now() - interval '2 hours' where token is not null"
        )
        await self.show_messages()

    async def show_messages(self) -> None:
        """Make all messages visible now."""
        for stage in stages.STAGES:
            await self.conn.execute(f"update pgmq.q_ocr_{stage} set vt = now()".encode())

    async def send(self, stage: str, message: object) -> None:
        """Put a message into a queue, without the orchestrator."""
        query = "select pgmq.send(%s, %s)"
        await self.conn.execute(query, (f"ocr_{stage}", Jsonb(message)))

    async def tasks(self, *columns: str) -> list[tuple[Any, ...]]:
        """Read columns of all tasks."""
        query = f"select {', '.join(columns)} from volume_tasks order by id"
        return await self.rows(query)

    async def violations(self) -> list[str]:
        """Return the violated invariants."""
        return await queries.violations(self.conn)


@contextlib.asynccontextmanager
async def start_programs(home: House) -> AsyncIterator[None]:
    """Run an orchestrator and a worker that wait for notifications."""
    stop = asyncio.Event()
    async with open_listener(home.url, VOLUME_CHANNEL) as listener:
        orchestrating = orchestrator.Orchestrator(
            home.link, "test", listener=listener, sweep_seconds=60
        )
        runs = [orchestrating.run(stop), home.worker(listener=listener).run(stop)]
        tasks = [asyncio.create_task(run) for run in runs]
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(*tasks)


def artifacts_of(output: Path) -> dict[str, str]:
    """Return the hashes of all artifacts, without the lists of owners."""
    return {
        key: hashlib.sha256(path.read_bytes()).hexdigest()
        for key, path in _published(output, "*.parquet")
    }


def owners_of(output: Path) -> dict[str, set[str]]:
    """Return the lock tokens that wrote each artifact."""
    return {
        key: {row["token"] for row in pq.read_table(path).to_pylist()}
        for key, path in _published(output, "*.owners")
    }


def _published(output: Path, pattern: str) -> Iterator[tuple[str, Path]]:
    """Iterate over the published files, without unpublished ones that killed workers left."""
    for path in sorted((output / "jobs").rglob(pattern)):
        yield path.relative_to(output).as_posix(), path
