"""What is done with a picture of a check job once it is read: its text is checked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pagewarden import errors
from pagewarden.checks import checking, languages
from pagewarden.documents import read_pages

if TYPE_CHECKING:
    from pagewarden.checks import report
    from pagewarden.database import rows
    from pagewarden.reading import pages


async def results(asked: rows.GetCheckAnswer) -> list[dict[str, Any]]:
    """Check a picture under each of its names; asked is what get_check answers."""
    found = asked["pages"]
    if not found:
        raise errors.ReadingError("the page of the picture is missing; it is read again")
    if len(found) != 1:
        raise errors.UnsupportedFile(
            f"the picture has {len(found)} pages; send each as a picture of its own"
        )
    page = read_pages.from_row(found[0])
    # The first line whose language is in doubt loads models for seconds.
    return await asyncio.to_thread(_results, page, asked)


def _results(page: pages.ReadPage, asked: rows.GetCheckAnswer) -> list[dict[str, Any]]:
    language = languages.find(asked["language"]) if asked["language"] else None
    allowed = asked["allowed"] or []
    return [
        _result(
            image["position"], page, checking.check(page, image["reference"], language, allowed)
        )
        for image in asked["images"] or []
    ]


def _result(position: int, page: pages.ReadPage, found: report.Report) -> dict[str, Any]:
    said = found.as_json()
    return {
        "position": position,
        "verdict": said["verdict"],
        "match": said["match"],
        "extracted_text": said["extractedText"],
        "issues": said["issues"],
        "strings": said["strings"],
        "width": page.width,
        "height": page.height,
    }
