"""Filters, paging, the list of cases that forms offer, and the list of open tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel

from pagewarden.dashboard import sessions
from pagewarden.database import tables
from pagewarden.database.rows import ListedTask

Rows = Sequence[Mapping[str, Any]]
Row = TypeVar("Row", bound=Mapping[str, Any])


class ListFilter(BaseModel):
    """Filters of a list, as in the query string; `path` is that of the list."""

    path: ClassVar[str]

    def url(self, path: str | None = None, **changes: object) -> str:
        """Return the URL of the list, or of another path, with these filters and changes."""
        params = self.model_copy(update=changes).model_dump(exclude_defaults=True)
        return f"{path or self.path}?{urlencode(params)}" if params else path or self.path


def split_page(
    rows: Sequence[Row], limit: int, make_next_url: Callable[[Row], str]
) -> tuple[Sequence[Row], str | None]:
    """Return the rows of this page and the URL of the next one, if any.

    Callers select `limit + 1` rows: the additional one shows that there is a next page.
    """
    shown = rows[:limit]
    return shown, make_next_url(shown[-1]) if len(rows) > limit else None


_MAX_CASES = 500


async def list_cases(user: sessions.CurrentUser, selected_id: str) -> dict[str, str]:
    """Return the names of the newest cases by id, always including the selected one.

    Check jobs are cases too, but are included only if selected: they have their own page, and
    there may be very many.
    """
    select = user.database.select
    rows = await select(
        tables.cases,
        columns="id,name",
        where={"kind": ["client", "registry"]},
        order="created_at.desc,id.desc",
        limit=_MAX_CASES,
    )
    names = {row["id"]: row["name"] for row in rows}
    if selected_id and selected_id not in names:
        found = await select(tables.cases, columns="id,name", where={"id": selected_id})
        names[selected_id] = found[0]["name"] if found else selected_id
    return dict(sorted(names.items(), key=lambda item: item[1].casefold()))


class TaskCursor(ListFilter):
    """Position in a list of tasks: the last task of the previous page."""

    after_urgency: int | None = None
    after: str = ""
    after_id: str = ""


async def list_tasks(  # noqa: PLR0913  # filters of the tasks
    user: sessions.CurrentUser,
    cursor: TaskCursor,
    limit: int,
    *,
    kind: str | None = None,
    whose: str = "all",
    priority: str | None = None,
) -> tuple[Sequence[ListedTask], str | None]:
    """Return a page of open tasks, most urgent first, and the URL of the next page, if any."""
    found = await user.database.list_tasks(
        kind=kind,
        whose=whose,
        priority=priority,
        after_urgency=cursor.after_urgency,
        after=cursor.after or None,
        after_id=cursor.after_id or None,
        limit=limit + 1,
    )

    def make_next_url(last: ListedTask) -> str:
        return cursor.url(
            after_urgency=last["urgency"], after=last["created_at"], after_id=last["task_id"]
        )

    return split_page(found, limit, make_next_url)
