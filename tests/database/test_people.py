"""People: who can sign in, who is one of HAC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.database import factories

if TYPE_CHECKING:
    import uuid

    from tests.support import databases


async def _as(database: databases.Database, who: uuid.UUID, function: str, **params: Any) -> Any:
    async with database.acting_as(who) as conn:
        return await factories.call(conn, function, **params)


async def test_people_are_listed_by_address(database: databases.Database) -> None:
    """Page by page, found by a part of the address, with roles and cases."""
    factory = await factories.Factory.of(database)
    admin = await factory.user(admin=True)
    ada, bob = [await database.create_user(f"{x}@example.org") for x in ("ada", "bob")]
    await factory.case(ada, editor=bob)
    await factory.case(ada)
    await factory.call("delete_case", p_case_id=await factory.case(ada, viewer=bob))

    found = await _as(database, admin, "list_people", p_search="A@EXAMPLE")
    (first,) = await _as(database, admin, "list_people", p_admin=False, p_limit=1)
    rest = await _as(
        database, admin, "list_people", p_admin=False, p_after=first["email"],
        p_after_id=first["user_id"],
    )  # fmt: skip
    (hac,) = await _as(database, admin, "list_people", p_admin=True)

    assert [(row["user_id"], row["cases"], row["is_admin"]) for row in found] == [
        (str(ada), 2, False)
    ]
    assert [row["email"] for row in (first, *rest)] == ["ada@example.org", "bob@example.org"]
    assert rest[0]["cases"] == 1
    assert (hac["user_id"], hac["is_admin"]) == (str(admin), True)
