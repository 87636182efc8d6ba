"""Workers of check jobs are killed after each step."""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from typing import TYPE_CHECKING

from tests.chaos import workers
from tests.support import crowd, worker

if TYPE_CHECKING:
    import psycopg

    from tests.support import databases

STEPS = [
    {"dies_after": "claim_documents"},
    {"dies_after": "save_document_pages"},
    {"dies_after": "get_check"},
    {"dies_before": "complete_check"},
    {"dies_after": "complete_check"},
]
ENDED = "not exists (select from public.check_jobs where outcome is null)"


async def _submit(conn: psycopg.AsyncConnection) -> None:
    job = str(uuid.uuid4())
    digest = hashlib.sha256(job.encode()).hexdigest()
    image = {"name": "a.png", "dropbox_path": f"{job}/a.png", "sha256": digest}
    await conn.execute(
        "select public.submit_check_job(%s, 'fr', %s)",
        (job, json.dumps([image | {"reference": ["page 1"]}])),
    )


async def test_crash_after_any_step_leaves_one_outcome_per_job(
    database: databases.Database,
) -> None:
    """Each job has exactly one outcome, even if it was recorded just before the crash."""
    options = worker.WorkerOptions(
        url=database.url("pagewarden_worker"),
        lanes=["check"],
        pages=1,
        lock_seconds=1,
        heartbeat_seconds=0.3,
    )
    async with await crowd.connect(database.url()) as conn:
        for _ in STEPS:
            await _submit(conn)

        async def run_until_killed(number: int) -> None:
            update = STEPS[number] | {"name": f"victim-{number}"}
            async with workers.start_worker(options.model_copy(update=update)) as victim:
                await victim.wait()

        await asyncio.gather(*(run_until_killed(number) for number in range(len(STEPS))))
        async with workers.start_worker(options.model_copy(update={"name": "successor"})):
            await workers.wait_until(conn, ENDED)

        outcomes = await (await conn.execute("select outcome from check_jobs")).fetchall()
        assert outcomes == [("SUCCEEDED",)] * len(STEPS)
        counts = """
            select (select count(*) from check_results), (select count(*) from ocr_processing_logs),
              (select count(distinct document_id) from ocr_errors where kind = 'lock_expired'),
              (select count(*) from private.invariant_violations())
        """
        row = await (await conn.execute(counts)).fetchone()
        assert row == (len(STEPS), len(STEPS), len(STEPS) - 1, 0)
