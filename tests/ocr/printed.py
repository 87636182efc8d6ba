"""Rendered text pages, and the positions of their words."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pagewarden.ocr import pages
from pagewarden.ocr.engines import base

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

ENGLISH = (
    "The garden behind the old house was full of roses,",
    "and every morning a woman in a grey coat came out",
    "to cut the dead flowers and talk to the birds.",
    "Nobody in the village knew how long she had lived",
)
GERMAN = (
    "Über den Dächern der Stadt lag der erste Schnee,",
    "und die Kinder liefen mit großen Augen hinaus.",
    "Für die Bäcker war es noch früh, doch der Ofen",
    "glühte schon und die Straße roch nach Brötchen.",
)

GREEK = (
    "Ὁ δὲ Νέρων μαθὼν καὶ τὸν Πετρώνιον, ὃν κατὰ",
    "τῶν ἐπαναστάντων μετὰ τοῦ πλείονος προεπεπόμφει",
    "στρατεύματος, τὰ τοῦ Γάλβου φρονήσαντα, οὐκέτι",
)

PERSIAN = (
    "این جشن‌نامه برای استاد بزرگ ما (کتاب دوم)",
    "در بهار سال ۱۳۵۷ در شهر تهران چاپ شد.",
)
HEBREW = (
    "הספר הישן (כרך שני) נדפס בירושלים בשנת 1948",
    "ובו פרק 12.5 על ההיסטוריה של הארץ.",
)

_MARGIN, _LEADING = 80, 1.6


@dataclass(frozen=True, slots=True)
class Placed:
    """A word, and the box of its ink."""

    text: str
    box: pages.Box


def page(
    lines: Sequence[str], *, size: int = 40, noise: float = 0.0, colour: bool = False
) -> base.PageImage:
    """Print lines one below another; noise is the share of pixels that are lost."""
    font = _font_for(lines, size)
    width = 2 * _MARGIN + max(int(font.getlength(line)) for line in lines)
    height = 2 * _MARGIN + int(len(lines) * size * _LEADING)
    paper = Image.new("RGB", (width, height), (248, 240, 220))
    pen = ImageDraw.Draw(paper)
    for row, line in enumerate(lines):
        pen.text((_MARGIN, _top(row, size)), line, fill=(30, 25, 60), font=font)
    pixels = np.array(paper if colour else paper.convert("L"))
    return base.PageImage(_spoiled(pixels, noise), dpi=200)


def placed(lines: Sequence[str], *, size: int = 40) -> list[Placed]:
    """Return the position of each word of `page`."""
    font = _font(size)
    found: list[Placed] = []
    for row, line in enumerate(lines):
        before = ""
        for word in line.split():
            left = _MARGIN + font.getlength(before)
            right = left + font.getlength(word)
            top = _top(row, size)
            found.append(Placed(word, pages.Box(left, top, right, top + size * 1.2)))
            before += f"{word} "
    return found


def text_of(found: base.RecognitionResult) -> str:
    """Return the recognised text line by line."""
    return "\n".join(line.text for line in found.lines)


def assert_in_place(found: base.RecognitionResult, lines: Sequence[str], *, size: int = 40) -> None:
    """Check the positions of recognised words, within the width of two strokes."""
    read = [word for line in found.lines for word in line.words]
    printed = placed(lines, size=size)
    assert [word.text for word in read] == [word.text for word in printed]
    for word, where in zip(read, printed, strict=True):
        box = pages.bounding_box(word.quad)
        assert abs(box.left - where.box.left) < size * 0.15, (word, where)
        assert abs(box.right - where.box.right) < size * 0.15, (word, where)
        assert box.top < (where.box.top + where.box.bottom) / 2 < box.bottom, (word, where)


def _top(row: int, size: int) -> float:
    return _MARGIN + row * size * _LEADING


def _font_for(lines: Sequence[str], size: int) -> ImageFont.FreeTypeFont:
    """Choose a font that has the letters; Hebrew and Arabic ones are in a Debian package."""
    if lines in (PERSIAN, HEBREW):
        return ImageFont.truetype("DejaVuSans.ttf", size, layout_engine=ImageFont.Layout.RAQM)
    return _font(size)


@functools.cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    """Load a font with accents and Greek letters, which happens to come with OCRmyPDF."""
    font = resources.files("ocrmypdf") / "data" / "NotoSans-Regular.ttf"
    with resources.as_file(font) as path:
        return ImageFont.truetype(path, size)


def _spoiled(pixels: NDArray[np.uint8], noise: float) -> NDArray[np.uint8]:
    lost = np.random.default_rng(7).random(pixels.shape[:2]) < noise
    spoiled = pixels.copy()
    spoiled[lost] = 128
    return spoiled
