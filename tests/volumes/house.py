"""A database, folders, an orchestrator and workers, all in one process."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from pagewarden.volumes import orchestrator, queues, stages, worker
from pagewarden.volumes.queues import pgmq
from tests.database import queries
from tests.volumes import fakes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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
    conn: psycopg.AsyncConnection

    async def order(self, *names: str, **params: object) -> int:
        """Order volumes called W1-I1 and so on; return the id of the job."""
        volumes = [dict(zip(("bdrc_w_id", "bdrc_i_id"), n.split("-"), strict=True)) for n in names]
        answer = await self.service.rpc("create_volume_job", p_volumes=volumes, **params)
        return int(answer["job_id"])

    def worker(
        self,
        find: Callable[[str], stages.Stage] | None = None,
        *,
        name: str = "worker",
        serves: Sequence[str] = LAST_FIRST,
        queue: queues.StageQueue | None = None,
    ) -> worker.Worker:
        """Make a worker of fake stages."""
        return worker.Worker(
            self.link,
            queue or pgmq.PgmqQueue(self.link),
            self.places,
            worker_id=name,
            stages=serves,
            lock_seconds=20,
            heartbeat_seconds=5,
            find=find or fakes.steady(),
        )

    @property
    def orchestrator(self) -> orchestrator.Orchestrator:
        """Make an orchestrator; it logs in as workers do."""
        return orchestrator.Orchestrator(self.link, "test")

    async def work(self, *crew: worker.Worker) -> None:
        """Let orchestrator and workers take turns until nothing moves any more."""
        stop = asyncio.Event()
        while True:
            seen = await self.orchestrator.look()
            ends = [await one.drain(stop) for one in crew]
            if not any(ends) and seen is not None and not seen.published:
                return

    async def tasks(self, *columns: str) -> list[tuple[Any, ...]]:
        """Read columns of all tasks."""
        query = f"select {', '.join(columns)} from volume_tasks order by id"
        return await (await self.conn.execute(query.encode())).fetchall()

    async def violations(self) -> list[str]:
        """Name invariants that do not hold."""
        return await queries.violations(self.conn)


def artifacts_of(output: Path) -> dict[str, str]:
    """Hash every artifact, but for those that say who wrote them."""
    return {
        path.relative_to(output).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(output.rglob("*"))
        if path.is_file() and path.suffix == ".parquet" and ".unpublished" not in path.parts
    }


def owners_of(output: Path) -> dict[str, set[str]]:
    """Name the tokens that wrote each artifact."""
    return {
        path.relative_to(output).as_posix(): {
            row["token"] for row in pq.read_table(path).to_pylist()
        }
        for path in sorted(output.rglob("*.owners"))
    }
