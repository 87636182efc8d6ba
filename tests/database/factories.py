"""What tests begin with, each piece built on the one before, by the engine's own functions."""

from __future__ import annotations

import hashlib
import itertools
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql
from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from tests.support import databases

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Claim:
    """A document in the hands of a worker."""

    document_id: uuid.UUID
    lock_token: uuid.UUID


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A document given up, and its entry among the dead letters."""

    document_id: uuid.UUID
    dlq_id: uuid.UUID


async def call(conn: psycopg.AsyncConnection, function: str, **params: Any) -> list[Any]:
    """Call a function of schema public, and return its rows as JSON: dicts, strings, numbers."""
    arguments = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in params
    )
    query = sql.SQL("select to_jsonb(r) from public.{}({}) as r")
    found = await conn.execute(query.format(sql.Identifier(function), arguments), params)
    return [value for (value,) in await found.fetchall()]


@dataclass(frozen=True, slots=True)
class Factory:
    """Makes users, cases and documents as one of our services would, in autocommit mode."""

    database: databases.Database
    conn: psycopg.AsyncConnection

    @classmethod
    async def of(cls, database: databases.Database) -> Factory:
        """Connect to the database of a test."""
        return cls(database, await database.connect(claims={"role": "service_role"}))

    async def call(self, function: str, **params: Any) -> Any:
        """Call a function that answers with one value."""
        (answer,) = await call(self.conn, function, **params)
        return answer

    async def report_workers(self, *worker_ids: str, process: str = "p") -> Any:
        """Report all workers of a program of the pool."""
        return await self.call(
            "report_pool",
            p_process=process,
            p_lanes=["image", "pdf"],
            p_workers=Jsonb([{"worker_id": name} for name in worker_ids]),
        )

    async def user(self, *, admin: bool = False) -> uuid.UUID:
        """Sign somebody up."""
        user_id = await self.database.create_user()
        if admin:
            query = "insert into public.user_roles (user_id, role) values (%s, 'admin')"
            await self.conn.execute(query, (user_id,))
        return user_id

    async def case(
        self, owner: uuid.UUID | None = None, *, kind: str = "client", **members: uuid.UUID
    ) -> uuid.UUID:
        """Create a case; members are named by their role: editor=…, viewer=…."""
        owner = owner or await self.user()
        name = f"Case {next(_numbers)}"
        case = uuid.UUID(await self.call("create_case", p_name=name, p_kind=kind, p_owner=owner))
        for role, user_id in members.items():
            await self.call("share_case", p_case_id=case, p_user_id=user_id, p_role=role)
        return case

    async def queued(
        self, case: uuid.UUID | None = None, *, lane: str | None = "image", **params: Any
    ) -> uuid.UUID:
        """Upload a file, with further params of the upload; lane None: nobody knows the type."""
        upload = {
            "p_case_id": case or await self.case(),
            "p_document_name": f"file-{next(_numbers)}",
            "p_new_dropbox_path": f"/files/{uuid.uuid4()}",
            "p_file_extension": "",
            "p_lane": lane,
        }
        answer = await self.call("safe_document_reupload_v2", **upload | params)
        return uuid.UUID(answer["document_id"])

    async def claimed(
        self, case: uuid.UUID | None = None, *, lane: str = "image", worker: str = "worker-1"
    ) -> Claim:
        """Upload a file, and let a worker take it."""
        document = await self.queued(case, lane=lane)
        answer = await self.call(
            "acquire_document_lock", p_document_id=document, p_worker_id=worker
        )
        return Claim(document, uuid.UUID(answer["lock_token"]))

    async def completed(
        self,
        case: uuid.UUID | None = None,
        *,
        lane: str = "image",
        text: str = "some text",
        confidence: float = 0.9,
        language: str | None = None,
    ) -> uuid.UUID:
        """Upload a file of one page, and let a worker read it."""
        claim = await self.claimed(case, lane=lane)
        run = {"p_engine": "rapid", "p_version": "1", "p_profile": "balanced"}
        key = {"p_document_id": claim.document_id, "p_lock_token": claim.lock_token}
        page = {"page_number": 1, "text": text, "confidence": confidence, "language": language}
        saved = {"p_pages": Jsonb([page]), "p_page_count": 1}
        await self.call("save_document_pages", **key, **run, **saved)
        result = {"p_ocr_data": Jsonb({}), "p_confidence": "0.9", "p_processing_time_ms": 100}
        await self.call("process_ocr_atomic", **key, **run, **result)
        return claim.document_id

    async def dead_letter(
        self,
        case: uuid.UUID | None = None,
        *,
        lane: str = "image",
        error: str = "the file is broken",
        category: str = "permanent",
    ) -> DeadLetter:
        """Upload a file that cannot be read."""
        claim = await self.claimed(case, lane=lane)
        answer = await self.call(
            "move_to_dead_letter_queue",
            p_document_id=claim.document_id,
            p_error_message=error,
            p_error_category=category,
            p_lock_token=claim.lock_token,
        )
        return DeadLetter(claim.document_id, uuid.UUID(answer["dlq_id"]))

    async def task(self, **params: Any) -> uuid.UUID:
        """Note something that HAC is to do."""
        answer = await self.call("create_task", p_title=f"Task {next(_numbers)}", **params)
        return uuid.UUID(answer["task_id"])

    async def check_job(
        self, images: Sequence[str] = ("a.png", "b.png"), **params: Any
    ) -> uuid.UUID:
        """Submit a check job; pictures of one first letter have the same bytes."""
        job = uuid.uuid4()
        files = [
            {
                "name": name,
                "dropbox_path": f"{job}/{name}",
                "sha256": hashlib.sha256(name[0].encode()).hexdigest(),
                "reference": [f"text of {name}"],
            }
            for name in images
        ]
        submitted = {"p_job_id": job, "p_language": "fr", "p_images": Jsonb(files)}
        answer = await self.call("submit_check_job", **submitted | params)
        assert answer["success"], answer
        return uuid.UUID(answer["job_id"])

    async def awaiting_file(
        self, case: uuid.UUID | None = None, *, lane: str = "index"
    ) -> uuid.UUID:
        """Announce a registry document whose file the extractor has yet to fetch."""
        found = await self.conn.execute(
            "insert into public.extraction_queue (case_id, document_source, document_name) "
            "values (%s, %s, %s) returning id",
            (case, lane, f"registry-{next(_numbers)}"),
        )
        (document,) = await found.fetchone() or ()
        return uuid.UUID(str(document))
