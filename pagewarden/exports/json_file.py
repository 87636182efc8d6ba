"""JSON: all that is known of every page, one page to a line; docs/exports.md has the schema."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pagewarden import errors
from pagewarden.exports import document as documents
from pagewarden.reading import pages

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import BinaryIO

VERSION = 1
_DERIVED = ("text", "confidence")


def write(
    out: BinaryIO, read_pages: Iterable[pages.ReadPage], document: documents.Document
) -> None:
    """Write tidied pages as they come."""
    head = {
        "format": "pagewarden",
        "version": VERSION,
        "software": f"{documents.SOFTWARE} {documents.VERSION}",
        "name": document.name,
        "languages": document.languages,
    }
    out.write(_line(head)[:-1] + b', "pages": [')
    out.writelines(
        (b",\n" if count else b"\n") + _line(_page(page)) for count, page in enumerate(read_pages)
    )
    out.write(b"\n]}\n")


def read(path: Path) -> list[pages.ReadPage]:
    """Read the pages of such a file back, perhaps after somebody has corrected the lines in it."""
    try:
        data = json.loads(path.read_bytes())
        version = data["version"]
        if version == VERSION:
            return [_page_from(page) for page in data["pages"]]
    except (ValueError, KeyError, TypeError) as broken:
        raise errors.DamagedFile(
            f"{path} is not a JSON export, or was changed beyond its form ({broken!r}); "
            "compare it with docs/exports.md or export the document again"
        ) from broken
    raise errors.UnsupportedFile(
        f"{path} has version {version!r} of the JSON export, this program reads {VERSION}; "
        "export the document again"
    )


def _page(page: pages.ReadPage) -> dict[str, Any]:
    data = {**page.as_json(), "text": page.text, "confidence": page.confidence}
    for line in data["lines"]:
        for place in (line, *line["words"]):
            place["quad"] = [[round(number, 2) for number in corner] for corner in place["quad"]]
    return data


def _page_from(data: dict[str, Any]) -> pages.ReadPage:
    return pages.ReadPage.from_json(
        {key: value for key, value in data.items() if key not in _DERIVED}
    )


def _line(data: object) -> bytes:
    return json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
