"""What forms offer to choose from."""

from __future__ import annotations

from dashboard import visitors
from pagewarden.database import tables

_CASES = 500


async def cases(visitor: visitors.Visitor, chosen: str) -> dict[str, str]:
    """Name the newest cases by id; that which is chosen is among them, though it may be gone.

    Check jobs, which are cases too, are only there when they are chosen: they have a page of
    their own, and there may be very many.
    """
    select = visitor.database.select
    rows = await select(
        tables.cases,
        columns="id,name",
        where={"kind": ["client", "registry"]},
        order="created_at.desc,id.desc",
        limit=_CASES,
    )
    names = {row["id"]: row["name"] for row in rows}
    if chosen and chosen not in names:
        found = await select(tables.cases, columns="id,name", where={"id": chosen})
        names[chosen] = found[0]["name"] if found else chosen
    return dict(sorted(names.items(), key=lambda item: item[1].casefold()))
