"""Open tasks page by page, the most urgent first."""

from __future__ import annotations

from collections.abc import Sequence

from dashboard import lists, visitors
from pagewarden.database import rows


class Place(lists.Filter):
    """Where the last page of a list ended."""

    after_urgency: int | None = None
    after: str = ""
    after_id: str = ""


async def page(  # noqa: PLR0913  # which tasks are wanted
    visitor: visitors.Visitor,
    chosen: Place,
    most: int,
    *,
    kind: str | None = None,
    whose: str = "all",
    priority: str | None = None,
) -> tuple[Sequence[rows.ListedTask], str | None]:
    """Read a page of list_tasks, and give the address of the next one, if there is one."""
    found = await visitor.database.list_tasks(
        kind=kind,
        whose=whose,
        priority=priority,
        after_urgency=chosen.after_urgency,
        after=chosen.after or None,
        after_id=chosen.after_id or None,
        limit=most + 1,
    )

    def after(last: rows.ListedTask) -> str:
        return chosen.address(
            after_urgency=last["urgency"], after=last["created_at"], after_id=last["task_id"]
        )

    return lists.cut(found, most, after)
