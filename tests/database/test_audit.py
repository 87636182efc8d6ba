"""The audit log, page by page: the same lines as hac_logs, from an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.database import factories, people, plans, queries

if TYPE_CHECKING:
    import uuid

    from tests.support import databases

LOGS = """
    select id::text, case_id::text, document_id::text, user_id::text, action_type,
      action_description as description, field_changed, old_value, new_value
    from hac_logs order by created_at desc, id desc
"""


async def _world(factory: factories.Factory) -> dict[str, uuid.UUID]:
    """Have two people do things to their documents, and machines do others."""
    admin = await factory.user(admin=True)
    ids = {"admin": admin}
    for name in ("ada", "bob"):
        owner = await factory.database.create_user(f"{name}@example.org")
        case = await factory.case(owner)
        documents = [await factory.completed(case) for _ in range(3)]
        await factory.dead_letter(case)
        async with factory.database.acting_as(owner) as conn:
            await factories.call(conn, "delete_document", p_document_id=documents[0])
        ids |= {name: owner, f"{name}_case": case, f"{name}_document": documents[0]}
    async with factory.database.acting_as(admin) as conn:
        await factories.call(conn, "pause_lane", p_lane="pdf", p_reason="because")
        await factories.call(
            conn, "share_case", p_case_id=ids["ada_case"], p_user_id=ids["bob"], p_role="viewer"
        )
    return ids


async def _pages(
    database: databases.Database, who: uuid.UUID, **params: Any
) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    after: dict[str, Any] = {}
    while page := await people.call(database, who, "list_acts", p_limit=3, **params, **after):
        lines += page
        after = {"p_before": page[-1]["created_at"], "p_before_id": page[-1]["id"]}
    return lines


async def test_it_shows_to_everybody_what_hac_logs_shows(database: databases.Database) -> None:
    """Line by line, whoever looks; addresses of others are for HAC."""
    ids = await _world(await factories.Factory.of(database))
    for name in ("admin", "ada", "bob"):
        async with database.acting_as(ids[name]) as conn:
            wanted = await queries.rows(conn, LOGS)
        lines = await _pages(database, ids[name])
        assert len(wanted) > 5
        assert [{key: line[key] for key in wanted[0]} for line in lines] == wanted
        seen = {line["email"] for line in lines} - {None}
        mine = {f"{name}@example.org"}
        everybody = {"ada@example.org", "bob@example.org", f"{ids['admin']}@example.org"}
        assert seen == (everybody if name == "admin" else mine)


async def test_filters_choose_what_they_say(database: databases.Database) -> None:
    """Each of them, and several at once."""
    ids = await _world(await factories.Factory.of(database))
    everything = await _pages(database, ids["admin"])
    middle = everything[len(everything) // 2]["created_at"]
    ada, case, document = (str(ids[name]) for name in ("ada", "ada_case", "ada_document"))
    filters: list[tuple[dict[str, Any], Any]] = [
        ({"p_email": "ADA@example.org"}, lambda line: line["user_id"] == ada),
        ({"p_action_type": "deleted"}, lambda line: line["action_type"] == "deleted"),
        ({"p_action_type": "ocr_completed"}, lambda line: line["action_type"] == "ocr_completed"),
        ({"p_case_id": case}, lambda line: line["case_id"] == case),
        ({"p_document_id": document}, lambda line: line["document_id"] == document),
        ({"p_since": middle}, lambda line: line["created_at"] >= middle),
        ({"p_until": middle}, lambda line: line["created_at"] <= middle),
        (
            {"p_email": "ada@example.org", "p_action_type": "deleted", "p_case_id": case},
            lambda line: line["user_id"] == ada,
        ),
    ]
    for params, fits in filters:
        wanted = [line for line in everything if fits(line)]
        assert await _pages(database, ids["admin"], **params) == wanted, params
        assert 0 < len(wanted) < len(everything)
    assert await _pages(database, ids["admin"], p_email="nobody@example.org") == []


async def test_people_learn_nothing_of_each_other(database: databases.Database) -> None:
    """Neither by case or document, nor by asking for an address."""
    ids = await _world(await factories.Factory.of(database))
    stranger = await database.create_user("eve@example.org")
    for params in (
        {"p_case_id": ids["ada_case"]},
        {"p_document_id": ids["ada_document"]},
        {"p_email": "ada@example.org"},
        {},
    ):
        assert await _pages(database, stranger, **params) == []
    # Shared with Bob, who sees what was done in it, but not by whom.
    lines = await _pages(database, ids["bob"], p_case_id=ids["ada_case"])
    assert "deleted" in {line["action_type"] for line in lines}
    assert {line["email"] for line in lines} == {None}


async def test_it_says_whom_an_act_was_about(database: databases.Database) -> None:
    """Roles and sharing name a person by id; HAC is told the address."""
    ids = await _world(await factories.Factory.of(database))
    (shared,) = await _pages(database, ids["admin"], p_action_type="case_shared")
    assert shared["about_email"] == "bob@example.org"
    words = await people.call(database, ids["ada"], "list_action_types")
    assert {"deleted", "case_shared", "ocr_completed", "lane_paused"} <= set(words)


FILLER = """
    insert into cases (id, user_id)
    select md5('case' || n)::uuid, case when n <= 20 then %(owner)s::uuid end
    from generate_series(1, 400) as n;
    insert into documents (id, case_id, name)
    select md5('document' || n)::uuid, md5('case' || n %% 400 + 1)::uuid, 'document ' || n
    from generate_series(1, 10000) as n;
    insert into ocr_processing_logs (id, document_id, ocr_data, created_at)
    select gen_random_uuid(), md5('document' || n %% 10000 + 1)::uuid, '{}',
      now() - make_interval(secs => 30000 - n)
    from generate_series(1, 30000) as n;
    insert into hac_acts (case_id, document_id, user_id, action_type, created_at)
    select md5('case' || n %% 400 + 1)::uuid, md5('document' || n %% 10000 + 1)::uuid,
      case n %% 500 when 0 then %(owner)s else %(admin)s end, 'deleted' || n %% 700,
      now() - make_interval(secs => 30000 - n)
    from generate_series(1, 30000) as n
"""
FILTERS = {
    "": "",
    "by time": "p_until => now() - interval '4 hours'",
    "deep": "p_before => now() - interval '4 hours'",
    "by person": "p_email => %(email)s",
    "by action": "p_action_type => 'deleted3'",
    "results": "p_action_type => 'ocr_completed'",
    "by case": "p_case_id => md5('case3')::uuid",
    "by document": "p_document_id => md5('document3')::uuid",
}


@pytest.mark.parametrize("who", ["admin", "owner"])
@pytest.mark.fresh
async def test_a_page_of_it_reads_little_more_than_it_shows(
    database: databases.Database, who: str
) -> None:
    """Whatever the filter, for HAC and for people, and however often it is asked."""
    factory = await factories.Factory.of(database)
    ids = {"owner": await factory.user(), "admin": await factory.user(admin=True)}
    conn = await plans.connect(database)
    await conn.execute("set session_replication_role = replica")
    for statement in FILLER.split(";"):
        await conn.execute(statement.encode(), ids)
    await conn.execute("set session_replication_role = origin")
    await conn.execute("vacuum (analyze) documents, cases, hac_acts, ocr_processing_logs")
    await people.sign_in(conn, ids[who])
    email = {"email": f"{ids['owner']}@example.org"}
    for name, params in FILTERS.items():
        for _ in range(6):
            async with plans.collected(conn) as found:
                rows = await queries.rows(
                    conn, f"select * from list_acts({params})".encode(), email
                )
            assert rows, name
            for plan in found:
                assert not {"hac_acts", "ocr_processing_logs"} & plan.scanned(), name
                read = plan.read()
                # People have twenty cases, each of which is asked for a page.
                assert read.get("hac_acts", 0) <= 2000, (name, read)
                assert read.get("ocr_processing_logs", 0) <= 2000, (name, read)
