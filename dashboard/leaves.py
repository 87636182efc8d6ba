"""Pages of a volume in their list: which are wanted, those that failed first."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from pydantic import Field

from dashboard import books, lists, parts, sheets
from pagewarden import errors
from pagewarden.files import paths

if TYPE_CHECKING:
    from pagewarden.volumes import looking

PAGES = 100

# A volume has no more pages than can be written so.
_DIGITS = 9


class Show(enum.StrEnum):
    """Which pages are shown; empty for all."""

    ALL = ""
    FAILED = "failed"
    UNREAD = "unread"
    UNSURE = "unsure"


class Filter(lists.Filter):
    """What of the list is wanted: pages of this kind, with this in their name."""

    page: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    show: Show = Show.ALL
    find: str = ""

    @property
    def sought(self) -> str:
        """Give what is looked for, without what slipped in before and after it."""
        return self.find.strip()


def address(book: books.Book, page: looking.Listed) -> str:
    """Write the address of a page."""
    return f"{book.address}/pages/{quote(page.image_name)}"


async def meant(used: parts.Parts, book: books.Book, chosen: Filter) -> looking.Listed | None:
    """Find the one page that is meant; None where several may be, or none can be looked at."""
    if not chosen.sought:
        return None
    try:
        pages = await (await used.volumes.get()).pages(book.edition)
    except errors.PagewardenError:
        return None  # the list will say why
    found = _meant(pages, chosen)
    return found if found and paths.is_path(found.image_name) else None


async def shown(used: parts.Parts, book: books.Book, chosen: Filter) -> dict[str, Any]:
    """Give the pages that are shown, or say why there are none."""
    given: dict[str, Any] = {
        "pages": [], "figures": {}, "all_pages": 0, "failed_pages": 0, "matching": 0, "last": 1,
        "why_none": "", "is_linked": paths.is_path, "shows": list(Show),
    }  # fmt: skip
    try:
        looked, edition = await used.volumes.get(), book.edition
        every = await looked.pages(edition)
        wanted = [page for page in every if chosen.sought.casefold() in page.image_name.casefold()]
        if chosen.show in {Show.UNREAD, Show.UNSURE}:
            figures = await looked.figures(edition, _well(wanted))
            wanted = [page for page in wanted if _is_doubtful(chosen.show, page, figures)]
        elif chosen.show:
            wanted = [page for page in wanted if page.trouble]
        wanted.sort(key=lambda page: page.trouble is None)
        pages = wanted[PAGES * (chosen.page - 1) : PAGES * chosen.page]
        figures = await looked.figures(edition, _well(pages))
    except errors.PagewardenError as exc:
        return given | {"why_none": str(exc)}
    return given | {
        "pages": pages,
        "figures": figures,
        "all_pages": len(every),
        "failed_pages": sum(page.trouble is not None for page in every),
        "matching": len(wanted),
        "last": max(-(-len(wanted) // PAGES), 1),
    }


def _meant(pages: Sequence[looking.Listed], chosen: Filter) -> looking.Listed | None:
    sought = chosen.sought
    for page in pages:
        if page.image_name == sought:
            return page
    if sought.isdecimal() and len(sought) <= _DIGITS and 0 < int(sought) <= len(pages):
        return pages[int(sought) - 1]
    like = [page for page in pages if sought.casefold() in page.image_name.casefold()]
    alike = [page for page in like if page.image_name.casefold() == sought.casefold()]
    found = alike or ([] if chosen.show else like)
    return found[0] if len(found) == 1 else None


def _well(pages: Sequence[looking.Listed]) -> list[str]:
    return [page.image_name for page in pages if page.trouble is None]


def _is_doubtful(show: Show, page: looking.Listed, figures: Mapping[str, looking.Figures]) -> bool:
    known = figures.get(page.image_name)
    if known is None:
        return False
    if show is Show.UNREAD:
        return bool(known.lines) and known.read == 0
    return known.confidence is not None and sheets.level_of(known.confidence) != "sure"
