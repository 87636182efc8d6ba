"""Documents are found by what they say, by those who may read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.database import factories, plans, queries

if TYPE_CHECKING:
    import uuid

    from tests.support import databases


@dataclass(frozen=True, slots=True)
class Library:
    """Documents of one person."""

    database: databases.Database
    factory: factories.Factory
    owner: uuid.UUID
    case: uuid.UUID

    async def add(self, *pages: str, language: str | None = None) -> uuid.UUID:
        """Upload a document of which these pages are read."""
        document = await self.factory.queued(self.case, p_language=language)
        await self.read(document, *pages)
        return document

    async def read(self, document: uuid.UUID, *pages: str) -> None:
        """Let a worker read these pages from a queued document."""
        claim = await self.factory.call(
            "acquire_document_lock", p_document_id=document, p_worker_id="worker-1"
        )
        read = [{"page_number": n, "text": text} for n, text in enumerate(pages, start=1)]
        await self.factory.call(
            "process_ocr_atomic",
            p_document_id=document,
            p_ocr_data=Jsonb({"pages": read}),
            p_confidence=None,
            p_processing_time_ms=1,
            p_lock_token=claim["lock_token"],
            p_engine="rapid",
        )

    async def find(
        self, query: str | None, *, who: uuid.UUID | None = None, **params: Any
    ) -> list[dict[str, Any]]:
        """Search as the owner, or somebody else."""
        async with self.database.acting_as(who or self.owner) as conn:
            return await factories.call(conn, "search_documents", p_query=query, **params)

    async def found(self, query: str, **params: Any) -> list[str]:
        """Search, and return the parts that were found, hits marked."""
        return [row["headline"] for row in await self.find(query, **params)]


@pytest.fixture
async def library(database: databases.Database) -> Library:
    """Give somebody a case."""
    factory = await factories.Factory.of(database)
    owner = await factory.user()
    return Library(database, factory, owner, await factory.case(owner))


async def test_accents_and_case_do_not_matter(library: Library) -> None:
    """With accents or without, in the text or in the search."""
    await library.add("La Société GÉNÉRALE")
    await library.add("a cafe in Zurich")
    assert await library.found("societe") == ["La «Société» GÉNÉRALE"]
    assert await library.found("générale") == ["La Société «GÉNÉRALE»"]
    assert await library.found("Café Zürich") == ["a «cafe» in «Zurich»"]


async def test_words_match_in_all_forms_of_their_language(library: Library) -> None:
    """When the language is named, as code, with a region, or by its name; and they are marked."""
    await library.add("Les contrats signés", language="fr-CA")
    await library.add("Die Verträge", language="german")
    for language in ("fr", "fr-CA", "fr_FR", "french", "FR"):
        assert await library.found("contrat", p_language=language) == ["Les «contrats» signés"]
    assert await library.found("Vertrag", p_language="de") == ["Die «Verträge»"]
    assert await library.found("contrats") == ["Les «contrats» signés"]
    assert await library.found("contrats", p_language="tlh") == ["Les «contrats» signés"]


async def test_scripts_without_spaces_are_found_by_sequence(library: Library) -> None:
    """Neighbouring signs must be neighbours, also in Japanese and Thai; words may stand apart."""
    await library.add("本契約は東京都において締結する。PDF を参照")
    await library.add("สัญญาเช่าบ้าน")
    assert await library.found("東京") == ["本契約は«東京»都において締結する。PDF を参照"]
    assert await library.found("京東") == []
    assert await library.found("都東京") == []
    (both,) = await library.found("締結 契約")
    assert "«契約»" in both
    assert "«締結»" in both
    assert len(await library.found("pdf 東京")) == 1
    assert len(await library.found('"都において"')) == 1
    assert len(await library.found('"pdf" 東京')) == 1
    assert await library.found('"pdf" 京東') == []
    assert await library.found("東京 -契約") == []
    (thai,) = await library.found("สัญญา")
    assert thai.startswith("«สัญญา»เ")


async def test_punctuation_of_any_script_ends_a_word(library: Library) -> None:
    """Quotation marks, dashes and apostrophes are no letters, and stay in what is shown."""
    await library.add("Il dit : «Été» — l\u2019hiver… “soir” calme")
    assert await library.found("ete") == ["Il dit : ««Été»» — l\u2019hiver… “soir” calme"]
    assert await library.found("hiver") == ["Il dit : «Été» — l\u2019«hiver»… “soir” calme"]
    assert len(await library.found('"été l\'hiver"')) == 1
    assert len(await library.found("“l\u2019hiver soir”")) == 1
    assert await library.found("“soir hiver”") == []


async def test_phrases_and_exclusions_work_as_on_the_web(library: Library) -> None:
    """In quotation marks words follow one another; "or" and a minus mean what they say."""
    await library.add("alpha beta gamma", language="en")
    await library.add("beta alpha")
    assert await library.found('"alpha beta"', p_language="en") == ["«alpha» «beta» gamma"]
    assert await library.found('"beta alpha"') == ["«beta» «alpha»"]
    assert await library.found('"gamma alpha"', p_language="en") == []
    assert await library.found("alpha -gamma") == ["beta «alpha»"]
    assert len(await library.found("gamma or delta")) == 1


async def test_only_who_may_read_a_document_finds_it(library: Library) -> None:
    """Strangers find nothing, also when they name the case; members, HAC and services do."""
    document = await library.add("secret treaty")
    stranger, viewer = [await library.factory.user() for _ in range(2)]
    admin = await library.factory.user(admin=True)
    assert await library.find("treaty", who=stranger) == []
    assert await library.find("treaty", who=stranger, p_case_id=library.case) == []
    await library.factory.call("share_case", p_case_id=library.case, p_user_id=viewer)
    for reader in (library.owner, viewer, admin):
        (hit,) = await library.find("treaty", who=reader)
        assert (hit["document_id"], hit["case_id"]) == (str(document), str(library.case))
    async with library.database.acting_as("service_role") as conn:
        assert len(await factories.call(conn, "search_documents", p_query="treaty")) == 1
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        async with library.database.acting_as("anon") as conn:
            await conn.execute("select * from search_documents('treaty')")


async def test_only_the_current_text_is_found(library: Library) -> None:
    """The old reading is found until the new one is complete, and then no more."""
    document = await library.add("old wording")
    await library.factory.call("read_again", p_document_id=document, p_engine="gemini")
    assert await library.found("wording") == ["old «wording»"]
    await library.read(document, "new words")
    assert await library.found("wording") == []
    assert await library.found("words") == ["new «words»"]


async def test_a_deleted_document_is_not_found_until_restored(library: Library) -> None:
    """Neither is what a newer upload replaced."""
    document = await library.add("vanishing ink")
    await library.factory.call("delete_document", p_document_id=document)
    assert await library.found("ink") == []
    await library.factory.call("restore_document", p_document_id=document)
    assert await library.found("ink") == ["vanishing «ink»"]
    name = await queries.one(library.factory.conn, "select name from documents")
    await library.factory.queued(library.case, p_document_name=name["name"])
    assert await library.found("ink") == []


async def test_hits_name_their_page_and_come_best_first(library: Library) -> None:
    """More of what was asked for ranks higher; hits can be read page by page."""
    await library.add("nothing here", "one needle", "needle needle needle")
    hits = await library.find("needle")
    assert [hit["page_number"] for hit in hits] == [3, 2]
    assert hits[0]["rank"] > hits[1]["rank"]
    (second,) = await library.find("needle", p_limit=1, p_offset=1)
    assert second == hits[1]


async def test_a_long_page_shows_the_part_that_was_found(library: Library) -> None:
    """A headline is an excerpt, not the page."""
    filler = " ".join(f"word{number}" for number in range(2_000))
    await library.add(f"{filler} needle {filler}")
    (headline,) = await library.found("needle")
    assert "«needle»" in headline
    assert len(headline) < 500


@pytest.mark.parametrize(
    ("query", "params"),
    [
        (None, {}),
        ("", {}),
        ("x" * 1001, {}),
        ("x", {"p_limit": 0}),
        ("x", {"p_limit": 201}),
        ("x", {"p_limit": None}),
        ("x", {"p_offset": -1}),
    ],
)
async def test_senseless_searches_are_refused(
    library: Library, query: str | None, params: dict[str, Any]
) -> None:
    """They raise 22023 with a hint."""
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        await library.find(query, **params)
    assert refused.value.diag.message_hint


async def test_words_that_mean_nothing_find_nothing(library: Library) -> None:
    """Punctuation and stop words are no error."""
    await library.add("some text")
    for query in ("...", "!(&|", '"', "-", "*", ":*", "\\"):
        assert await library.find(query) == []


@pytest.mark.fresh
async def test_a_signed_in_person_searches_by_index(library: Library) -> None:
    """Policies do not turn the search into a scan of all pages of everybody."""
    conn = await plans.connect(library.database)
    await conn.execute("set session_replication_role = replica")
    await conn.execute(
        """
        with filler as (
          insert into documents (case_id, name, ocr_status, ocr_completed_at, run_id)
          select %s, 'filler ' || n, 'completed', now(), n from generate_series(1000, 3000) as n
          returning *
        )
        insert into ocr_pages (run_id, page_number, document_id, case_id, text, text_search)
        select f.run_id, 1, f.id, f.case_id, t.text, private.search_vector(t.text, null)
        from filler as f
        cross join lateral (select f.name || repeat(' and so on', 50) as text) as t
        """,
        (library.case,),
    )
    await library.add("needle")
    await conn.execute(
        """
        insert into page_corrections (document_id, page_number, version, case_id, text, text_search)
        select document_id, 1, 1, case_id, text || '!', text_search from ocr_pages
        where run_id between 1000 and 2000
        """
    )
    # Words that came in lately are on a list of their own until they are put into the index.
    await conn.execute("vacuum (analyze) ocr_pages, page_corrections, documents")
    claims = Jsonb({"role": "authenticated", "sub": str(library.owner)})
    await conn.execute("select set_config('request.jwt.claims', %s::text, false)", (claims,))
    await conn.execute("set role authenticated")
    for _ in range(7):  # after five runs Postgres settles for one plan
        async with plans.collected(conn) as found:
            assert len(await queries.rows(conn, "select * from search_documents('needle')")) == 1
        (search,) = [plan for plan in found if "@@ v_query" in plan.statement]
        assert "ocr_pages_text_search_idx" in search.indexes()
        assert search.scanned() == set()
        assert search.blocks() < 50
