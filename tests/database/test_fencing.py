"""A worker that lost its document can do nothing to it any more, and is told so."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from tests.database import factories, fingerprint, queries

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    import psycopg

    from tests.support import databases

TOKEN_REQUIRED = ("extend_document_lock", "extend_dispatch", "begin_dispatch")


async def _sweep(admin: psycopg.AsyncConnection) -> None:
    await admin.execute("select public.sweep_documents(now() + interval '25 seconds')")


async def swept(_: factories.Factory, admin: psycopg.AsyncConnection, __: factories.Claim) -> None:
    """Let the lock expire and the sweep take the document."""
    await _sweep(admin)


async def claimed_by_another(
    factory: factories.Factory, admin: psycopg.AsyncConnection, claim: factories.Claim
) -> None:
    """Let another worker have it after the sweep."""
    await _sweep(admin)
    (row,) = await factories.call(factory.conn, "claim_documents", p_worker_id="worker-2")
    assert row["id"] == str(claim.document_id)


async def buried_and_requeued(
    factory: factories.Factory, _: psycopg.AsyncConnection, claim: factories.Claim
) -> None:
    """Let HAC send it round again out of the dead letters."""
    answer = await factory.call(
        "move_to_dead_letter_queue",
        p_document_id=claim.document_id,
        p_error_message="broken",
        p_lock_token=claim.lock_token,
    )
    requeued = await factory.call(
        "resolve_dead_letter", p_dlq_id=answer["dlq_id"], p_action="requeue"
    )
    assert requeued["success"]


async def recovered(
    factory: factories.Factory, _: psycopg.AsyncConnection, claim: factories.Claim
) -> None:
    """Let HAC give it back as stuck."""
    answer = await factory.call(
        "recover_stuck_documents", p_stuck_minutes=0, p_document_ids=[claim.document_id]
    )
    assert answer["recovered"] == 1


async def cancelled(
    factory: factories.Factory, _: psycopg.AsyncConnection, claim: factories.Claim
) -> None:
    """Let its owner cancel it."""
    assert (await factory.call("cancel_document", p_document_id=claim.document_id))["success"]


async def completed(
    factory: factories.Factory, _: psycopg.AsyncConnection, claim: factories.Claim
) -> None:
    """Let the same worker have completed it already."""
    answer = await factory.call(
        "process_ocr_atomic",
        p_document_id=claim.document_id,
        p_ocr_data=Jsonb({"pages_read": 1}),
        p_confidence=None,
        p_processing_time_ms=1,
        p_lock_token=claim.lock_token,
    )
    assert answer["success"]


def _calls(claim: factories.Claim) -> list[tuple[str, dict[str, Any]]]:
    """Every call that carries a token, as this worker would make it."""
    key = {"p_document_id": claim.document_id, "p_lock_token": claim.lock_token}
    pair = {"document_id": str(claim.document_id), "lock_token": str(claim.lock_token)}
    run = {"p_engine": "null", "p_version": "1"}
    lists = {"p_document_ids": [claim.document_id], "p_lock_tokens": [claim.lock_token]}
    late, page = {"p_error_message": "late"}, {"page_number": 1, "text": "late"}
    figures = {"p_confidence": "0.5", "p_processing_time_ms": 1}
    text, summary = Jsonb({"text": "late"}), Jsonb({"pages_read": 1})
    return [
        ("extend_document_lock", key),
        ("extend_dispatch", key),
        ("begin_dispatch", key | {"p_invocation_id": uuid.uuid4(), "p_worker_id": "late"}),
        ("save_document_pages", key | run | {"p_pages": Jsonb([page])}),
        ("process_ocr_atomic", key | figures | {"p_ocr_data": text}),
        ("process_ocr_atomic", key | figures | {"p_ocr_data": summary}),
        ("complete_documents", lists | {"p_ocr_data": [text]}),
        ("complete_documents", lists | {"p_ocr_data": [summary]}),
        ("fail_document", key | late),
        ("move_to_dead_letter_queue", key | late),
        ("release_documents", {"p_documents": Jsonb([pair])}),
    ]


def _errors(answer: dict[str, Any]) -> list[str]:
    listed = answer.get("lost") or [answer]
    return [one.get("error") or one["refusal"] for one in listed]


@pytest.mark.parametrize(
    "lose",
    [swept, claimed_by_another, buried_and_requeued, recovered, cancelled, completed],
    ids=lambda lose: lose.__name__,
)
async def test_an_outdated_token_changes_nothing(
    database: databases.Database,
    lose: Callable[[factories.Factory, psycopg.AsyncConnection, factories.Claim], Awaitable[None]],
) -> None:
    """Every call with a token of before says LOCK_LOST, and no table is touched."""
    factory = await factories.Factory.of(database)
    admin = await database.connect("supabase_admin")
    claim = await factory.claimed()
    await lose(factory, admin, claim)
    before = await fingerprint.take(admin)
    for name, params in _calls(claim):
        assert _errors(await factory.call(name, **params)) == ["LOCK_LOST"], name
    assert await fingerprint.take(admin) == before


async def test_a_call_without_a_token_is_refused_while_somebody_holds_the_document(
    database: databases.Database,
) -> None:
    """The old calls that know no token cannot interfere with a worker."""
    factory = await factories.Factory.of(database)
    admin = await database.connect("supabase_admin")
    claim = await factory.claimed()
    before = await fingerprint.take(admin)
    for name, params in _calls(claim):
        if "p_lock_token" in params and name not in TOKEN_REQUIRED:
            answer = await factory.call(name, **params | {"p_lock_token": None})
            assert answer["error"] == "DOCUMENT_LOCKED", name
    assert await fingerprint.take(admin) == before


async def test_an_expired_lock_that_nobody_took_over_may_still_finish(
    database: databases.Database,
) -> None:
    """A slow worker loses nothing as long as nobody else began."""
    factory = await factories.Factory.of(database)
    claim = await factory.claimed()
    admin = await database.connect("supabase_admin")
    await admin.execute(
        "update public.documents set lock_expires_at = locked_at - interval '1 hour'"
    )
    await completed(factory, admin, claim)


async def test_a_reader_of_the_old_version_finishes_it_and_leaves_the_new_one_alone(
    database: databases.Database,
) -> None:
    """A new upload neither stops the old reading nor is touched by it."""
    factory = await factories.Factory.of(database)
    admin = await database.connect("supabase_admin")
    case = await factory.case()
    old = await factory.queued(case, p_document_name="act.png", p_sha256="a" * 64)
    (row,) = await factories.call(factory.conn, "claim_documents", p_worker_id="worker-1")
    new = await factory.queued(case, p_document_name="act.png", p_sha256="b" * 64)
    claim = factories.Claim(old, row["lock_token"])
    await completed(factory, admin, claim)
    rows = await (
        await admin.execute("select id, ocr_status, document_version from public.documents")
    ).fetchall()
    assert sorted(rows, key=lambda r: r[2]) == [(old, "completed", 1), (new, "queued", 2)]


async def test_a_document_typed_by_hand_leaves_no_task_behind(
    database: databases.Database,
) -> None:
    """Manual, then the text: the document is complete and nobody has to do anything more."""
    factory = await factories.Factory.of(database)
    letter = await factory.dead_letter()
    await factory.call("resolve_dead_letter", p_dlq_id=letter.dlq_id, p_action="manual")
    answer = await factory.call(
        "process_ocr_atomic",
        p_document_id=letter.document_id,
        p_ocr_data=Jsonb({"text": "typed by a person"}),
        p_confidence=None,
        p_processing_time_ms=None,
        p_engine="human",
        p_version="1",
    )
    assert answer["success"]
    found = await factory.conn.execute(
        "select count(*) from public.tasks where status in ('pending', 'in_progress')"
    )
    assert await found.fetchone() == (0,)
    hits = await factories.call(factory.conn, "search_documents", p_query="typed")
    assert [hit["document_id"] for hit in hits] == [str(letter.document_id)]


async def test_completing_by_hand_what_nobody_reads_counts_no_attempt(
    database: databases.Database,
) -> None:
    """Too many pages of the last reading failed: it is refused, and waits as before."""
    factory = await factories.Factory.of(database)
    admin = await database.connect("supabase_admin")
    claim = await factory.claimed()
    pages = [{"page_number": 1, "status": "failed", "error": "broken"}]
    saved = await factory.call(
        "save_document_pages",
        p_document_id=claim.document_id,
        p_lock_token=claim.lock_token,
        p_pages=Jsonb(pages),
        p_engine="null",
        p_version="1",
    )
    assert saved["success"], saved
    await _sweep(admin)

    answer = await factory.call(
        "process_ocr_atomic",
        p_document_id=claim.document_id,
        p_ocr_data=Jsonb({"summary": 1}),
        p_confidence="0.9",
        p_processing_time_ms=5,
        p_engine="null",
        p_version="1",
    )

    assert answer["error"] == "TOO_MANY_FAILED_PAGES"
    query = "select ocr_status, attempts, retry_count, rescues from documents"
    assert await queries.one(admin, query) == {
        "ocr_status": "queued", "attempts": 1, "retry_count": 0, "rescues": 1,
    }  # fmt: skip
    assert await queries.violations(admin) == []


async def _save(
    factory: factories.Factory, claim: factories.Claim, pages: Sequence[int], count: int | None
) -> None:
    saved = await factory.call(
        "save_document_pages",
        p_document_id=claim.document_id,
        p_lock_token=claim.lock_token,
        p_pages=Jsonb([{"page_number": number, "text": "read"} for number in pages]),
        p_engine="null",
        p_version="1",
        p_page_count=count,
    )
    assert saved["success"], saved


async def _complete(
    factory: factories.Factory, claim: factories.Claim, ocr_data: dict[str, Any], **more: Any
) -> Any:
    key = {"p_document_id": claim.document_id, "p_lock_token": claim.lock_token}
    result = {"p_ocr_data": Jsonb(ocr_data), "p_confidence": None, "p_processing_time_ms": 1}
    return await factory.call("process_ocr_atomic", **key | result | more)


@pytest.mark.parametrize(
    ("pages", "count", "told", "missing"),
    [
        ([1, 3], 5, None, [2, 4, 5]),
        ([1, 2], None, 3, [3]),
        ([2], None, None, [1]),
        ([], 2, None, [1, 2]),
        (None, None, 2, [1, 2]),
    ],
    ids=["a hole and the end", "the worker knows", "below the last", "no page", "no run"],
)
async def test_a_result_without_all_pages_is_refused_and_they_are_read_again(
    database: databases.Database,
    pages: list[int] | None,
    count: int | None,
    told: int | None,
    missing: list[int],
) -> None:
    """By both functions: the answer names them, the others stay, and it does not go on for ever."""
    factory = await factories.Factory.of(database)
    one, other = await factory.claimed(), await factory.claimed()
    if pages is not None:
        await _save(factory, one, pages, count)
        await _save(factory, other, pages, count)

    refused = await _complete(factory, one, {"pages_read": 9}, p_page_count=told)
    (listed,) = await factories.call(
        factory.conn,
        "complete_documents",
        p_document_ids=[other.document_id],
        p_lock_tokens=[other.lock_token],
        p_ocr_data=[Jsonb({"pages_read": 9})],
        p_page_counts=[told],
    )

    assert (refused["success"], refused["error"]) == (False, "PAGES_MISSING")
    assert refused["missing"] == listed["missing"] == missing
    assert listed["refusal"] == "PAGES_MISSING"
    rows = await queries.rows(
        factory.conn,
        "select ocr_status, attempts, retry_count, lock_token, error_details from documents "
        "join ocr_errors on ocr_errors.document_id = documents.id",
    )
    assert rows == 2 * [
        {
            "ocr_status": "queued", "attempts": 1, "retry_count": 1, "lock_token": None,
            "error_details": {"missing": missing},
        }
    ]  # fmt: skip
    kept = await queries.one(factory.conn, "select count(*) from ocr_pages")
    assert kept["count"] == 2 * len(pages or [])
    for status in ("queued", "dead_letter"):
        lock = await factory.call(
            "acquire_document_lock", p_document_id=one.document_id, p_worker_id="w"
        )
        again = factories.Claim(one.document_id, lock["lock_token"])
        assert (await _complete(factory, again, {}))["missing"] == missing
        state = "select ocr_status from documents where id = %s"
        assert await queries.one(factory.conn, state, [one.document_id]) == {"ocr_status": status}
    assert await queries.violations(factory.conn) == []


async def test_a_text_that_comes_whole_may_have_fewer_pages(database: databases.Database) -> None:
    """As one text, or typed by a person; a page that failed is not missing; any other would be."""
    factory = await factories.Factory.of(database)
    text = await factory.claimed()
    assert (await _complete(factory, text, {"text": "all of it"}, p_page_count=3))["success"]
    failed = await factory.claimed()
    pages = [{"page_number": number, "text": "read"} for number in range(1, 10)]
    pages.append({"page_number": 10, "status": "failed", "error": "torn"})
    assert (await _complete(factory, failed, {"pages": pages}, p_page_count=10))["success"]
    letter = await factory.dead_letter()
    await factory.call("resolve_dead_letter", p_dlq_id=letter.dlq_id, p_action="manual")
    await factory.conn.execute(
        "update documents set page_count = 4 where id = %s", (letter.document_id,)
    )
    by_hand = factories.Claim(letter.document_id, text.lock_token)
    refused = await _complete(factory, by_hand, {"pages": pages[:2]}, p_lock_token=None)
    assert refused["missing"] == [3, 4]
    typed = Jsonb([{"page_number": 2, "text": "typed"}])
    answer = await factory.call("type_text", p_document_id=letter.document_id, p_pages=typed)
    assert answer["success"], answer
    runs = "select is_whole from ocr_runs as r join documents as d on d.run_id = r.id order by 1"
    whole = [row["is_whole"] for row in await queries.rows(factory.conn, runs)]
    assert whole == [False, True, True]
    assert await queries.violations(factory.conn) == []

    admin = await database.connect("supabase_admin")
    async with admin.transaction(force_rollback=True):
        await admin.execute("delete from ocr_pages where page_number = 5")
        assert await queries.violations(admin) == ["a completed document has all its pages"]


async def test_a_release_that_says_null_of_an_outage_reports_none(
    database: databases.Database,
) -> None:
    """The document is back in its queue, uncounted, though it met an outage of its own before."""
    factory = await factories.Factory.of(database)
    claim = await factory.claimed()
    conn = await database.connect()
    await conn.execute(
        "insert into ocr_errors (document_id, case_id, lane, kind, attempt, error_category,"
        " error_message, created_at) select id, case_id, lane, 'outage', 1, 'transient', 'away',"
        " now() - interval '1 hour' from documents where id = %s",
        [claim.document_id],
    )
    await conn.execute("update lanes set recovered_at = now()")
    await conn.execute("update documents set max_attempts = 1")
    given = [{"document_id": str(claim.document_id), "lock_token": str(claim.lock_token)}]

    await queries.rows(
        conn, "select public.release_documents(%s, 'the store is away', null)", [Jsonb(given)]
    )

    row = await queries.one(conn, "select ocr_status, attempts, retry_count from documents")
    assert row == {"ocr_status": "queued", "attempts": 0, "retry_count": 0}
    assert await queries.violations(conn) == []


async def test_holder_of_a_superseded_document_can_give_it_up(
    database: databases.Database,
) -> None:
    """It ends the attempt as `cancelled`, without a dead letter; others cannot."""
    factory = await factories.Factory.of(database)
    claim = await factory.claimed()
    await factory.conn.execute("update documents set deleted_at = now()")
    call = {"p_document_id": claim.document_id, "p_error_message": "broken"}
    assert not (await factory.call("move_to_dead_letter_queue", **call))["success"]
    call["p_lock_token"] = claim.lock_token
    answer = await factory.call("move_to_dead_letter_queue", **call)
    assert (answer["success"], answer["dlq_id"]) == (True, None)
    assert await queries.one(factory.conn, "select ocr_status, locked_by from documents") == {
        "ocr_status": "cancelled",
        "locked_by": None,
    }
    assert await queries.violations(factory.conn) == []
