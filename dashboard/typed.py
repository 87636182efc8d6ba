"""What somebody typed into the form of a page under review."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException

from dashboard import route, sheets, visitors
from pagewarden.documents import corrections
from pagewarden.reading import pages

# Postgres takes no NUL, and none of the others is part of a text.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")
_MOST_FIELDS = 2 * sheets.MOST_LINES


class Act(enum.StrEnum):
    """What is to be done with it."""

    SAVE = "save"
    APPROVE = "approve"
    NEXT = "next"


@dataclass(frozen=True, slots=True)
class Typed:
    """A version of a page in the making.

    texts are its lines, one for each that was shown, and blocks the numbers of their blocks;
    without them text is all of it. base is the version that was edited; waiting says that somebody
    goes through all that waits.
    """

    page: int
    base: int
    act: Act
    waiting: bool
    text: str
    texts: tuple[str, ...] = ()

    def lines(self, sheet: sheets.Sheet) -> tuple[pages.Line, ...] | None:
        """Give the lines at the places of those that were shown; None when others were."""
        if not self.texts or len(self.texts) != len(sheet.lines):
            return None
        return sheet.retyped(self.texts)


async def _typed(request: Request, _visitor: visitors.Signed) -> Typed:
    # Only now that we know who sends it; what checks the form's token finds it read.
    form = await request.form(max_fields=_MOST_FIELDS, max_part_size=route.Writing.max_bytes)
    try:
        return _of_form(form)
    except ValueError as exc:
        raise HTTPException(400, "the form is not complete; open the page again") from exc


def _of_form(form: FormData) -> Typed:
    texts = tuple(_fit(line).replace("\n", " ") for line in form.getlist("line"))
    return Typed(
        int(_field(form, "page")),
        int(_field(form, "base")),
        Act(_field(form, "act")),
        bool(_field(form, "waiting")),
        _joined(texts, _field(form, "blocks")) if texts else _fit(form.get("text", "")),
        texts,
    )


def _field(form: FormData, name: str) -> str:
    return str(form.get(name, ""))


def _joined(texts: tuple[str, ...], blocks: str) -> str:
    """Join lines as their page does, with an empty line between blocks."""
    place = pages.Box(0, 0, 1, 1).quad()
    numbers = blocks.split(",")
    if len(numbers) != len(texts):
        raise ValueError("each line has its block")
    lines = [
        pages.Line(text, place, 1.0, (), int(number))
        for text, number in zip(texts, numbers, strict=True)
        if text.strip()
    ]
    return corrections.text_of(lines)


def _fit(value: object) -> str:
    """Take out what no text has; browsers end lines as in the days of telegraphs."""
    return _UNFIT.sub("", value.replace("\r\n", "\n")) if isinstance(value, str) else ""


Form = Annotated[Typed, Depends(_typed)]
"""A parameter of this type is what somebody signed in has typed; Acting comes after it."""
