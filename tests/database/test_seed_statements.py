"""What operators run: statements written for the first version of the system, and sql/."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.database import factories, queries

if TYPE_CHECKING:
    import uuid
    from collections.abc import AsyncIterator

    from tests.support import databases

SQL = Path(__file__).parent.parent.parent / "sql"
MONITORING = {
    "active_workers": ["ocr_worker_id", "active_jobs", "oldest_job", "newest_job"],
    "bury_old_failures": ["answer"],
    "claim_one": None,  # all columns of extraction_queue
    "dead_letter_growth": ["day", "new_dlq_entries", "requeued", "manual_required"],
    "dead_letters_waiting": [
        *("error_category", "error_group", "documents"),
        *("first_failed_at", "last_failed_at"),
    ],
    "deployment": [
        *("minute", "results", "failures", "conflicts", "outages", "latest_error", "stuck_now")
    ],
    "functions_switched_off": ["function_name", "description", "updated_at"],
    "health": None,  # see test_health
    "lanes": [
        *("lane", "paused_at", "pause_kind", "pause_reason", "probe_at"),
        *("max_attempts", "max_rescues", "attempt_seconds"),
    ],
    "reset_stale": ["id", "document_name", "status_id", "ocr_attempts"],
    "retry_statistics": ["max_retries", "failed_total", "avg_retries"],
    "retry_success": ["retry_count", "documents", "succeeded", "success_rate_pct"],
    "stale_documents": [
        *("id", "document_source", "document_name", "ocr_worker_id", "ocr_started_at"),
        *("ocr_attempts", "ocr_max_attempts"),
    ],
    "stuck_trend": ["hour", "stuck_count", "total_processing"],
    "success_criteria": ["criterion", "value", "unit", "target", "met", "events"],
}
NO_TASK = "a document waiting for a person has an open task"


@contextlib.asynccontextmanager
async def _service(database: databases.Database) -> AsyncIterator[psycopg.AsyncConnection]:
    """Act as service role, and undo it all."""
    async with database.acting_as("service_role") as conn:
        yield conn
        raise psycopg.Rollback


async def _monitor(conn: psycopg.AsyncConnection, name: str) -> list[dict[str, Any]]:
    return await queries.rows(conn, (SQL / "monitoring" / f"{name}.sql").read_bytes())


async def _roll_back(conn: psycopg.AsyncConnection, name: str) -> None:
    await conn.execute((SQL / "rollback" / f"{name}.sql").read_bytes())


async def _age(conn: psycopg.AsyncConnection, document: uuid.UUID, minutes: int = 20) -> None:
    """Make a claim older than it is."""
    await conn.execute(
        "update documents set claimed_at = claimed_at - make_interval(mins => %(minutes)s), "
        "locked_at = locked_at - make_interval(mins => %(minutes)s) where id = %(id)s",
        {"minutes": minutes, "id": document},
    )


async def _statuses(conn: psycopg.AsyncConnection) -> dict[uuid.UUID, str]:
    found = await queries.rows(conn, "select id, ocr_status from documents")
    return {row["id"]: row["ocr_status"] for row in found}


async def _failed(factory: factories.Factory, times: int) -> uuid.UUID:
    """Make a document that failed so often and was given up."""
    document = await factory.queued()
    await factory.conn.execute(
        "update documents set ocr_status = 'failed', attempts = %(times)s, "
        "retry_count = %(times)s where id = %(id)s",
        {"times": times, "id": document},
    )
    return document


# Monitoring -----------------------------------------------------------------------------------


async def test_every_monitoring_file_runs_as_service_role(database: databases.Database) -> None:
    """Each is one statement, with the columns it promises, also when there is nothing."""
    files = sorted(path.stem for path in (SQL / "monitoring").iterdir())
    assert files == sorted(MONITORING)
    for name, columns in MONITORING.items():
        async with _service(database) as conn:
            cursor = await conn.execute((SQL / "monitoring" / f"{name}.sql").read_bytes())
            found = [column.name for column in cursor.description or ()]
            assert columns is None or found == columns, name
            assert cursor.nextset() is None, name


async def test_workers_of_the_registry_are_seen_and_stale_claims_reset(
    database: databases.Database,
) -> None:
    """Active workers, stale search, reset and the claim agree with each other."""
    factory = await factories.Factory.of(database)
    claims = [await factory.claimed(lane="acte", worker=name) for name in ("w-1", "w-1", "w-2")]
    stale, *_ = claims
    await _age(factory.conn, stale.document_id)
    async with _service(database) as conn:
        first, second = await _monitor(conn, "active_workers")
        assert (first["ocr_worker_id"], first["active_jobs"]) == ("w-1", 2)
        assert first["oldest_job"] < first["newest_job"]
        assert (second["ocr_worker_id"], second["active_jobs"]) == ("w-2", 1)
        assert await _monitor(conn, "claim_one") == []
        assert [row["id"] for row in await _monitor(conn, "stale_documents")] == [stale.document_id]
        (reset,) = await _monitor(conn, "reset_stale")
        assert (reset["id"], reset["status_id"], reset["ocr_attempts"]) == (stale.document_id, 3, 1)
        assert await _monitor(conn, "stale_documents") == []
        (claimed,) = await _monitor(conn, "claim_one")
        assert (claimed["id"], claimed["ocr_attempts"]) == (stale.document_id, 2)
        assert claimed["lock_token"] is not None


async def test_success_criteria_and_the_first_minutes_of_a_deployment(
    database: databases.Database,
) -> None:
    """Each criterion has its target; what failed a moment ago is seen in its minute."""
    factory = await factories.Factory.of(database)
    await factory.completed()
    await _age(factory.conn, (await factory.claimed()).document_id)
    claim = await factory.claimed()
    key = {"p_document_id": claim.document_id, "p_lock_token": claim.lock_token}
    await factory.call("fail_document", **key, p_error_message="no answer after 30 s")
    async with _service(database) as conn:
        criteria = await _monitor(conn, "success_criteria")
        assert [(row["criterion"], row["target"], row["met"]) for row in criteria] == [
            ("Stuck documents", "= 0", False),
            ("Successful retries", "> 0.9", None),
            ("New dead letters", "< 3", True),
            ("Version conflicts", "< 0.01", True),
            ("Reading time", "< 40", True),
        ]
        minutes = await _monitor(conn, "deployment")
    assert len(minutes) == 11
    assert sum(row["results"] for row in minutes) == sum(row["failures"] for row in minutes) == 1
    assert {row["latest_error"] for row in minutes} == {None, "no answer after <n> s"}
    assert {row["stuck_now"] for row in minutes} == {1}


async def test_stuck_documents_are_counted_by_the_hour(database: databases.Database) -> None:
    """Only what gave no sign of life for ten minutes is stuck."""
    factory = await factories.Factory.of(database)
    stuck, _ = [await factory.claimed() for _ in range(2)]
    await _age(factory.conn, stuck.document_id)
    await factory.queued()
    async with _service(database) as conn:
        found = await _monitor(conn, "stuck_trend")
    assert sum(row["stuck_count"] for row in found) == 1
    assert sum(row["total_processing"] for row in found) == 2


async def test_retries_are_counted(database: databases.Database) -> None:
    """How often another attempt helped, and what is left of failures."""
    factory = await factories.Factory.of(database)
    done, waiting = [await factory.claimed() for _ in range(2)]
    for claim in (done, waiting):
        await factory.call(
            "fail_document",
            p_document_id=claim.document_id,
            p_lock_token=claim.lock_token,
            p_error_message="time-out",
        )
    await factory.call(
        "process_ocr_atomic",
        p_document_id=done.document_id,
        p_ocr_data="{}",
        p_confidence=None,
        p_processing_time_ms=1,
    )
    await _failed(factory, 3)
    async with _service(database) as conn:
        once, thrice = await _monitor(conn, "retry_success")
        assert (once["retry_count"], once["documents"], once["succeeded"]) == (1, 2, 1)
        assert (once["success_rate_pct"], thrice["success_rate_pct"]) == (50, 0)
        assert thrice["retry_count"] == 3
        (left,) = await _monitor(conn, "retry_statistics")
    assert (left["max_retries"], left["failed_total"], left["avg_retries"]) == (1, 1, 2)


async def test_dead_letters_are_counted_by_day_and_by_error(database: databases.Database) -> None:
    """What came in, what became of it, and what waits."""
    factory = await factories.Factory.of(database)
    letters = [await factory.dead_letter() for _ in range(4)]
    for letter, action in zip(letters, ("requeue", "manual"), strict=False):
        await factory.call("resolve_dead_letter", p_dlq_id=letter.dlq_id, p_action=action)
    async with _service(database) as conn:
        (day,) = await _monitor(conn, "dead_letter_growth")
        assert (day["new_dlq_entries"], day["requeued"], day["manual_required"]) == (4, 1, 1)
        (group,) = await _monitor(conn, "dead_letters_waiting")
        assert (group["documents"], group["error_category"]) == (2, "permanent")
        waiting = "select count(*) from ocr_dead_letter where status = 'pending'"
        assert await queries.one(conn, waiting) == {"count": 2}


async def test_old_failures_are_given_to_hac(database: databases.Database) -> None:
    """Each becomes a dead letter with a task; who failed less often is left alone."""
    factory = await factories.Factory.of(database)
    old = [await _failed(factory, times) for times in (3, 5)]
    young = await _failed(factory, 2)
    async with database.acting_as("service_role") as conn:
        answers = [row["answer"] for row in await _monitor(conn, "bury_old_failures")]
    assert all(answer["success"] for answer in answers)
    assert {answer["document_id"] for answer in answers} == {str(document) for document in old}
    letters = await queries.rows(factory.conn, "select failure_count, status from ocr_dead_letter")
    assert sorted((row["failure_count"], row["status"]) for row in letters) == [
        (3, "pending"),
        (5, "pending"),
    ]
    assert (await _statuses(factory.conn))[young] == "failed"
    assert await queries.violations(factory.conn) == []


# As they were written -------------------------------------------------------------------------


async def test_a_document_completes_whole_though_nobody_locked_it(
    database: databases.Database,
) -> None:
    """The first version's own test: a document set to processing by hand is completed."""
    factory = await factories.Factory.of(database)
    await factory.case()
    await factory.conn.execute(
        """
        do $$
        declare
          v_doc_id uuid := gen_random_uuid();
          v_result jsonb;
        begin
          insert into documents (id, case_id, name, ocr_status)
          values (v_doc_id, (select id from cases limit 1), 'test.jpg', 'processing');
          select process_ocr_atomic(v_doc_id, '{"text": "test"}'::jsonb, 0.95, 1000)
          into v_result;
          assert v_result ->> 'success' = 'true';
          assert exists (select 1 from ocr_processing_logs where document_id = v_doc_id);
          assert (select ocr_status from documents where id = v_doc_id) = 'completed';
        end;
        $$
        """
    )
    assert await queries.violations(factory.conn) == []
    (line,) = await queries.rows(
        factory.conn, "select * from hac_logs where action_type = 'ocr_completed'"
    )
    assert (line["field_changed"], line["new_value"]) == ("ocr_status", "completed")
    assert "95.00%" in line["action_description"]


async def test_stuck_documents_can_be_reset_by_hand(database: databases.Database) -> None:
    """The owner's plain update of status and lock columns leaves no half lock and no wrong word."""
    factory = await factories.Factory.of(database)
    case = await factory.case()
    pdf, image, fresh = [await factory.claimed(case, lane=x) for x in ("pdf", "image", "image")]
    replaced = await factory.claimed(case)
    name = await queries.one(
        factory.conn, "select name from documents where id = %s", (replaced.document_id,)
    )
    newer = await factory.queued(case, p_document_name=name["name"])
    for claim in (pdf, image, replaced):
        await _age(factory.conn, claim.document_id)
    await factory.conn.execute(
        """
        update documents
        set ocr_status = 'queued', locked_by = null, locked_at = null, retry_count = 0,
            updated_at = now()
        where ocr_status = 'processing' and locked_at < (now() - interval '10 minutes')
        """
    )
    assert await _statuses(factory.conn) == {
        pdf.document_id: "queued_for_pdf",
        image.document_id: "queued",
        fresh.document_id: "processing",
        replaced.document_id: "cancelled",
        newer: "queued",
    }
    assert await queries.violations(factory.conn) == []


async def test_a_probe_reset_by_hand_does_not_keep_its_lane_shut(
    database: databases.Database,
) -> None:
    """The lane sends another probe later, as after any probe without an answer."""
    factory = await factories.Factory.of(database)
    claim = await factory.claimed()
    pair = {"document_id": str(claim.document_id), "lock_token": str(claim.lock_token)}
    await factory.call("release_documents", p_documents=Jsonb([pair]), p_outage=True)
    await factory.conn.execute("update lanes set probe_at = now() where lane = 'image'")
    await factories.call(factory.conn, "claim_documents", p_worker_id="probe")
    await factory.conn.execute(
        "update documents set ocr_status = 'queued', locked_by = null, locked_at = null"
    )
    lane = await queries.one(factory.conn, "select * from lanes where lane = 'image'")
    assert (lane["pause_kind"], lane["probe_token"]) == ("outage", None)
    assert await queries.violations(factory.conn) == []


async def test_the_first_rollback_script_runs_as_it_was_written(
    database: databases.Database,
) -> None:
    """Everything is set aside for a person; only the tasks for it are not made by hand."""
    factory = await factories.Factory.of(database)
    claim, queued = await factory.claimed(), await factory.queued()
    done = await factory.completed()
    await factory.conn.execute(
        """
        begin;
        update documents set ocr_status = 'pending_review'
        where ocr_status in ('queued', 'processing');
        update documents
        set ocr_status = 'queued', locked_by = null, locked_at = null, retry_count = 0
        where locked_at < (now() - interval '10 minutes');
        drop function if exists safe_document_reupload_v2;
        insert into hac_logs (case_id, action_type, action_description)
        select case_id, 'ocr_rollback', 'Phase 2 rolled back' from documents
        where ocr_status = 'pending_review' limit 1;
        commit;
        """
    )
    assert await _statuses(factory.conn) == {
        claim.document_id: "pending_review",
        queued: "pending_review",
        done: "completed",
    }
    assert await queries.violations(factory.conn) == [NO_TASK]
    lines = await queries.rows(
        factory.conn, "select case_id from hac_logs where action_type = 'ocr_rollback'"
    )
    assert len(lines) == 1


async def test_a_function_is_switched_off_by_an_update(database: databases.Database) -> None:
    """Service role needs no deployment for it; the monitoring file shows it."""
    async with database.acting_as("service_role") as conn:
        await conn.execute(
            "update edge_function_config set enabled = false "
            "where function_name = 'ocr-worker-retry-v2'"
        )
        (switched,) = await _monitor(conn, "functions_switched_off")
    assert switched["function_name"] == "ocr-worker-retry-v2"


# Rollback -------------------------------------------------------------------------------------


async def _claim_any(factory: factories.Factory) -> list[Any]:
    return await factories.call(factory.conn, "claim_documents", p_worker_id="w", p_limit=100)


async def _switched_off(factory: factories.Factory) -> set[str]:
    found = await queries.rows(
        factory.conn, "select function_name from edge_function_config where not enabled"
    )
    return {row["function_name"] for row in found}


async def test_every_stop_has_its_undo() -> None:
    """No script goes one way only."""
    names = {path.stem for path in (SQL / "rollback").iterdir()}
    stops = {name for name in names if not name.endswith("_undo")}
    assert stops == {"phase_2_version_conflict", "phase_4_dead_letters", "phase_5_transactions"}
    assert names == stops | {f"{name}_undo" for name in stops}


async def test_phase_2_stops_uploads_and_lanes_until_undone(database: databases.Database) -> None:
    """Stuck documents go back, nothing is handed out, nobody uploads; then all is as before."""
    factory = await factories.Factory.of(database)
    user = await factory.user()
    case = await factory.case(user)
    stuck, fresh = await factory.claimed(case), await factory.claimed(case)
    await _age(factory.conn, stuck.document_id)
    await factory.call("pause_lane", p_lane="pdf", p_reason="by somebody")
    upload = "select safe_document_reupload_v2(%(case)s, 'a.png', %(case)s || '/a.png', 'png')"

    for _ in range(2):
        await _roll_back(factory.conn, "phase_2_version_conflict")
    assert await _statuses(factory.conn) == {
        stuck.document_id: "queued",
        fresh.document_id: "processing",
    }
    assert await _claim_any(factory) == []
    assert await _switched_off(factory) == {"ocr-worker-retry-v2", "upload-to-dropbox"}
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        async with database.acting_as(user) as conn:
            await conn.execute(upload, {"case": case})
    assert await queries.violations(factory.conn) == []

    await _roll_back(factory.conn, "phase_2_version_conflict_undo")
    assert await _switched_off(factory) == set()
    async with database.acting_as(user) as conn:
        await conn.execute(upload, {"case": case})
    assert len(await _claim_any(factory)) == 2
    paused = await queries.rows(factory.conn, "select lane from lanes where paused_at is not null")
    assert [row["lane"] for row in paused] == ["pdf"]
    assert await queries.violations(factory.conn) == []


async def test_phase_4_turns_dead_letters_into_failures_and_back(
    database: databases.Database,
) -> None:
    """Only what the script itself took out comes back, with the same count and error."""
    factory = await factories.Factory.of(database)
    open_, investigated, abandoned = [await factory.dead_letter() for _ in range(3)]
    for letter, action in ((investigated, "investigate"), (abandoned, "abandon")):
        await factory.call("resolve_dead_letter", p_dlq_id=letter.dlq_id, p_action=action)
    letters = "select document_id, failure_count, last_error_message, error_category from "
    before = await queries.rows(factory.conn, letters + "ocr_dead_letter order by document_id")

    for _ in range(2):
        await _roll_back(factory.conn, "phase_4_dead_letters")
    assert set((await _statuses(factory.conn)).values()) == {"failed"}
    assert await queries.violations(factory.conn) == []

    await _roll_back(factory.conn, "phase_4_dead_letters_undo")
    assert await _statuses(factory.conn) == {
        open_.document_id: "dead_letter",
        investigated.document_id: "dead_letter",
        abandoned.document_id: "failed",
    }
    after = await queries.rows(factory.conn, letters + "ocr_dead_letter order by document_id")
    assert after == before
    assert await queries.violations(factory.conn) == []


async def test_phase_5_gives_everything_back_uncounted_until_undone(
    database: databases.Database,
) -> None:
    """Workers lose their documents at once; afterwards reading goes on with the same counts."""
    factory = await factories.Factory.of(database)
    claims = [await factory.claimed(lane=lane) for lane in ("image", "pdf", "acte")]
    await factory.conn.execute(
        "update edge_function_config set enabled = false where function_name = 'pdf-extract'"
    )

    for _ in range(2):
        await _roll_back(factory.conn, "phase_5_transactions")
    assert await _claim_any(factory) == []
    assert len(await _switched_off(factory)) == 4
    counts = "select distinct attempts, retry_count, rescues from documents"
    assert await queries.one(factory.conn, counts) == {
        "attempts": 0,
        "retry_count": 0,
        "rescues": 0,
    }
    late = await factory.call(
        "process_ocr_atomic",
        p_document_id=claims[0].document_id,
        p_ocr_data="{}",
        p_confidence=None,
        p_processing_time_ms=1,
        p_lock_token=claims[0].lock_token,
    )
    assert late["error"] == "LOCK_LOST"
    assert await queries.violations(factory.conn) == []

    await _roll_back(factory.conn, "phase_5_transactions_undo")
    assert await _switched_off(factory) == {"pdf-extract"}
    # Lane pdf is still disabled, because the only function that reads it is.
    assert {row["lane"] for row in await _claim_any(factory)} == {"acte", "image"}
    assert await queries.violations(factory.conn) == []
