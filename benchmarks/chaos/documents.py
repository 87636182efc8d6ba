"""The documents of a run: every page has another size, which identifies it.

The engine of the run returns the size of a page as its text. The expected text of a document is
therefore known in advance, and a page in the wrong document is detected.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PIL import Image

from pagewarden.ocr.engines import fakes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.chaos.plan import Plan


_MIN_SIDE = 64
_WIDTHS = 512
_WHITE = 255
_DAMAGED = {
    "pdf": b"%PDF-1.7\n" + b"x" * 2000,
    "png": b"\x89PNG\r\n\x1a\n" + b"x" * 200,
}
_EXECUTABLE = b"\x7fELF\x02\x01\x01" + bytes(200)
_DAMAGED_SHARE = 0.04
_REJECTED_SHARE = 0.01
_IMAGES_PER_JOB = 2


@dataclass(frozen=True, slots=True)
class SampleFile:
    """A file and its expected texts, None if it cannot be read.

    The upload of a rejected file fails. Reading a slow file takes a second per page.
    """

    name: str
    content: bytes
    texts: tuple[str, ...] | None
    is_rejected: bool = False
    is_slow: bool = False


class DocumentGenerator:
    """Generates random documents as planned."""

    def __init__(self, plan: Plan) -> None:
        self._rng = plan.rng("which documents come")
        self._slow_pages = plan.slow_pages
        self._slow_share = plan.slow_share
        self._pages = 0
        self._names = 0

    def generate(self, lane: str) -> list[SampleFile]:
        """Generate a document for a lane; for lane check, the images of one job."""
        if lane == "check":
            return [self._make_image() for _ in range(_IMAGES_PER_JOB)]
        draw = self._rng.random()
        if draw < _REJECTED_SHARE and lane == "image":
            content = _EXECUTABLE if self._rng.random() < 0.5 else b""
            return [SampleFile(self._next_name("bin"), content, None, is_rejected=True)]
        kind = "png" if lane == "image" else "pdf"
        if draw < _REJECTED_SHARE + _DAMAGED_SHARE:
            name = self._next_name(kind)
            return [SampleFile(name, _DAMAGED[kind] + name.encode(), None)]
        if draw > 1 - self._slow_share:
            # The GPU service reads only one document per core, so slow PDFs are shorter.
            pages = self._slow_pages // 2 if lane == "pdf" else self._slow_pages
            return [self._make_valid("tiff" if lane == "image" else "pdf", pages, fakes.SLOW_SHADE)]
        return [self._make_valid(kind, 1 if lane == "image" else self._rng.randint(1, 3), _WHITE)]

    def _make_image(self) -> SampleFile:
        if self._rng.random() < _DAMAGED_SHARE / _IMAGES_PER_JOB:
            name = self._next_name("png")
            return SampleFile(name, _DAMAGED["png"] + name.encode(), None)
        return self._make_valid("png", 1, fakes.HANGING_SHADE)

    def _make_valid(self, kind: str, pages: int, shade: int) -> SampleFile:
        sizes = [self._next_size() for _ in range(pages)]
        content = _encode([Image.new("L", size, shade) for size in sizes], kind)
        texts = tuple(f"{width}x{height}" for width, height in sizes)
        return SampleFile(self._next_name(kind), content, texts, is_slow=shade == fakes.SLOW_SHADE)

    def _next_size(self) -> tuple[int, int]:
        number = self._pages
        self._pages += 1
        return _MIN_SIDE + number % _WIDTHS, _MIN_SIDE + number // _WIDTHS

    def _next_name(self, kind: str) -> str:
        self._names += 1
        return f"{self._names}.{kind}"


def _encode(pages: Sequence[Image.Image], kind: str) -> bytes:
    buffer = io.BytesIO()
    first, *others = pages
    if kind == "png":
        first.save(buffer, "PNG")
    elif kind == "tiff":
        first.save(buffer, "TIFF", save_all=True, append_images=others, compression="tiff_deflate")
    else:
        first.save(buffer, "PDF", save_all=True, append_images=others)
    return buffer.getvalue()
