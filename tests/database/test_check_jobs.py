"""Check jobs follow their pictures: one outcome, in the transaction in which it is decided."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.database import factories, people, queries
from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support import databases

RUN = {"p_engine": "rapid", "p_version": "1", "p_profile": "balanced"}
LONG_AGO = datetime.now(UTC) - timedelta(days=400)


@dataclass(frozen=True, slots=True)
class Desk:
    """A service and a worker at the same database."""

    database: databases.Database
    factory: factories.Factory
    conn: psycopg.AsyncConnection

    async def call(self, function: str, **params: Any) -> Any:
        """Call a function as our services do."""
        return await self.factory.call(function, **params)

    async def job(self, job: uuid.UUID) -> dict[str, Any]:
        """Show a job as the API does."""
        answer = await self.call("check_job", p_job_id=job)
        shown: dict[str, Any] = answer["job"]
        return shown

    async def status(self, job: uuid.UUID) -> str:
        """Say only how far it is."""
        status: str = (await self.job(job))["status"]
        return status

    async def claim(self, worker: str = "w") -> dict[str, Any]:
        """Take the next picture of any job."""
        (claim,) = await factories.call(
            self.conn, "claim_documents", p_worker_id=worker, p_lanes=["check"]
        )
        taken: dict[str, Any] = claim
        return taken

    async def read(self, claim: dict[str, Any]) -> None:
        """Save the one page of a picture."""
        key = {"p_document_id": claim["id"], "p_lock_token": claim["lock_token"]}
        page = {"page_number": 1, "text": "Bonjour", "lines": [], "width": 10, "height": 5}
        saved = {"p_pages": Jsonb([page]), "p_page_count": 1}
        await self.call("save_document_pages", **key, **RUN, **saved)

    async def complete(
        self, claim: dict[str, Any], conn: psycopg.AsyncConnection | None = None
    ) -> Any:
        """Check a picture under all its names, and end it."""
        key = {"p_document_id": claim["id"], "p_lock_token": claim["lock_token"]}
        asked = await self.call("get_check", **key)
        results = [result(image["position"]) for image in asked["images"] or []]
        done = {"p_results": Jsonb(results), "p_confidence": "0.9", "p_processing_time_ms": 1}
        (answer,) = await factories.call(
            conn or self.factory.conn, "complete_check", **key, **RUN, **done
        )
        return answer

    async def fail(self, claim: dict[str, Any], category: str = "permanent") -> Any:
        """Say that a picture cannot be read."""
        return await self.call(
            "fail_document",
            p_document_id=claim["id"],
            p_lock_token=claim["lock_token"],
            p_error_message="it is damaged",
            p_error_category=category,
        )

    async def run(self) -> None:
        """Read and check everything that waits."""
        while rows := await factories.call(
            self.conn, "claim_documents", p_worker_id="w", p_lanes=["check"]
        ):
            await self.read(rows[0])
            assert (await self.complete(rows[0]))["success"]

    async def in_transaction(self) -> psycopg.AsyncConnection:
        """Connect once more, with nothing committed until it is said."""
        conn = await self.database.connect(claims={"role": "service_role"})
        await conn.set_autocommit(False)
        return conn

    async def violations(self) -> list[str]:
        """Name what should be impossible."""
        return await queries.violations(self.conn)


def result(position: int, **other: Any) -> dict[str, Any]:
    """Write what a check found."""
    found = {"position": position, "verdict": "PASS", "match": True, "extracted_text": "Bonjour"}
    return found | {"issues": [], "strings": [], "width": 10, "height": 5} | other


@pytest.fixture
async def desk(database: databases.Database) -> AsyncIterator[Desk]:
    """Sit down at an empty database; whatever is done, nothing impossible may come of it."""
    factory = await factories.Factory.of(database)
    made = Desk(database, factory, await database.connect(claims={"role": "service_role"}))
    yield made
    assert await made.violations() == []


async def test_a_job_is_pending_then_processing_then_succeeded(desk: Desk) -> None:
    """It begins with the first claim and ends with the last result."""
    job = await desk.factory.check_job()
    assert await desk.status(job) == "PENDING"

    first = await desk.claim()
    assert await desk.status(job) == "PROCESSING"
    await desk.read(first)
    await desk.complete(first)
    assert await desk.status(job) == "PROCESSING"

    second = await desk.claim()
    await desk.read(second)
    await desk.complete(second)
    shown = await desk.job(job)
    assert shown["status"] == "SUCCEEDED"
    assert (shown["images"], shown["checked"], shown["pass"], shown["manual"]) == (2, 2, 2, 0)
    assert [one["image"] for one in shown["results"]] == ["a.png", "b.png"]
    assert [one["reference"] for one in shown["results"]] == [["text of a.png"], ["text of b.png"]]
    assert [one["extractedText"] for one in shown["results"]] == ["Bonjour", "Bonjour"]


async def test_the_same_bytes_are_read_once_and_checked_under_each_name(desk: Desk) -> None:
    """Two names of one picture are one document with two results."""
    job = await desk.factory.check_job(["a1.png", "b.png", "a2.png"])

    (row,) = await queries.rows(
        desk.conn, "select count(*) from documents where case_id = %s", (job,)
    )
    assert row["count"] == 2
    await desk.run()

    shown = await desk.job(job)
    assert (shown["status"], shown["checked"]) == ("SUCCEEDED", 3)


async def test_of_two_that_complete_the_last_two_pictures_at_once_one_ends_the_job(
    desk: Desk,
) -> None:
    """The second waits for the first, and then sees what it did."""
    job = await desk.factory.check_job()
    first, second = await desk.claim(), await desk.claim()
    for claim in (first, second):
        await desk.read(claim)
    one = await desk.in_transaction()
    await desk.complete(first, one)

    other = asyncio.create_task(
        desk.complete(second, await desk.database.connect(claims={"role": "service_role"}))
    )
    await _blocked(desk)
    await one.commit()
    assert (await other)["success"]

    assert await desk.status(job) == "SUCCEEDED"


async def _blocked(desk: Desk) -> None:
    """Wait until somebody waits for somebody."""

    async def somebody_waits() -> bool:
        found = await queries.rows(desk.conn, "select 1 from pg_locks where not granted")
        return found != []

    await polling.wait_until(somebody_waits)


async def test_a_picture_that_cannot_be_read_fails_its_job_and_stops_the_rest(desk: Desk) -> None:
    """No task of HAC, no open dead letter: whoever submitted it runs it again."""
    job = await desk.factory.check_job(["a.png", "b.png", "c.png"])
    first, second = await desk.claim(), await desk.claim()
    await desk.read(first)
    await desk.complete(first)

    answer = await desk.fail(second)

    assert answer["status"] == "failed"
    shown = await desk.job(job)
    assert (shown["status"], shown["error"]) == ("FAILED", "b.png: it is damaged")
    assert [one["verdict"] for one in shown["results"]] == ["PASS", None, None]
    assert [one["error"] for one in shown["results"]] == [None, "it is damaged", None]
    statuses = await queries.rows(
        desk.conn, "select ocr_status from documents where case_id = %s order by name", (job,)
    )
    assert [row["ocr_status"] for row in statuses] == ["completed", "failed", "cancelled"]
    assert await queries.rows(desk.conn, "select 1 from tasks") == []
    letters = await queries.rows(desk.conn, "select status from ocr_dead_letter")
    assert [letter["status"] for letter in letters] == ["abandoned"]


async def test_a_passing_failure_does_not_end_the_job(desk: Desk) -> None:
    """It is tried again, as every document is."""
    job = await desk.factory.check_job()

    await desk.fail(await desk.claim(), "transient")

    assert await desk.status(job) == "PENDING"


async def test_a_cancelled_job_takes_its_pictures_away_from_their_readers(desk: Desk) -> None:
    """The result of a late reader is refused, and the outcome stays."""
    job = await desk.factory.check_job()
    claim = await desk.claim()
    await desk.read(claim)

    answer = await desk.call("cancel_check_job", p_job_id=job)

    assert (answer["success"], answer["status"]) == (True, "CANCELLED")
    assert (await desk.complete(claim))["error"] == "LOCK_LOST"
    assert await desk.status(job) == "CANCELLED"
    again = await desk.call("cancel_check_job", p_job_id=job)
    assert again["error"] == "JOB_HAS_ENDED"


async def test_a_picture_cancelled_by_hand_cancels_its_job(desk: Desk) -> None:
    """The job follows its pictures, whoever ends them."""
    job = await desk.factory.check_job()

    await desk.call("cancel_document", p_document_id=(await desk.claim())["id"])

    assert await desk.status(job) == "CANCELLED"


async def test_a_picture_that_is_erased_is_no_longer_a_part_of_its_job(desk: Desk) -> None:
    """The job goes on with the others, and ends with the last of them."""
    jobs = [await desk.factory.check_job(), await desk.factory.check_job()]
    for job, count in zip(jobs, (1, 2), strict=True):
        rows = await queries.rows(
            desk.conn, "select id from documents where case_id = %s limit %s", (job, count)
        )
        for row in rows:
            await desk.call("erase_document", p_document_id=row["id"])
    assert [await desk.status(job) for job in jobs] == ["PENDING", "CANCELLED"]
    await desk.run()

    shown = await desk.job(jobs[0])
    assert (shown["status"], shown["images"]) == ("SUCCEEDED", 1)


async def test_a_picture_in_hand_when_its_job_fails_is_stopped_by_the_sweep(desk: Desk) -> None:
    """Nobody is waited for while the job ends; what was locked then is seen to later."""
    job = await desk.factory.check_job()
    first, second = await desk.claim(), await desk.claim()
    holding = await desk.in_transaction()
    await holding.execute("select 1 from documents where id = %s for update", (first["id"],))

    await desk.fail(second)
    assert await desk.status(job) == "FAILED"
    await holding.rollback()
    kept = {"p_document_id": first["id"], "p_lock_token": first["lock_token"]}
    assert (await desk.call("extend_document_lock", **kept))["success"]
    await desk.call("sweep_documents")

    assert (await desk.call("extend_document_lock", **kept))["error"] == "LOCK_LOST"


async def test_a_late_result_of_a_failed_job_changes_nothing_about_its_outcome(desk: Desk) -> None:
    """The straggler's result is kept with the others."""
    job = await desk.factory.check_job()
    first, second = await desk.claim(), await desk.claim()
    await desk.read(first)
    holding = await desk.in_transaction()
    await holding.execute("select 1 from documents where id = %s for update", (first["id"],))
    await desk.fail(second)
    await holding.rollback()

    assert (await desk.complete(first))["success"]

    shown = await desk.job(job)
    assert (shown["status"], shown["checked"]) == ("FAILED", 1)


async def test_running_a_job_again_reads_only_what_has_no_result(desk: Desk) -> None:
    """What was read stays, and the job can succeed after all."""
    job = await desk.factory.check_job(["a.png", "b.png", "c.png"])
    first = await desk.claim()
    await desk.read(first)
    await desk.complete(first)
    await desk.fail(await desk.claim())

    answer = await desk.call("rerun_check_job", p_job_id=job)

    assert (answer["success"], answer["images"]) == (True, 2)
    assert await desk.status(job) == "PROCESSING"
    assert (await desk.job(job))["checked"] == 1
    await desk.run()
    shown = await desk.job(job)
    assert (shown["status"], shown["run"], shown["error"]) == ("SUCCEEDED", 2, None)


async def test_a_job_that_succeeded_is_run_again_only_as_a_whole(desk: Desk) -> None:
    """Otherwise there is nothing to do."""
    job = await desk.factory.check_job()
    await desk.run()

    assert (await desk.call("rerun_check_job", p_job_id=job))["error"] == "WRONG_STATE"
    answer = await desk.call("rerun_check_job", p_job_id=job, p_all=True)

    assert answer["images"] == 2
    shown = await desk.job(job)
    assert (shown["status"], shown["checked"]) == ("PENDING", 0)
    await desk.run()
    assert await desk.status(job) == "SUCCEEDED"


async def test_a_job_under_way_is_not_run_again(desk: Desk) -> None:
    """It would take pictures away from their readers for nothing."""
    job = await desk.factory.check_job()

    assert (await desk.call("rerun_check_job", p_job_id=job))["error"] == "WRONG_STATE"


async def test_a_picture_is_not_read_again_without_its_job(desk: Desk) -> None:
    """Its result would be another one's."""
    await desk.factory.check_job(["a.png"])
    await desk.run()
    row = await queries.one(desk.conn, "select id from documents")

    answer = await desk.call("read_again", p_document_id=row["id"])

    assert answer["error"] == "WRONG_STATE"


async def test_a_job_that_takes_too_long_fails(desk: Desk) -> None:
    """The sweep ends it, and whoever reads a picture of it is told."""
    job = await desk.factory.check_job(p_seconds=60)
    claim = await desk.claim()

    await desk.conn.execute("select public.sweep_documents(now() + interval '59 seconds')")
    assert await desk.status(job) != "FAILED"
    await desk.conn.execute("select public.sweep_documents(now() + interval '61 seconds')")

    shown = await desk.job(job)
    assert (shown["status"], shown["error"]) == ("FAILED", "the job did not finish within 00:01:00")
    assert (await desk.complete(claim))["error"] == "LOCK_LOST"


async def test_the_same_key_is_the_same_job(desk: Desk) -> None:
    """Whoever is unsure whether a submission came through sends it again."""
    key = {"p_idempotency_key": "k1", "p_request_digest": "0" * 64}
    job = await desk.factory.check_job(**key)

    assert await desk.factory.check_job(**key) == job
    assert await desk.factory.check_job(p_idempotency_key="k2", p_request_digest="0" * 64) != job
    with pytest.raises(AssertionError, match="IDEMPOTENCY_KEY_REUSED"):
        await desk.factory.check_job(p_idempotency_key="k1", p_request_digest="1" * 64)


async def test_two_submissions_of_one_key_at_once_are_one_job(desk: Desk) -> None:
    """The second waits for the first and finds its job."""
    key = {"p_idempotency_key": "k", "p_request_digest": "0" * 64}
    desks = [await factories.Factory.of(desk.database) for _ in range(8)]

    jobs = await asyncio.gather(*(one.check_job(**key) for one in desks))

    assert len(set(jobs)) == 1
    assert len(await queries.rows(desk.conn, "select 1 from cases")) == 1


async def test_keys_of_two_people_are_two_jobs(desk: Desk) -> None:
    """A key says nothing of others' jobs."""
    ada, ben = await desk.factory.user(), await desk.factory.user()
    image = {"name": "a.png", "sha256": "0" * 64}
    jobs = []
    for who in (ada, ben):
        job = uuid.uuid4()
        (answer,) = await people.call(
            desk.database,
            who,
            "submit_check_job",
            p_job_id=job,
            p_language="fr",
            p_images=Jsonb([image | {"dropbox_path": f"{job}/a.png"}]),
            p_idempotency_key="k",
            p_request_digest="0" * 64,
        )
        jobs.append(answer["job_id"])
    assert len(set(jobs)) == 2

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await people.call(desk.database, ada, "check_job", p_job_id=uuid.UUID(jobs[1]))
    mine = await people.call(desk.database, ada, "list_check_jobs")
    assert [job["jobId"] for job in mine] == [jobs[0]]


async def test_people_submit_files_of_the_jobs_own_folder_only(desk: Desk) -> None:
    """Otherwise one could have somebody else's file read."""
    who = await desk.factory.user()
    image = {"name": "a.png", "dropbox_path": "elsewhere/a.png", "sha256": "0" * 64}

    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="not in the case folder"):
        await people.call(
            desk.database, who, "submit_check_job",
            p_job_id=uuid.uuid4(), p_language="fr", p_images=Jsonb([image]),
        )  # fmt: skip


async def test_a_case_cannot_be_made_a_job_of(desk: Desk) -> None:
    """The id of a job is a new one."""
    case = await desk.factory.case()

    with pytest.raises(psycopg.errors.InvalidParameterValue, match="already exists"):
        await desk.factory.check_job(p_job_id=case)


async def test_results_must_be_those_of_the_pictures(desk: Desk) -> None:
    """One is missing, or is no verdict: nothing is completed."""
    await desk.factory.check_job(["a1.png", "a2.png"])
    claim = await desk.claim()
    await desk.read(claim)
    key = {"p_document_id": claim["id"], "p_lock_token": claim["lock_token"]}
    done = {"p_confidence": "0.9", "p_processing_time_ms": 1}
    for results in ([result(1)], [result(1), result(2, verdict="MAYBE")], [result(1)] * 2):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="p_results is invalid"):
            await desk.call("complete_check", **key, **RUN, **done, p_results=Jsonb(results))

    row = await queries.one(desk.conn, "select ocr_status from documents")
    assert row["ocr_status"] == "processing"


async def test_a_person_decides_and_takes_it_back(desk: Desk) -> None:
    """The decision is shown with the job, and in the log."""
    job = await desk.factory.check_job(["a.png"])
    decide = {"p_job_id": job, "p_position": 1}
    answer = await desk.call("decide_check", **decide, p_decision="accepted")
    assert answer["error"] == "NOT_CHECKED"
    await desk.run()

    await desk.call("decide_check", **decide, p_decision="rejected")
    assert (await desk.job(job))["results"][0]["decision"] == "rejected"
    await desk.call("decide_check", **decide, p_decision=None)
    assert (await desk.job(job))["results"][0]["decision"] is None
    acts = await queries.rows(
        desk.conn,
        "select action_type from hac_acts where action_type like 'check%' order by created_at",
    )
    assert [act["action_type"] for act in acts] == ["check_rejected", "check_undecided"]


async def test_a_webhook_of_a_job_is_due_when_it_ends_and_after_each_run(desk: Desk) -> None:
    """It tells how the job ended."""
    job = await desk.factory.check_job(["a.png"], p_callback_url="https://example.org/x")
    assert await factories.call(desk.conn, "claim_webhooks") == []
    await desk.fail(await desk.claim())

    (webhook,) = await factories.call(desk.conn, "claim_webhooks")
    assert webhook["body"]["type"] == "check_job.failed"
    assert webhook["body"]["data"]["jobId"] == str(job)
    assert webhook["body"]["data"]["error"] == "a.png: it is damaged"
    assert await desk.call("settle_webhook", p_id=webhook["id"], p_attempt=1)
    await desk.call("rerun_check_job", p_job_id=job)
    assert await factories.call(desk.conn, "claim_webhooks") == []
    await desk.run()

    (webhook,) = await factories.call(desk.conn, "claim_webhooks")
    assert webhook["body"]["type"] == "check_job.succeeded"


async def test_results_go_first_and_pictures_later(desk: Desk) -> None:
    """After a week nobody finds the job; after a month its files are to be removed."""
    job = await desk.factory.check_job(["a.png"])
    other = await desk.factory.check_job(["b.png"])
    await desk.run()
    days = {"p_result_days": 7, "p_input_days": 30}
    age = "update check_jobs set ended_at = now() - make_interval(days => %s) where id = %s"

    await desk.conn.execute(age, (6, job))
    assert await desk.call("purge_check_jobs", **days) == {"purged": 0, "erased": 0}
    await desk.conn.execute(age, (8, job))
    assert await desk.call("purge_check_jobs", **days) == {"purged": 1, "erased": 0}
    assert (await desk.call("check_job", p_job_id=job))["error"] == "JOB_NOT_FOUND"
    listed = await factories.call(desk.conn, "list_check_jobs")
    assert [one["jobId"] for one in listed] == [str(other)]
    pages = "select 1 from ocr_pages where case_id = %s"
    assert await queries.rows(desk.conn, pages, (job,)) == []
    assert await factories.call(desk.conn, "files_to_remove") == []

    await desk.conn.execute(age, (31, job))
    assert await desk.call("purge_check_jobs", **days) == {"purged": 0, "erased": 1}
    (removal,) = await factories.call(desk.conn, "files_to_remove")
    assert removal["path"] == f"{job}/a.png"
    assert await desk.status(other) == "SUCCEEDED"


async def test_jobs_under_way_are_never_purged(desk: Desk) -> None:
    """However old they are."""
    job = await desk.factory.check_job()
    await desk.conn.execute("update check_jobs set created_at = %s", (LONG_AGO,))

    await desk.call("purge_check_jobs")

    assert await desk.status(job) == "PENDING"


async def test_jobs_are_listed_by_status_page_by_page(desk: Desk) -> None:
    """The newest first."""
    done = await desk.factory.check_job()
    await desk.run()
    waiting = [await desk.factory.check_job() for _ in range(3)]
    taken = await desk.claim()

    async def listed(**params: Any) -> list[str]:
        rows = await factories.call(desk.conn, "list_check_jobs", **params)
        return [row["jobId"] for row in rows]

    assert await listed() == [*map(str, reversed(waiting)), str(done)]
    assert await listed(p_status="SUCCEEDED") == [str(done)]
    assert await listed(p_status="PROCESSING") == [str(taken["case_id"])]
    pending = await listed(p_status="PENDING")
    assert len(pending) == 2
    (first, *_) = await factories.call(desk.conn, "list_check_jobs", p_limit=1)
    behind = {"p_before": first["createdAt"], "p_before_id": first["jobId"]}
    assert await listed(**behind) == [*map(str, reversed(waiting[:-1])), str(done)]


async def test_calls_to_an_engine_are_spread_over_time_for_all_workers(desk: Desk) -> None:
    """Each gets the next place; who comes late enough waits for nobody."""
    start = datetime(2030, 1, 1, tzinfo=UTC)
    take = "select public.take_engine_call('gemini', 4, %s) as wait"

    async def wait(seconds: float) -> float:
        moment = start + timedelta(seconds=seconds)
        return float((await queries.one(desk.conn, take, (moment,)))["wait"])

    assert [round(await wait(0), 6) for _ in range(3)] == [0, 0.25, 0.5]
    assert round(await wait(0.5), 6) == 0.25
    assert await wait(10) == 0
