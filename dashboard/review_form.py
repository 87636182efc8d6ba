"""A page under review, line by line with positions in its picture, and the submitted form."""

from __future__ import annotations

import contextlib
import difflib
import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException

from pagewarden.dashboard import route, sessions
from pagewarden.documents import corrections
from pagewarden.ocr import pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.database import rows

# Longer pages are edited as plain text, because that many fields make browsers slow.
MAX_LINES = 600
MAX_CHARACTERS = 100_000
MAX_DIFFERENCES = 300

_UNSURE = 0.85
_DOUBTFUL = 0.6


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """A line of the review form; `level` is sure, unsure or doubtful."""

    number: int
    text: str
    block: int
    percent: int
    level: str
    points: str


@dataclass(frozen=True, slots=True)
class ReviewPage:
    """A page with its text; `lines` is empty if it has no lines or too many to show."""

    text: str
    lines: tuple[pages.Line, ...]
    width: int
    height: int
    rotation: int

    @classmethod
    def from_row(cls, row: rows.PageTexts, text: str | None = None) -> ReviewPage:
        """Build the page from a row of page_texts, or with another text in its lines."""
        text = row["text"] if text is None else text
        lines = fit_lines(row, text) if len(text) <= MAX_CHARACTERS else ()
        return cls(
            text,
            lines if len(lines) <= MAX_LINES else (),
            row["width"] or 0,
            row["height"] or 0,
            int(row["details"].get("rotation") or 0) % 360,
        )

    @property
    def numbered_lines(self) -> list[NumberedLine]:
        """Return the lines for the form."""
        return [_number_line(number, line) for number, line in enumerate(self.lines, 1)]

    def retype(self, texts: Sequence[str]) -> tuple[pages.Line, ...]:
        """Return the lines with new texts, one per line; lines without text are removed."""
        return tuple(
            corrections.retype_line(line, text)
            for line, text in zip(self.lines, texts, strict=True)
            if text.strip()
        )


def fit_lines(row: rows.PageTexts, text: str) -> tuple[pages.Line, ...]:
    """Return the lines of a page, fitted to this text; none if their positions are unknown."""
    lines: tuple[pages.Line, ...] = ()
    with contextlib.suppress(KeyError, TypeError, ValueError):  # lines are saved unvalidated
        lines = tuple(pages.line_from_json(line) for line in row["lines"])
    if lines and corrections.join_lines(lines) != text:
        lines = corrections.fit_text(text, lines)
    return lines


def compare_texts(submitted: str, current: str) -> list[tuple[str, str]]:
    """Return pairs of lines that differ; none if there are too many lines to compare."""
    one, other = submitted.splitlines(), current.splitlines()
    if max(len(one), len(other)) > MAX_LINES or len(submitted) + len(current) > 2 * MAX_CHARACTERS:
        return []
    if not corrections.is_diff_fast(one, other):
        return []
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    return [
        ("\n".join(one[a:b]), "\n".join(other[c:d]))
        for kind, a, b, c, d in matcher.get_opcodes()
        if kind != "equal"
    ][:MAX_DIFFERENCES]


def get_confidence_level(confidence: float) -> str:
    """Return the level of a confidence: sure, unsure or doubtful."""
    if confidence >= _UNSURE:
        return "sure"
    return "doubtful" if confidence < _DOUBTFUL else "unsure"


def _number_line(number: int, line: pages.Line) -> NumberedLine:
    return NumberedLine(
        number,
        line.text,
        line.block,
        # Rounded down, so that 100 % means certain.
        int(100 * line.confidence),
        get_confidence_level(line.confidence),
        " ".join(f"{point.x:.1f},{point.y:.1f}" for point in line.quad),
    )


# Postgres rejects NUL; the others are not valid in text either.
_INVALID = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")
_MAX_FIELDS = 2 * MAX_LINES


class Action(enum.StrEnum):
    """What to do with the submitted text."""

    SAVE = "save"
    APPROVE = "approve"
    NEXT = "next"


@dataclass(frozen=True, slots=True)
class ReviewForm:
    """The submitted form: a new version of a page.

    `texts` has one text per line shown; it is empty if the page was edited as plain text. `base` is
    the version that was edited; `waiting` tells whether the user works through the review queue.
    """

    page: int
    base: int
    action: Action
    waiting: bool
    text: str
    texts: tuple[str, ...] = ()

    def retype_lines(self, page: ReviewPage) -> tuple[pages.Line, ...] | None:
        """Return the lines of the page with the submitted texts; None if their number differs."""
        if not self.texts or len(self.texts) != len(page.lines):
            return None
        return page.retype(self.texts)


async def _read_form(request: Request, _user: sessions.SignedIn) -> ReviewForm:
    # Read after authentication; the request keeps the form for the token check.
    form = await request.form(max_fields=_MAX_FIELDS, max_part_size=route.LargeFormRoute.max_bytes)
    try:
        return _parse_form(form)
    except ValueError as exc:
        raise HTTPException(400, "the form is incomplete; reload the page") from exc


def _parse_form(form: FormData) -> ReviewForm:
    texts = tuple(_clean_text(line).replace("\n", " ") for line in form.getlist("line"))
    return ReviewForm(
        int(_get_field(form, "page")),
        int(_get_field(form, "base")),
        Action(_get_field(form, "act")),
        bool(_get_field(form, "waiting")),
        _join_lines(texts, _get_field(form, "blocks"))
        if texts
        else _clean_text(form.get("text", "")),
        texts,
    )


def _get_field(form: FormData, name: str) -> str:
    return str(form.get(name, ""))


def _join_lines(texts: tuple[str, ...], blocks: str) -> str:
    """Join lines with an empty line between blocks."""
    quad = pages.Box(0, 0, 1, 1).quad()
    numbers = blocks.split(",")
    if len(numbers) != len(texts):
        raise ValueError("the number of blocks must match the number of lines")
    lines = [
        pages.Line(text, quad, 1.0, (), int(number))
        for text, number in zip(texts, numbers, strict=True)
        if text.strip()
    ]
    return corrections.join_lines(lines)


def _clean_text(value: object) -> str:
    """Remove invalid characters and convert CRLF line endings, which browsers send."""
    return _INVALID.sub("", value.replace("\r\n", "\n")) if isinstance(value, str) else ""


SubmittedForm = Annotated[ReviewForm, Depends(_read_form)]
"""Route parameter type: a signed-in user's form; declare it before csrf.FormToken."""
