"""The documents of a run: no two pages of them have the same size, so their texts tell them apart.

The moody engine gives the size of a page as its text. What a document must read like in the end
is therefore known when it is made, and a page in the wrong document would be seen.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PIL import Image

from pagewarden.reading import fakes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.chaos.plan import Plan


_LEAST_SIDE = 64
_WIDTHS = 512
_WHITE = 255
_DAMAGED = {
    "pdf": b"%PDF-1.7\n" + b"x" * 2000,
    "png": b"\x89PNG\r\n\x1a\n" + b"x" * 200,
}
_PROGRAM = b"\x7fELF\x02\x01\x01" + bytes(200)
_DAMAGED_SHARE = 0.04
_REFUSED_SHARE = 0.01
_PICTURES = 2


@dataclass(frozen=True, slots=True)
class Made:
    """A file and what it must read like; texts is None where nothing can be read from it.

    A refused one is no document at all. A slow one takes a second for each page.
    """

    name: str
    content: bytes
    texts: tuple[str, ...] | None
    refused: bool = False
    slow: bool = False


class Maker:
    """Makes documents as the plan says, by chance."""

    def __init__(self, plan: Plan) -> None:
        self._chance = plan.chance("which documents come")
        self._slow_pages = plan.slow_pages
        self._slow_share = plan.slow_share
        self._pages = 0
        self._names = 0

    def make(self, lane: str) -> list[Made]:
        """Make a document of a lane; of lane check, the pictures of one job."""
        if lane == "check":
            return [self._picture() for _ in range(_PICTURES)]
        luck = self._chance.random()
        if luck < _REFUSED_SHARE and lane == "image":
            content = _PROGRAM if self._chance.random() < 0.5 else b""
            return [Made(self._name("bin"), content, None, refused=True)]
        kind = "png" if lane == "image" else "pdf"
        if luck < _REFUSED_SHARE + _DAMAGED_SHARE:
            name = self._name(kind)
            return [Made(name, _DAMAGED[kind] + name.encode(), None)]
        if luck > 1 - self._slow_share:
            # The GPU service has as many hands as there are cores, so its slow ones are shorter.
            pages = self._slow_pages // 2 if lane == "pdf" else self._slow_pages
            return [self._sound("tiff" if lane == "image" else "pdf", pages, fakes.SLOW_SHADE)]
        return [self._sound(kind, 1 if lane == "image" else self._chance.randint(1, 3), _WHITE)]

    def _picture(self) -> Made:
        if self._chance.random() < _DAMAGED_SHARE / _PICTURES:
            name = self._name("png")
            return Made(name, _DAMAGED["png"] + name.encode(), None)
        return self._sound("png", 1, fakes.SULLEN_SHADE)

    def _sound(self, kind: str, pages: int, shade: int) -> Made:
        sizes = [self._size() for _ in range(pages)]
        content = _saved([Image.new("L", size, shade) for size in sizes], kind)
        texts = tuple(f"{width}x{height}" for width, height in sizes)
        return Made(self._name(kind), content, texts, slow=shade == fakes.SLOW_SHADE)

    def _size(self) -> tuple[int, int]:
        number = self._pages
        self._pages += 1
        return _LEAST_SIDE + number % _WIDTHS, _LEAST_SIDE + number // _WIDTHS

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{self._names}.{kind}"


def _saved(pages: Sequence[Image.Image], kind: str) -> bytes:
    out = io.BytesIO()
    first, *others = pages
    if kind == "png":
        first.save(out, "PNG")
    elif kind == "tiff":
        first.save(out, "TIFF", save_all=True, append_images=others, compression="tiff_deflate")
    else:
        first.save(out, "PDF", save_all=True, append_images=others)
    return out.getvalue()
