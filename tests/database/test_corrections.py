"""What people make of pages lies over what was read, and nothing ever overwrites it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from tests.database import factories, plans, queries

if TYPE_CHECKING:
    import uuid

    from tests.support import databases


@pytest.fixture
async def factory(database: databases.Database) -> factories.Factory:
    """Make documents as a service does."""
    return await factories.Factory.of(database)


async def _read(factory: factories.Factory, *texts: str, engine: str = "rapid") -> uuid.UUID:
    """Have a document whose pages were read so; an empty text is a page that failed."""
    claim = await factory.claimed(await factory.case())
    await _save(factory, claim, texts, engine)
    return claim.document_id


async def _save(
    factory: factories.Factory, claim: factories.Claim, texts: tuple[str, ...], engine: str
) -> None:
    pages = [
        {"page_number": number, "text": text, "lines": [{"text": text}]}
        if text
        else {"page_number": number, "status": "unread"}
        for number, text in enumerate(texts, 1)
    ]
    answer = await factory.call(
        "process_ocr_atomic",
        p_document_id=claim.document_id,
        p_ocr_data=Jsonb({"pages": pages}),
        p_confidence=1,
        p_processing_time_ms=1,
        p_lock_token=claim.lock_token,
        p_engine=engine,
        p_version="1",
    )
    assert answer["success"], answer


async def _correct(
    factory: factories.Factory, document: uuid.UUID, text: str | None, base: int, **more: Any
) -> dict[str, Any]:
    answer: dict[str, Any] = await factory.call(
        "correct_page",
        p_document_id=document,
        p_page_number=more.pop("page", 1),
        p_text=text,
        p_base_version=base,
        **more,
    )
    return answer


async def _texts(factory: factories.Factory, document: uuid.UUID) -> list[tuple[Any, ...]]:
    found = await factory.conn.execute(
        "select page_number, text, version, approved from page_texts "
        "where document_id = %s order by 1",
        (document,),
    )
    return await found.fetchall()


async def _read_again(factory: factories.Factory, document: uuid.UUID, *texts: str) -> None:
    await factory.call("read_again", p_document_id=document, p_engine="tesseract")
    (row,) = await factories.call(factory.conn, "claim_documents", p_worker_id="w")
    await factory.call(  # there may be fewer pages than were found before
        "save_document_pages",
        p_document_id=document,
        p_lock_token=row["lock_token"],
        p_pages="[]",
        p_engine="tesseract",
        p_version="1",
        p_page_count=len(texts),
    )
    await _save(factory, factories.Claim(row["id"], row["lock_token"]), texts, "tesseract")


async def _doubts(factory: factories.Factory) -> list[tuple[int, int, int]]:
    rows = await factories.call(factory.conn, "list_doubts")
    return [(row["pages"], row["unread"], row["first_page"]) for row in rows]


async def _open_tasks(factory: factories.Factory) -> int:
    found = await queries.one(
        factory.conn,
        "select count(*) as n from tasks where kind = 'review' and status = 'pending'",
    )
    return int(found["n"])


async def _found(factory: factories.Factory, query: str) -> list[int]:
    rows = await factories.call(factory.conn, "search_documents", p_query=query)
    return sorted(row["page_number"] for row in rows)


async def test_every_version_is_kept_and_the_latest_counts(factory: factories.Factory) -> None:
    """What was read stays as it was read."""
    document = await _read(factory, "Hcllo", "World")
    assert (await _correct(factory, document, "Helo", 0))["version"] == 1
    assert (await _correct(factory, document, "Hello", 1, p_approved=True))["version"] == 2
    assert await _texts(factory, document) == [(1, "Hello", 2, True), (2, "World", 0, False)]
    kept = await factory.conn.execute("select version, text from page_corrections order by 1")
    assert await kept.fetchall() == [(1, "Helo"), (2, "Hello")]
    read = await factory.conn.execute("select text from ocr_pages where page_number = 1")
    assert await read.fetchall() == [("Hcllo",)]


async def test_versions_say_who_and_when(factory: factories.Factory) -> None:
    """By address, newest first, for everybody who may see the document."""
    owner = await factory.user()
    case = await factory.case(owner)
    document = await factory.completed(case)
    await _correct(factory, document, "one", 0)
    async with factory.database.acting_as(owner) as conn:
        await conn.execute("select correct_page(%s, 1, 1, 'two', p_approved => true)", (document,))
        rows = await factories.call(conn, "page_versions", p_document_id=document, p_page_number=1)
    assert [(row["version"], row["approved"], row["length"]) for row in rows] == [
        (2, True, 3),
        (1, False, 3),
    ]
    person = await queries.one(factory.conn, "select email from auth.users where id = %s", (owner,))
    assert (rows[0]["author"], rows[1]["author"]) == (str(owner), None)
    assert rows[0]["author_email"] == person["email"]


async def test_approving_keeps_the_text_as_it_is(factory: factories.Factory) -> None:
    """With its lines and words; what is approved already, or not changed, makes no version."""
    document = await _read(factory, "Hello")
    assert (await _correct(factory, document, "Hello", 0))["version"] == 0
    assert (await _correct(factory, document, None, 0, p_approved=True))["version"] == 1
    assert (await _correct(factory, document, None, 1, p_approved=True))["version"] == 1
    assert (await _correct(factory, document, "Hello", 1))["version"] == 1
    kept = await queries.one(
        factory.conn,
        """
        select c.text = o.text and c.lines = o.lines and c.text_search = o.text_search as same
        from page_corrections as c join ocr_pages as o on o.document_id = c.document_id
        """,
    )
    assert kept["same"]
    assert await _texts(factory, document) == [(1, "Hello", 1, True)]


async def test_lines_are_kept_while_they_agree_with_the_text(factory: factories.Factory) -> None:
    """Of text alone the lines are unknown, and those that were read stand in for them."""
    document = await _read(factory, "Hcllo")
    await _correct(factory, document, "Hello", 0, p_lines=Jsonb([{"text": "Hello"}]))
    query = "select lines from page_texts"
    assert (await queries.one(factory.conn, query))["lines"] == [{"text": "Hello"}]
    await _correct(factory, document, "Hallo", 1)
    assert (await queries.one(factory.conn, query))["lines"] == [{"text": "Hcllo"}]


async def test_an_edit_of_an_older_version_changes_nothing_and_is_shown_the_latest(
    factory: factories.Factory,
) -> None:
    """Two people at one page: the second compares, and loses nothing."""
    document = await _read(factory, "Hcllo")
    await _correct(factory, document, "Hello", 0)
    answer = await _correct(factory, document, "Hallo", 0)
    assert (answer["success"], answer["error"]) == (False, "EDITED_MEANWHILE")
    assert (answer["version"], answer["text"]) == (1, "Hello")
    assert await _texts(factory, document) == [(1, "Hello", 1, False)]


async def test_reading_again_never_overwrites_a_correction(factory: factories.Factory) -> None:
    """The new reading is there, below it; not even a page that it does not have is lost."""
    document = await _read(factory, "Hcllo", "Wor1d", "the end")
    await _correct(factory, document, "Hello", 0)
    await _correct(factory, document, None, 0, page=3, p_approved=True)
    await _read_again(factory, document, "Hullo", "World")
    assert await _texts(factory, document) == [
        (1, "Hello", 1, False),
        (2, "World", 0, False),
        (3, "the end", 1, True),
    ]


async def test_search_finds_what_was_corrected_and_no_longer_what_was_wrong(
    factory: factories.Factory,
) -> None:
    """Pages that nobody corrected are found as before."""
    document = await _read(factory, "the garben", "the garden")
    assert await _found(factory, "garben") == [1]
    await _correct(factory, document, "the garden", 0)
    assert await _found(factory, "garben") == []
    assert await _found(factory, "garden") == [1, 2]
    await _correct(factory, document, "the orchard", 1)
    assert await _found(factory, "garden") == [2]


async def test_the_task_is_done_when_every_page_is_that_machines_could_not_read(
    factory: factories.Factory,
) -> None:
    """And not before: a page that is only saved still waits to be approved."""
    document = await _read(factory, "fine", "", "")
    assert await _doubts(factory) == [(2, 2, 2)]
    await _correct(factory, document, "typed", 0, page=2)
    assert await _doubts(factory) == [(2, 2, 2)]
    await _correct(factory, document, None, 1, page=2, p_approved=True)
    assert await _doubts(factory) == [(1, 1, 3)]
    assert await _open_tasks(factory) == 1
    await _correct(factory, document, "typed too", 0, page=3, p_approved=True)
    assert await _open_tasks(factory) == 0
    assert await _doubts(factory) == []


async def test_pages_that_somebody_approved_do_not_wait_again(factory: factories.Factory) -> None:
    """Another reading brings up what is new in doubt, and nothing else."""
    document = await _read(factory, "fine", "", "")
    await _correct(factory, document, "typed", 0, page=2, p_approved=True)
    await _read_again(factory, document, "fine", "", "read now")
    assert (await _doubts(factory), await _open_tasks(factory)) == ([], 0)
    await _read_again(factory, document, "", "", "read now")
    assert (await _doubts(factory), await _open_tasks(factory)) == ([(1, 1, 1)], 1)


async def test_unsure_pages_wait_for_a_person_the_oldest_first(
    factory: factories.Factory,
) -> None:
    """Sure ones and those in the bin do not; the list goes on where it ended."""
    case = await factory.case()
    unsure = [await factory.completed(case, confidence=0.5) for _ in range(3)]
    await factory.completed(case)
    await factory.call("delete_document", p_document_id=unsure[1])
    first, second = await factories.call(factory.conn, "list_doubts")
    assert [first["document_id"], second["document_id"]] == [str(unsure[0]), str(unsure[2])]
    more = await factories.call(
        factory.conn,
        "list_doubts",
        p_after=first["created_at"],
        p_after_id=first["document_id"],
        p_case_id=case,
    )
    assert more == [second]


@pytest.mark.fresh
async def test_lists_of_doubts_are_read_by_index(database: databases.Database) -> None:
    """By time for HAC, by case for others, and no further than is shown."""
    factory = await factories.Factory.of(database)
    owner = await factory.user()
    mine = await factory.case(owner)
    await factory.completed(mine, confidence=0.5)
    conn = await plans.connect(database)
    await conn.execute("set session_replication_role = replica")
    await conn.execute(
        """
        with filler as (
          insert into documents (case_id, name, ocr_status, ocr_completed_at)
          select %s, 'filler ' || n, 'completed', now() from generate_series(1, 5000) as n
          returning *
        )
        insert into page_doubts (document_id, page_number, case_id, status, created_at)
        select f.id, n, f.case_id, 'unread', now() - interval '1 day' + f.number * interval '1 s'
        from (select *, row_number() over () as number from filler) as f, generate_series(1, 3) as n
        """,
        (await factory.case(),),
    )
    await conn.execute("vacuum (analyze) page_doubts, documents")
    async with plans.collected(conn) as found:
        assert len(await queries.rows(conn, "select * from list_doubts()")) == 50
    (for_hac,) = [plan for plan in found if "page_doubts" in plan.statement]
    claims = Jsonb({"role": "authenticated", "sub": str(owner)})
    await conn.execute("select set_config('request.jwt.claims', %s::text, false)", (claims,))
    await conn.execute("set role authenticated")
    async with plans.collected(conn) as found:
        assert len(await queries.rows(conn, "select * from list_doubts()")) == 1
    (for_owner,) = [plan for plan in found if "page_doubts" in plan.statement]
    assert "page_doubts_created_idx" in for_hac.indexes()
    assert "page_doubts_case_idx" in for_owner.indexes()
    assert (for_hac.scanned() | for_owner.scanned()) <= {"cases"}
    assert (for_hac.blocks() < 500, for_owner.blocks() < 50) == (True, True)


async def test_what_a_person_types_completes_a_document_that_waits_for_one(
    factory: factories.Factory,
) -> None:
    """Its dead letter was settled as manual; the text is found, and nobody is asked any longer."""
    letter = await factory.dead_letter(await factory.case())
    pages = Jsonb([{"page_number": 1, "text": "by hand"}])
    document = letter.document_id
    early = await factory.call("type_text", p_document_id=document, p_pages=pages)
    assert early["error"] == "WRONG_STATE"
    await factory.call("resolve_dead_letter", p_dlq_id=letter.dlq_id, p_action="manual")
    answer = await factory.call("type_text", p_document_id=document, p_pages=pages)
    assert answer["success"], answer
    assert await _texts(factory, document) == [(1, "by hand", 1, True)]
    assert await _found(factory, "hand") == [1]
    assert await _open_tasks(factory) == 0
    state = await queries.one(factory.conn, "select ocr_status, page_count from documents")
    assert (state["ocr_status"], state["page_count"]) == ("completed", 1)
    violations = await factory.conn.execute("select * from private.invariant_violations()")
    assert await violations.fetchall() == []
    await _read_again(factory, document, "by machine")
    assert await _texts(factory, document) == [(1, "by hand", 1, True)]


async def test_a_page_that_is_not_there_is_not_corrected(factory: factories.Factory) -> None:
    """Nor one of a document in the bin."""
    document = await _read(factory, "only one")
    assert (await _correct(factory, document, "x", 0, page=2))["error"] == "PAGE_NOT_FOUND"
    await factory.call("delete_document", p_document_id=document)
    assert (await _correct(factory, document, "x", 0))["error"] == "WRONG_STATE"
