"""Read the pages of a document: the text layer where it can be trusted, OCR elsewhere.

Runs in the sandbox: `ReadDocument` is the task of children that read documents.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pagewarden.ocr import pages
from pagewarden.ocr.document import open_document
from pagewarden.ocr.engines import base
from pagewarden.ocr.images import orientation
from pagewarden.ocr.layout import order
from pagewarden.ocr.sandbox import protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pagewarden.ocr import document
    from pagewarden.ocr.sandbox import tasks

# UTF-8 cannot encode surrogates, and Postgres stores neither NUL nor most control characters.
_UNSTORABLE = re.compile("[\x00-\x08\x0e-\x1f\ud800-\udfff]")


class ReadDocument:
    """Reads one document: the first request opens it, each further one reads a page."""

    version = ""

    def __init__(
        self, *, path: str, name: str, password: str | None, languages: Sequence[str]
    ) -> None:
        self._path = Path(path)
        self._name = name
        self._password = password
        self._hints = base.PageHints(tuple(languages))
        self._document: document.Document | None = None

    def run(self, request: tasks.TaskRequest) -> tuple[protocol.Message, bytes]:
        """Open the document and return its number of pages, or read the page of the request."""
        if self._document is None:
            self._document = open_document(
                self._path, request.bounds, password=self._password, name=self._name
            )
            return {"page_count": self._document.page_count}, b""
        number = request.message["page"]
        page = read_page(self._document.open_page(number), number, request.engine, self._hints)
        return {"read": True}, protocol.pack_page(page)


def read_page(
    source: document.SourcePage, number: int, engine: base.Engine, hints: base.PageHints
) -> pages.ReadPage:
    """Read one page; raises an error of `pagewarden.errors`."""
    layer = source.read_text_layer()
    if layer is not None:
        return pages.ReadPage(
            number,
            source.width,
            source.height,
            source.dpi,
            pages.TextSource.LAYER,
            _replace_in_lines(layer),
        )
    image = source.render()
    upright = orientation.straighten(image)
    recognised = engine.recognise(upright.image, hints)
    # Sorted on the upright page, where lines run from left to right and down.
    lines = upright.map_to_original(order.sort_in_reading_order(recognised.lines))
    return pages.ReadPage(
        number=number,
        width=image.width,
        height=image.height,
        dpi=image.dpi,
        source=pages.TextSource.OCR,
        lines=_replace_in_lines(lines),
        rotation=upright.rotation,
        skew=upright.skew,
        engine=engine.name,
        usage=recognised.usage,
    )


def replace_unstorable(text: str) -> str:
    """Replace characters that a file or the database cannot store by U+FFFD."""
    return _UNSTORABLE.sub(pages.UNREADABLE, text)


def _replace_in_lines(lines: Iterable[pages.Line]) -> tuple[pages.Line, ...]:
    return tuple(
        replace(
            line,
            text=replace_unstorable(line.text),
            words=tuple(replace(word, text=replace_unstorable(word.text)) for word in line.words),
        )
        if _UNSTORABLE.search(line.text)
        or any(_UNSTORABLE.search(word.text) for word in line.words)
        else line
        for line in lines
    )
