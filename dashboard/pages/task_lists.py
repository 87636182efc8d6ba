"""Open tasks page by page, the most urgent first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from pydantic import BaseModel

from dashboard import visitors


class Place(BaseModel):
    """Where the last page of a list ended."""

    after_urgency: int | None = None
    after: str = ""
    after_id: str = ""

    def address(self, path: str, **changes: object) -> str:
        """Write the address of the list with these changes."""
        wanted = self.model_copy(update=changes).model_dump(exclude_defaults=True)
        return f"{path}?{urlencode(wanted)}" if wanted else path


async def page(
    visitor: visitors.Visitor,
    place: Place,
    rows: int,
    address: Callable[[Mapping[str, object]], str],
    **params: object,
) -> tuple[Sequence[Mapping[str, Any]], str | None]:
    """Read a page of list_tasks, and give the address of the next one, if there is one."""
    given = {
        "p_after_urgency": place.after_urgency,
        "p_after": place.after or None,
        "p_after_id": place.after_id or None,
    }
    # One more than is shown tells whether there is a next page.
    found = await visitor.database.rpc("list_tasks", **given, **params, p_limit=rows + 1)
    if len(found) <= rows:
        return found, None
    last = found[rows - 1]
    return found[:rows], address(
        {
            "after_urgency": last["urgency"],
            "after": last["created_at"],
            "after_id": last["task_id"],
        }
    )
