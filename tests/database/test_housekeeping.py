"""What is too old goes as far as the operator wants, and is counted before."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from tests.database import factories, queries
from tests.support import polling

if TYPE_CHECKING:
    import psycopg

    from tests.support import databases

ALL = {"bin_days": 30, "error_days": 90, "webhook_days": 60, "message_days": 30}


@pytest.fixture
async def factory(database: databases.Database) -> factories.Factory:
    """Make documents of which some are old."""
    return await factories.Factory.of(database)


async def apply(factory: factories.Factory, terms: dict[str, Any], **params: Any) -> dict[str, int]:
    """Remove what is too old."""
    found: dict[str, int] = await factory.call("apply_retention", p_terms=Jsonb(terms), **params)
    return found


async def _old_and_new(factory: factories.Factory) -> None:
    case = await factory.case()
    for age in (10, 31, 40):
        document = await factory.completed(case)
        await factory.call("delete_document", p_document_id=document)
        await factory.conn.execute(
            "update documents set deleted_at = now() - make_interval(days => %s) where id = %s",
            (age, document),
        )
    kept = await factory.completed(case)
    letter = await factory.dead_letter(case)
    for age in (10, 91):
        for document in (kept, letter.document_id):
            await factory.conn.execute(
                "insert into ocr_errors (document_id, kind, error_message, created_at) "
                "values (%s, 'failure', 'x', now() - make_interval(days => %s))",
                (document, age),
            )
    for age in (10, 61):
        await factory.conn.execute(
            "insert into webhooks (document_id, url, settled_at, delivered) "
            "values (%s, %s, now() - make_interval(days => %s), true)",
            (kept, f"https://example.org/{age}", age),
        )
    for queue in ("a_ocr_ocr", "a_ocr_reduce"):
        for number, age in enumerate((10, 31)):
            await factory.conn.execute(
                sql.SQL(
                    "insert into pgmq.{} (msg_id, enqueued_at, archived_at, vt, message) "
                    "values (%s, now(), now() - make_interval(days => %s), now(), '{{}}')"
                ).format(sql.Identifier(queue)),
                (1_000_000 + number, age),
            )


async def _counts(factory: factories.Factory) -> list[int]:
    query = """
        select (select count(*) from documents) as a, (select count(*) from ocr_errors) as b,
          (select count(*) from webhooks) as c, (select count(*) from private.file_removals) as d,
          (select count(*) from pgmq.a_ocr_ocr) + (select count(*) from pgmq.a_ocr_reduce) as e
    """
    return [*(await queries.one(factory.conn, query)).values()]


async def test_a_dry_run_counts_what_would_go_and_removes_nothing(
    factory: factories.Factory,
) -> None:
    """Then the same goes, and nothing else; errors of an open dead letter stay."""
    await _old_and_new(factory)
    before = await _counts(factory)

    told = await apply(factory, ALL, p_dry_run=True)

    assert told == {"documents": 2, "errors": 1, "webhooks": 1, "messages": 2}
    assert await _counts(factory) == before
    assert await apply(factory, ALL) == told
    documents, errors, webhooks, removals, messages = before
    assert await _counts(factory) == [
        documents - 2,
        errors - 1,
        webhooks - 1,
        removals + 2,
        messages - 2,
    ]
    assert await apply(factory, ALL) == dict.fromkeys(told, 0)
    assert await queries.violations(factory.conn) == []


async def test_what_no_term_names_is_kept(factory: factories.Factory) -> None:
    """By default nothing goes."""
    await _old_and_new(factory)

    assert set((await apply(factory, {})).values()) == {0}
    assert await apply(factory, {"bin_days": None, "error_days": 90}) == {
        "documents": 0,
        "errors": 1,
        "webhooks": 0,
        "messages": 0,
    }


async def test_a_deleted_document_that_is_being_read_stays(factory: factories.Factory) -> None:
    """Whoever reads the old version may finish."""
    claim = await factory.claimed()
    await factory.conn.execute(
        "update documents set deleted_at = now() - interval '1 year' where id = %s",
        (claim.document_id,),
    )

    assert (await apply(factory, ALL))["documents"] == 0


async def test_much_goes_in_batches(factory: factories.Factory) -> None:
    """Each call says how many it took."""
    await _old_and_new(factory)

    assert (await apply(factory, ALL, p_limit=1))["documents"] == 1
    assert (await apply(factory, ALL, p_limit=1))["documents"] == 1
    assert (await apply(factory, ALL, p_limit=1))["documents"] == 0


async def test_a_correction_that_is_being_saved_stops_the_erasing_of_an_archived_document(
    factory: factories.Factory,
) -> None:
    """Erasing waits for the lock of the document, and compares then."""
    document = await factory.completed(text="Dear Ada")
    archived = await factory.call("document_archive", p_document_id=document)
    sha256 = hashlib.sha256(archived.encode()).hexdigest()
    known = {"p_document_id": document, "p_known_sha256": sha256}
    erase = {"p_document_id": document, "p_archive_sha256": sha256}
    assert await factory.call("document_archive", **known) is None
    editor = await factory.database.connect(claims={"role": "service_role"})
    async with editor.transaction():
        await factories.call(
            editor,
            "correct_page",
            p_document_id=document,
            p_page_number=1,
            p_base_version=0,
            p_text="Dear Eve",
        )
        erasing = asyncio.create_task(factory.call("erase_archived_document", **erase))
        await _until_waiting(editor)

    assert (await erasing)["error"] == "ARCHIVE_OUTDATED"
    archived = await factory.call("document_archive", **known)
    assert "Dear Eve" in archived
    erase["p_archive_sha256"] = hashlib.sha256(archived.encode()).hexdigest()
    assert (await factory.call("erase_archived_document", **erase))["success"]


async def _until_waiting(conn: psycopg.AsyncConnection) -> None:
    """Wait until another session waits for a lock of this one."""

    async def waits() -> bool:
        query = "select from pg_locks where pg_backend_pid() = any (pg_blocking_pids(pid))"
        return await queries.rows(conn, query) != []

    await polling.wait_until(waits)


async def test_the_archived_text_does_not_depend_on_the_session(
    factory: factories.Factory,
) -> None:
    """Another time zone would make every copy in an archive look outdated."""
    document = await factory.completed()
    archived = await factory.call("document_archive", p_document_id=document)
    await factory.conn.execute("set timezone = 'Asia/Tokyo'; set extra_float_digits = -3")

    assert await factory.call("document_archive", p_document_id=document) == archived
