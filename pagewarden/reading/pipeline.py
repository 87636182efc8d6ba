"""From a page of a document to its lines: the text layer where it is sound, OCR where not."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from pagewarden.reading import order, pages, upright

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pagewarden.reading import engine, opening

# Neither files in UTF-8 nor Postgres take these.
_UNFIT = re.compile("[\x00-\x08\x0e-\x1f\ud800-\udfff]")


def read_page(
    source: opening.PageSource, number: int, reader: engine.Engine, hints: engine.Hints
) -> pages.ReadPage:
    """Read one page; raises an error of pagewarden.errors."""
    layer = source.layer()
    if layer is not None:
        return pages.ReadPage(
            number, source.width, source.height, source.dpi, pages.Source.LAYER, _fit(layer)
        )
    image = source.render()
    straight = upright.straighten(image)
    found = reader.recognise(straight.image, hints)
    return pages.ReadPage(
        number=number,
        width=image.width,
        height=image.height,
        dpi=image.dpi,
        source=pages.Source.OCR,
        # On the upright page, where lines run from left to right and down.
        lines=_fit(straight.back(order.in_reading_order(found.lines))),
        rotation=straight.rotation,
        skew=straight.skew,
        engine=reader.name,
        usage=found.usage,
    )


def _fit(lines: Iterable[pages.Line]) -> tuple[pages.Line, ...]:
    """Mark the letters that could not be saved."""
    return tuple(
        replace(
            line,
            text=fit_text(line.text),
            words=tuple(replace(word, text=fit_text(word.text)) for word in line.words),
        )
        if _UNFIT.search(line.text) or any(_UNFIT.search(word.text) for word in line.words)
        else line
        for line in lines
    )


def fit_text(text: str) -> str:
    """Mark the letters of a text that could not be saved."""
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)
