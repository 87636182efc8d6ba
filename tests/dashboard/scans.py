"""Documents with a file and recognised lines at known positions."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from tests.ocr import samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.dashboard import site as sites

WIDTH, HEIGHT = 1275, 1650
_SCALE = WIDTH / samples.LETTER[0]
_LETTER_WIDTH, _ABOVE, _BELOW, _FIRST, _LEADING, _LEFT = 7.4, 14, 5, 72, 30, 72


@dataclass(frozen=True, slots=True)
class Line:
    """A recognised line, with its confidence."""

    text: str
    confidence: float = 0.98
    block: int = 0


def _row(number: int, line: Line) -> dict[str, Any]:
    """Return a line at the position where samples.text_pdf draws it."""
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
        "lines": [_row(number, line) for number, line in enumerate(lines)],
        "details": {"source": "ocr", "dpi": 150.0, "rotation": 0, **details},
    }


async def upload_scan(
    site: sites.Site,
    person: sites.Person,
    *pages: Sequence[Line],
    content: bytes | None = None,
    name: str = "letter.pdf",
    **details: object,
) -> uuid.UUID:
    """Upload a PDF of these lines, or other content, and save them as its recognised text."""
    texts = [[line.text for line in lines] for lines in pages]
    file = content if content is not None else samples.make_text_pdf(*texts)
    answer = await site.functions.upload(person.id, file, name, case_id=str(person.case))
    document = uuid.UUID(answer.json()["document_id"])
    call = site.functions.factory.call
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
