"""Open tasks page by page, the most urgent first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboard import lists, visitors


class Place(lists.Filter):
    """Where the last page of a list ended."""

    after_urgency: int | None = None
    after: str = ""
    after_id: str = ""


async def page(
    visitor: visitors.Visitor, chosen: Place, rows: int, **params: object
) -> tuple[lists.Rows, str | None]:
    """Read a page of list_tasks, and give the address of the next one, if there is one."""
    given = {
        "p_after_urgency": chosen.after_urgency,
        "p_after": chosen.after or None,
        "p_after_id": chosen.after_id or None,
    }
    found = await visitor.database.rpc("list_tasks", **given, **params, p_limit=rows + 1)

    def after(last: Mapping[str, Any]) -> str:
        return chosen.address(
            after_urgency=last["urgency"], after=last["created_at"], after_id=last["task_id"]
        )

    return lists.cut(found, rows, after)
