"""JSON, with one page per line; docs/reference/exports.md has the schema."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pagewarden import SOFTWARE, errors
from pagewarden.exports import base
from pagewarden.ocr import pages

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import BinaryIO


VERSION = 1
_DERIVED = ("text", "confidence")


def write(out: BinaryIO, read_pages: Iterable[pages.ReadPage], document: base.Document) -> None:
    """Write clean pages one at a time."""
    head = {
        "format": "pagewarden",
        "version": VERSION,
        "software": SOFTWARE,
        "name": document.name,
        "languages": document.languages,
    }
    out.write(_encode(head)[:-1] + b', "pages": [')
    out.writelines(
        (b",\n" if count else b"\n") + _encode(_to_json(page))
        for count, page in enumerate(read_pages)
    )
    out.write(b"\n]}\n")


def read(path: Path) -> list[pages.ReadPage]:
    """Read the pages of a JSON export; its lines may have been edited by hand."""
    try:
        data = json.loads(path.read_bytes())
        version = data["version"]
        if version == VERSION:
            return [_from_json(page) for page in data["pages"]]
    except (ValueError, KeyError, TypeError) as exc:
        raise errors.DamagedFile(
            f"{path} is not a valid JSON export ({exc!r}); "
            "compare it with docs/reference/exports.md or export the document again"
        ) from exc
    raise errors.UnsupportedFile(
        f"{path} has version {version!r} of the JSON export, but this program reads {VERSION}; "
        "export the document again"
    )


def _to_json(page: pages.ReadPage) -> dict[str, Any]:
    data = {**page.as_json(), "text": page.text, "confidence": page.confidence}
    for line in data["lines"]:
        for item in (line, *line["words"]):
            item["quad"] = [[round(number, 2) for number in corner] for corner in item["quad"]]
    return data


def _from_json(data: dict[str, Any]) -> pages.ReadPage:
    return pages.ReadPage.from_json(
        {key: value for key, value in data.items() if key not in _DERIVED}
    )


def _encode(data: object) -> bytes:
    return json.dumps(data, ensure_ascii=False, allow_nan=False).encode()


FORMAT = base.Format(suffix=".json", media_type="application/json", write=write, order=2)
