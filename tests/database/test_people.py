"""People and their cases: who can sign in, who is one of HAC, who sees which case."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import errors

from tests.database import factories, people, plans, queries

if TYPE_CHECKING:
    from tests.support import databases


async def test_people_are_listed_by_address(database: databases.Database) -> None:
    """Page by page, found by a part of the address, with roles and cases."""
    factory = await factories.Factory.of(database)
    admin = await factory.user(admin=True)
    alan, bob = [await database.create_user(f"{x}@example.org") for x in ("alan", "bob")]
    await factory.case(alan, editor=bob)
    await factory.case(alan)
    await factory.call("delete_case", p_case_id=await factory.case(alan, viewer=bob))

    found = await people.call(database, admin, "list_people", p_search="LAN@EXAMPLE")
    (first,) = await people.call(database, admin, "list_people", p_admin=False, p_limit=1)
    after = {"p_after": first["email"], "p_after_id": first["user_id"]}
    rest = await people.call(database, admin, "list_people", p_admin=False, **after)
    (hac,) = await people.call(database, admin, "list_people", p_admin=True)

    assert [(row["user_id"], row["cases"]) for row in found] == [(str(alan), 2)]
    assert [row["email"] for row in (first, *rest)] == ["alan@example.org", "bob@example.org"]
    assert rest[0]["cases"] == 1
    assert (hac["user_id"], hac["is_admin"]) == (str(admin), True)


async def test_roles_are_given_and_taken_and_written_down(database: databases.Database) -> None:
    """It counts at once; who has no such role loses nothing."""
    factory = await factories.Factory.of(database)
    admin, ada = await factory.user(admin=True), await factory.user()

    (given,) = await people.call(database, admin, "grant_role", p_user_id=ada)
    (again,) = await people.call(database, admin, "grant_role", p_user_id=ada)
    assert [given["changed"], again["changed"]] == [True, False]
    assert await people.call(database, ada, "list_people")
    (taken,) = await people.call(database, admin, "revoke_role", p_user_id=ada)
    assert taken["changed"]
    with pytest.raises(errors.InsufficientPrivilege):
        await people.call(database, ada, "list_people")

    lines = await queries.rows(
        factory.conn,
        "select action_type, user_id from hac_acts where metadata ->> 'user_id' = %s"
        " order by created_at",
        (str(ada),),
    )
    assert [(line["action_type"], line["user_id"]) for line in lines] == [
        ("role_given", admin),
        ("role_taken", admin),
    ]


async def test_nobody_takes_their_own_role_nor_that_of_the_last(
    database: databases.Database,
) -> None:
    """Alone one is the last; with another one asks the other."""
    factory = await factories.Factory.of(database)
    admin = await factory.user(admin=True)
    (alone,) = await people.call(database, admin, "revoke_role", p_user_id=admin)
    await factory.user(admin=True)
    (own,) = await people.call(database, admin, "revoke_role", p_user_id=admin)
    assert [alone["error"], own["error"]] == ["LAST_ADMIN", "OWN_ROLE"]


async def test_of_two_who_take_each_others_role_one_stays(database: databases.Database) -> None:
    """Also when both do so at once."""
    factory = await factories.Factory.of(database)
    admins = [await factory.user(admin=True) for _ in range(2)]
    async with database.acting_as(admins[0]) as first:
        await factories.call(first, "revoke_role", p_user_id=admins[1])
        second = asyncio.create_task(
            people.call(database, admins[1], "revoke_role", p_user_id=admins[0])
        )
        await asyncio.sleep(0.1)  # it waits for the first, which is not committed yet
        assert not second.done()
    with pytest.raises(errors.InsufficientPrivilege):
        await second
    assert len(await queries.rows(factory.conn, "select from user_roles")) == 1


async def test_cases_are_listed_with_what_they_hold(database: databases.Database) -> None:
    """For their people, as what they are to it; HAC sees all, strangers none."""
    factory = await factories.Factory.of(database)
    owner, viewer, stranger = [await factory.user() for _ in range(3)]
    admin = await factory.user(admin=True)
    case = await factory.case(owner, viewer=viewer)
    await factory.completed(case)
    await factory.queued(case)
    await factory.dead_letter(case)
    deleted = await factory.completed(case)
    await factory.call("delete_document", p_document_id=deleted)

    (row,) = await people.call(database, owner, "list_cases")
    roles = [(await people.call(database, who, "list_cases"))[0]["role"] for who in (viewer, admin)]

    counts = {name: row[name] for name in ("documents", "completed", "attention")}
    assert counts == {"documents": 3, "completed": 1, "attention": 1}
    assert (row["role"], row["owner_email"], roles) == (
        "owner", f"{owner}@example.org", ["viewer", "hac"],
    )  # fmt: skip
    assert await people.call(database, stranger, "list_cases") == []
    assert await people.call(database, owner, "list_cases", p_search="nothing like it") == []


async def test_cases_are_read_page_by_page(database: databases.Database) -> None:
    """Newest first, each once; those in the bin are elsewhere."""
    factory = await factories.Factory.of(database)
    owner = await factory.user()
    made = [str(await factory.case(owner)) for _ in range(5)]
    await factory.call("delete_case", p_case_id=made.pop(2))
    seen: list[str] = []
    params: dict[str, Any] = {}
    while page := await people.call(database, owner, "list_cases", p_limit=2, **params):
        seen += [row["case_id"] for row in page]
        params = {"p_before": page[-1]["created_at"], "p_before_id": page[-1]["case_id"]}
    assert seen == made[::-1]
    assert len(await people.call(database, owner, "list_cases", p_deleted=True)) == 1


async def test_a_case_tells_what_is_in_it_and_whose_it_is(database: databases.Database) -> None:
    """To its people only."""
    factory = await factories.Factory.of(database)
    owner, editor, stranger = [await factory.user() for _ in range(3)]
    case = await factory.case(owner, editor=editor)
    await factory.completed(case)
    binned = await factory.queued(case, p_size_bytes=1000)
    await factory.call("delete_document", p_document_id=binned)

    (contents,) = await people.call(database, editor, "case_contents", p_case_id=case)
    members = await people.call(database, editor, "list_case_people", p_case_id=case)

    assert contents == {
        "documents": 1, "deleted": 1, "pages": 1, "files": 2, "bytes": 1000,
        "statuses": {"completed": 1},
    }  # fmt: skip
    assert [(row["user_id"], row["role"]) for row in members] == [
        (str(owner), "owner"),
        (str(editor), "editor"),
    ]
    for function in ("case_contents", "list_case_people"):
        with pytest.raises(errors.InsufficientPrivilege):
            await people.call(database, stranger, function, p_case_id=case)


async def test_a_case_is_shared_by_address(database: databases.Database) -> None:
    """However it is written; whoever may not share learns nothing of addresses."""
    factory = await factories.Factory.of(database)
    owner, viewer = await factory.user(), await factory.user()
    ada = await database.create_user("ada@example.org")
    case = await factory.case(owner, viewer=viewer)
    share = {"p_case_id": case, "p_email": " ADA@example.org ", "p_role": "editor"}

    (shared,) = await people.call(database, owner, "share_case_by_email", **share)
    (seen,) = await people.call(database, ada, "list_cases")
    (nobody,) = await people.call(
        database, owner, "share_case_by_email", **share | {"p_email": "bob@example.org"}
    )

    assert (shared["success"], seen["role"]) == (True, "editor")
    assert nobody["error"] == "PERSON_NOT_FOUND"
    for email in ("ada@example.org", "bob@example.org"):
        with pytest.raises(errors.InsufficientPrivilege):
            await people.call(database, viewer, "share_case_by_email", **share | {"p_email": email})
    await people.call(database, owner, "share_case", p_case_id=case, p_user_id=ada, p_role=None)
    assert await people.call(database, ada, "list_cases") == []


async def test_a_case_comes_back_with_what_went_with_it(database: databases.Database) -> None:
    """What was in the bin before stays there."""
    factory = await factories.Factory.of(database)
    owner = await factory.user()
    case = await factory.case(owner)
    before, after = await factory.completed(case), await factory.completed(case)
    await factory.call("delete_document", p_document_id=before)
    await factory.call("delete_case", p_case_id=case)

    (answer,) = await people.call(database, owner, "restore_case", p_case_id=case)

    assert (answer["success"], answer["documents"]) == (True, 1)
    rows = await queries.rows(factory.conn, "select id from documents where deleted_at is null")
    assert [row["id"] for row in rows] == [after]
    (listed,) = await people.call(database, owner, "list_cases")
    assert listed["documents"] == 1
    assert await queries.violations(factory.conn) == []


MANY_CASES = """
    insert into cases (id, user_id, name, created_at)
    select md5('case' || n)::uuid, %(owner)s, 'Case ' || n, now() - make_interval(mins => n)
    from generate_series(1, 3000) as n;
    insert into documents (case_id, name, ocr_status)
    select md5('case' || n %% 30 + 1)::uuid, 'document ' || n, 'completed'
    from generate_series(1, 60000) as n
"""


@pytest.mark.fresh
async def test_a_page_of_cases_reads_a_hundred_documents_of_each_at_most(
    database: databases.Database,
) -> None:
    """However large they are, for HAC and for their owner."""
    factory = await factories.Factory.of(database)
    owner, admin = await factory.user(), await factory.user(admin=True)
    conn = await plans.connect(database)
    await conn.execute("set session_replication_role = replica")
    for statement in MANY_CASES.split(";"):
        await conn.execute(statement.encode(), {"owner": owner})
    await conn.execute("set session_replication_role = origin")
    await conn.execute("vacuum (analyze) documents, cases")
    for who in (admin, owner):
        await people.sign_in(conn, who)
        async with plans.collected(conn) as found:
            rows = await queries.rows(conn, "select * from list_cases(p_limit => 10)")
        await conn.execute("reset role")
        assert {(row["documents"], row["has_more"]) for row in rows} == {(100, True)}
        (listed,) = [plan for plan in found if "as has_more" in plan.statement]
        assert not {"documents", "cases"} & listed.scanned()
        assert listed.read()["documents"] <= 1000


@pytest.mark.fresh
async def test_a_large_case_is_erased_in_proportion(database: databases.Database) -> None:
    """Each document is looked at a few times, not once for every other; a shared file goes once.

    Even though the planner expects few: its statistics are of a time when the table was empty.
    """
    factory = await factories.Factory.of(database)
    case = await factory.case()
    conn = await plans.connect(database)
    await conn.execute("set session_replication_role = replica")
    load = """
        insert into documents (case_id, name, ocr_status, dropbox_path)
        select %s, 'document ' || n, 'completed', 'file ' || n / 2
        from generate_series(0, 2999) as n
    """
    await conn.execute(load, (case,))
    await conn.execute("delete from documents")
    await conn.execute("vacuum (analyze, truncate off) documents")
    await conn.execute(load, (case,))
    await conn.execute("set session_replication_role = origin")
    async with plans.collected(conn) as found:
        (answer,) = await factories.call(conn, "erase_case", p_case_id=case)
    removed = await queries.one(conn, "select count(*) from private.file_removals")
    lines = await queries.one(
        conn, "select count(*) from hac_acts where case_id = %s and action_type = 'erased'", (case,)
    )
    assert (answer["documents"], removed["count"], lines["count"]) == (3000, 1500, 3000)
    assert sum(plan.read().get("documents", 0) for plan in found) < 20 * 3000


async def test_a_file_goes_with_the_last_document_that_names_it(
    database: databases.Database,
) -> None:
    """A leading slash makes no other file."""
    factory = await factories.Factory.of(database)
    case = await factory.case()
    first, second = [await factory.completed(case) for _ in range(2)]
    spellings = [(f"{case}/scan.pdf", first), (f"/{case}/scan.pdf", second)]
    for path, document in spellings:
        query = "update documents set dropbox_path = %s where id = %s"
        await factory.conn.execute(query, (path, document))
    removals = "select count(*) from private.file_removals"
    for document, expected in ((second, 0), (first, 1)):
        await factory.call("erase_document", p_document_id=document)
        assert (await queries.one(factory.conn, removals))["count"] == expected


async def test_a_case_deleted_twice_comes_back_with_its_documents(
    database: databases.Database,
) -> None:
    """Whoever pressed the button a second time has not lost the way back."""
    factory = await factories.Factory.of(database)
    case = await factory.case()
    await factory.completed(case)
    for _ in range(2):
        await factory.call("delete_case", p_case_id=case)
    assert (await factory.call("restore_case", p_case_id=case))["documents"] == 1


async def test_of_a_name_one_version_comes_back(database: databases.Database) -> None:
    """Also when somebody took an older one out of the bin meanwhile."""
    factory = await factories.Factory.of(database)
    case = await factory.case()
    first = await factory.queued(case, p_document_name="a.pdf", p_sha256="a" * 64)
    await factory.queued(case, p_document_name="a.pdf", p_sha256="b" * 64)
    await factory.call("delete_case", p_case_id=case)
    await factory.call("restore_document", p_document_id=first)
    assert (await factory.call("restore_case", p_case_id=case))["success"]
    (row,) = await queries.rows(
        factory.conn, "select count(*) from documents where deleted_at is null"
    )
    assert row["count"] == 1
