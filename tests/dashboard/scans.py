"""Documents that were read, with their file and the places of their lines."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from tests.reading import samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.dashboard import place as places

WIDTH, HEIGHT = 1275, 1650
_SCALE = WIDTH / samples.LETTER[0]
_LETTER_WIDTH, _ABOVE, _BELOW, _FIRST, _LEADING, _LEFT = 7.4, 14, 5, 72, 30, 72


@dataclass(frozen=True, slots=True)
class Line:
    """A line as a machine read it, and how sure it was."""

    text: str
    confidence: float = 0.98
    block: int = 0


def _row(number: int, line: Line) -> dict[str, Any]:
    """Place a line where samples.text_pdf draws it."""
    baseline = _FIRST + number * _LEADING
    edges = (_LEFT, baseline - _ABOVE, _LEFT + _LETTER_WIDTH * len(line.text), baseline + _BELOW)
    left, top, right, bottom = (round(edge * _SCALE, 1) for edge in edges)
    return {
        "text": line.text,
        "quad": [[left, top], [right, top], [right, bottom], [left, bottom]],
        "confidence": line.confidence,
        "words": [],
        "block": line.block,
    }


def _page(number: int, lines: Sequence[Line], **details: object) -> dict[str, Any]:
    texts = [
        ("\n\n" if before and before.block != line.block else "\n" if before else "") + line.text
        for before, line in zip((None, *lines), lines, strict=False)
    ]
    sure = [line.confidence for line in lines]
    return {
        "page_number": number,
        "text": "".join(texts),
        "status": "read" if lines else "unread",
        "confidence": sum(sure) / len(sure) if sure else None,
        "width": WIDTH,
        "height": HEIGHT,
        "lines": [_row(place, line) for place, line in enumerate(lines)],
        "details": {"source": "ocr", "dpi": 150.0, "rotation": 0, **details},
    }


async def scanned(
    place: places.Place,
    person: places.Person,
    *pages: Sequence[Line],
    content: bytes | None = None,
    name: str = "letter.pdf",
    **details: object,
) -> uuid.UUID:
    """Upload a file that shows these lines, unless it is another, and have it read so."""
    shown = [[line.text for line in lines] for lines in pages]
    made = content if content is not None else samples.text_pdf(*shown)
    answer = await place.functions.upload(person.id, made, name, case_id=str(person.case))
    document = uuid.UUID(answer.json()["document_id"])
    call = place.functions.factory.call
    claim = await call("acquire_document_lock", p_document_id=document, p_worker_id="w")
    rows = [_page(number, lines, **details) for number, lines in enumerate(pages, 1)]
    done = await call(
        "process_ocr_atomic",
        p_document_id=document,
        p_ocr_data=Jsonb({"pages": rows}),
        p_confidence="0.9",
        p_processing_time_ms=1,
        p_lock_token=claim["lock_token"],
        p_engine="rapid",
        p_version="1",
        p_page_count=len(rows),
    )
    assert done["success"], done
    return document
