"""A worker that lost its document can do nothing to it any more, and is told so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from tests.database import factories, fingerprint, queries

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import psycopg

    from tests.support import databases


async def _sweep(admin: psycopg.AsyncConnection) -> None:
    await admin.execute("select private.sweep(now() + interval '25 seconds')")


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
        if "p_lock_token" in params and name != "extend_document_lock":
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
