"""Volumes on their way, by the functions that orchestrator and workers call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from tests.database import factories, queries

if TYPE_CHECKING:
    import uuid

    from tests.support import databases

STAGES = ("line_detection", "line_extraction", "ocr", "reduce")
METRICS = {"total_images": 2, "total_lines": 20, "total_characters": 400}
BROKEN = {"type": "Broken", "message": "the page is broken"}


@dataclass(frozen=True, slots=True)
class Held:
    """A stage of a volume in the hands of a worker, and the message it came with."""

    task_id: int
    token: str
    stage: str
    attempt: int
    handle: int

    @property
    def key(self) -> dict[str, Any]:
        """Name it in a call."""
        return {"p_task_id": self.task_id, "p_token": self.token}


@dataclass(frozen=True, slots=True)
class Volumes:
    """Orders volumes and works on them, as one of our services."""

    factory: factories.Factory

    @classmethod
    async def of(cls, database: databases.Database) -> Volumes:
        """Connect to the database of a test."""
        return cls(await factories.Factory.of(database))

    async def call(self, function: str, **params: Any) -> Any:
        """Call a function that answers with one value."""
        return await self.factory.call(function, **params)

    async def order(self, *names: str, owner: uuid.UUID | None = None, **params: Any) -> int:
        """Order volumes called W1-I1 and so on, as this person; return the id of the job."""
        pairs = [name.split("-", 1) for name in names or ("W1-I1",)]
        volumes = Jsonb([{"bdrc_w_id": w, "bdrc_i_id": i} for w, i in pairs])
        params = {"p_volumes": volumes} | params
        if owner is None:
            answer = await self.call("create_volume_job", **params)
        else:
            async with self.factory.database.acting_as(owner) as conn:
                (answer,) = await factories.call(conn, "create_volume_job", **params)
        assert answer["success"], answer
        return int(answer["job_id"])

    async def orchestrate(self, **params: Any) -> Any:
        """Let the orchestrator look once; None while another one is at it."""
        found = await factories.call(self.factory.conn, "orchestrate_volumes", **params)
        return found[0] if found else None

    async def receive(self, stage: str, visibility: int = 0) -> Any:
        """Receive a message, which stays visible unless told otherwise."""
        found = await factories.call(
            self.factory.conn,
            "receive_volume_messages",
            p_stages=[stage],
            p_visibility=visibility,
        )
        return found[0] if found else None

    async def start(self, delivery: Any, worker: str = "worker-1", **params: Any) -> Any:
        """Start the stage of a message."""
        return await self.call(
            "start_volume_stage",
            p_task_id=delivery["message"]["task_id"],
            p_stage=delivery["stage"],
            p_attempt=delivery["message"]["attempt"],
            p_worker_id=worker,
            **params,
        )

    async def take(self, stage: str, worker: str = "worker-1", **params: Any) -> Held:
        """Receive a message and start its stage."""
        delivery = await self.receive(stage, 60)
        assert delivery is not None, f"there is no message for {stage}"
        answer = await self.start(delivery, worker, **params)
        assert answer["success"], answer
        return Held(
            answer["task_id"],
            answer["token"],
            stage,
            delivery["message"]["attempt"],
            delivery["handle"],
        )

    async def complete(self, held: Held, **params: Any) -> Any:
        """Finish a stage, and remove its message."""
        metrics = METRICS if held.stage == "reduce" else {}
        given = {"p_pages": 2, "p_metrics": Jsonb(metrics)} | params
        answer = await self.call("complete_volume_stage", **held.key, **given)
        await self.remove(held)
        return answer

    async def fail(self, held: Held, category: str = "transient", retry_after: int = 0) -> Any:
        """Fail at a stage, and remove its message."""
        answer = await self.call(
            "fail_volume_stage",
            **held.key,
            p_error=Jsonb(BROKEN),
            p_category=category,
            p_retry_after=retry_after,
        )
        await self.remove(held)
        return answer

    async def remove(self, held: Held) -> Any:
        """Take the message of a stage out of its queue."""
        return await self.call("remove_volume_message", p_stage=held.stage, p_handle=held.handle)

    async def advance(self, until: str) -> None:
        """Do every stage of the one volume that there is, to this one inclusive."""
        for stage in STAGES[: STAGES.index(until) + 1]:
            await self.orchestrate()
            await self.complete(await self.take(stage))
        await self.orchestrate()

    async def task(self, task_id: int | None = None) -> dict[str, Any]:
        """Read a task, or the only one."""
        query = "select * from volume_tasks where %(id)s::bigint is null or id = %(id)s"
        return await queries.one(self.factory.conn, query, {"id": task_id})

    async def where(self) -> dict[int, tuple[str, str]]:
        """Tell stage and status of every task."""
        query = "select id, current_stage, status from volume_tasks order by id"
        found = await queries.rows(self.factory.conn, query)
        return {row["id"]: (row["current_stage"], row["status"]) for row in found}

    async def job(self, job_id: int) -> str:
        """Tell the status of a job."""
        query = "select status from volume_jobs where id = %s"
        return str((await queries.one(self.factory.conn, query, (job_id,)))["status"])


async def fill(factory: factories.Factory, owner: uuid.UUID) -> dict[str, uuid.UUID | int | str]:
    """Make a job of this person's: one volume is done, one in hand, one waits."""
    made = Volumes(factory)
    job = await made.order(*(f"W{owner.hex}-I{n}" for n in range(3)), owner=owner)
    await made.advance("reduce")
    held = await made.take("line_detection", p_lock_seconds=43_200)
    waiting = await made.receive("line_detection", 60)
    return {
        "job": job,
        "task_in_hand": held.task_id,
        "stage_token": held.token,
        "task_queued": waiting["message"]["task_id"],
    }
