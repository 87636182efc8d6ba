"""Draw one page of a document as a JPEG image for people, in the sandbox.

The image is a smaller version of the one that the positions of lines refer to; see
`pagewarden.ocr.pages`.
"""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from pagewarden import errors
from pagewarden.ocr.document import open_document
from pagewarden.ocr.sandbox import tasks

if TYPE_CHECKING:
    from pagewarden.ocr import reader as readers
    from pagewarden.ocr.sandbox import protocol

MEDIA_TYPE = "image/jpeg"
PRELOAD = (__name__,)
"""Modules to preload into a `Reader` that renders pages."""

# A4 at 200 dpi: sharp at twice the width of a screen.
_MAX_PIXELS = 4_000_000
_MAX_BYTES = 3 * _MAX_PIXELS
_QUALITY = 80


async def draw_page(reader: readers.Reader, source: Path, name: str, number: int) -> bytes:
    """Draw a page, counted from 1; name identifies the document in messages."""
    task = _make_task(source, name, number)
    async with reader.run_task(task, name, max_blob=_MAX_BYTES) as result:
        return result.blob


def _make_task(source: Path, name: str, number: int) -> tasks.SandboxTask:
    options = {"path": str(source.absolute()), "name": name, "number": number}
    return tasks.SandboxTask(__name__, PageImageTask.__name__, options)


class PageImageTask:
    """Draws a page; runs in the sandbox."""

    version = ""

    def __init__(self, *, path: str, name: str, number: int) -> None:
        self._path = Path(path)
        self._name = name
        self._number = number

    def run(self, request: tasks.TaskRequest) -> tuple[protocol.Message, bytes]:
        """Return the page as JPEG."""
        pixels = min(request.bounds.working_pixels, _MAX_PIXELS)
        bounds = dataclasses.replace(request.bounds, working_pixels=pixels)
        document = open_document(self._path, bounds, name=self._name)
        if not 1 <= self._number <= document.page_count:
            raise errors.UnreadableFile(
                f"{self._name}: the document has no page {self._number}. Choose another one."
            )
        out = io.BytesIO()
        Image.fromarray(document.open_page(self._number).render().pixels).save(
            out, "JPEG", quality=_QUALITY
        )
        return {"drawn": True}, out.getvalue()
