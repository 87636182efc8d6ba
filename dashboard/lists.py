"""Lists page by page: what of them is wanted, and where they go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel

Rows = Sequence[Mapping[str, Any]]
Row = TypeVar("Row", bound=Mapping[str, Any])


class Filter(BaseModel):
    """What of a list is wanted, as the query of its address has it; path is where the list is."""

    path: ClassVar[str]

    def address(self, path: str | None = None, **changes: object) -> str:
        """Write the address of the list, or of another page about it, with these changes."""
        wanted = self.model_copy(update=changes).model_dump(exclude_defaults=True)
        return f"{path or self.path}?{urlencode(wanted)}" if wanted else path or self.path


def cut(
    rows: Sequence[Row], most: int, go_on: Callable[[Row], str]
) -> tuple[Sequence[Row], str | None]:
    """Give the rows that are shown, and where the list goes on after the last of them.

    One more than is shown was asked for: it tells whether there is a next page.
    """
    shown = rows[:most]
    return shown, go_on(shown[-1]) if len(rows) > most else None
