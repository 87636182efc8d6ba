"""Pages and originals for the tests of exports, all made here."""

from __future__ import annotations

import cmath
import io
import math
from typing import TYPE_CHECKING

import pikepdf
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from pagewarden.ocr import pages

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WIDTH, HEIGHT, DPI = 800, 1000, 100.0


def turned(box: pages.Box, degrees: float, about: complex | None = None) -> pages.Quad:
    """Turn a box counter-clockwise about its middle, or another point."""
    middle = about or complex((box.left + box.right) / 2, (box.top + box.bottom) / 2)
    turn = cmath.rect(1, -math.radians(degrees))
    corners = [middle + (complex(*corner) - middle) * turn for corner in box.quad()]
    first, second, third, fourth = (pages.Point(corner.real, corner.imag) for corner in corners)
    return first, second, third, fourth


def word(text: str, left: float, top: float, degrees: float = 0) -> pages.Word:
    """Make a word of letters 12 pixels wide and 24 high."""
    box = pages.Box(left, top, left + 12 * len(text), top + 24)
    return pages.Word(text, turned(box, degrees), 0.9)


def line(text: str, *, top: float = 100, block: int = 0) -> pages.Line:
    """Make an upright line whose words stand 12 pixels apart."""
    words, left = [], 100.0
    for part in text.split(" "):
        words.append(word(part, left, top))
        left += 12 * (len(part) + 1)
    quad = pages.Box(100, top, left - 12, top + 24).quad()
    return pages.Line(text, quad, 0.9, tuple(words), block)


def line_of(*words: pages.Word, block: int = 0) -> pages.Line:
    """Make a line of words that stand anywhere."""
    corners = [corner for each in words for corner in each.quad]
    xs, ys = [corner.x for corner in corners], [corner.y for corner in corners]
    quad = pages.Box(min(xs), min(ys), max(xs), max(ys)).quad()
    return pages.Line(" ".join(each.text for each in words), quad, 0.9, words, block)


def page(*lines: pages.Line, number: int = 1, source: str = "ocr") -> pages.ReadPage:
    """Make a page that was read."""
    kind = pages.TextSource(source)
    return pages.ReadPage(number, WIDTH, HEIGHT, DPI, kind, lines, engine="rapid")


def failed(number: int = 1) -> pages.ReadPage:
    """Make a page that could not be read."""
    source = pages.TextSource.FAILED
    return pages.ReadPage(number, 0, 0, 0, source, error='page "7" is <broken> & \x00 empty')


LETTER = (
    page(line("Dear Ms Müller,"), line("we write to you — again.", top=140, block=1)),
    failed(2),
    page(line("Best regards", top=300), number=3),
)


def picture(mode: str = "RGB", size: tuple[int, int] = (WIDTH, HEIGHT)) -> Image.Image:
    """Draw a page that looks different from every side."""
    drawn = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(drawn)
    draw.rectangle((size[0] // 20, size[1] // 20, size[0] // 2, size[1] // 10), fill="darkred")
    draw.ellipse((size[0] // 8, size[1] // 2, size[0] // 4, size[1] * 3 // 4), fill="navy")
    return drawn.convert(mode)


def jpeg() -> bytes:
    """Make the bytes of a photograph."""
    file = io.BytesIO()
    picture().save(file, "JPEG", quality=70)
    return file.getvalue()


def scan(
    path: Path,
    *,
    count: int = 1,
    rotate: int = 0,
    media: Sequence[float] = (0, 0, 576, 720),
    crop: Sequence[float] | None = None,
    user_unit: float = 1,
    content: bytes = b"",
) -> Path:
    """Make a PDF of scanned pages, each with a JPEG, and more content if given."""
    with pikepdf.new() as pdf:
        for _ in range(count):
            made = pdf.add_blank_page(page_size=(media[2], media[3]))
            photograph = pikepdf.Stream(
                pdf,
                jpeg(),
                Type=pikepdf.Name.XObject,
                Subtype=pikepdf.Name.Image,
                Width=WIDTH,
                Height=HEIGHT,
                BitsPerComponent=8,
                ColorSpace=pikepdf.Name.DeviceRGB,
                Filter=pikepdf.Name.DCTDecode,
            )
            made.obj.MediaBox = pikepdf.Array(media)
            made.obj.Rotate = rotate
            if crop:
                made.obj.CropBox = pikepdf.Array(crop)
            if user_unit != 1:
                made.obj.UserUnit = user_unit
            made.obj.Resources = pikepdf.Dictionary(
                XObject=pikepdf.Dictionary(Scan=photograph), Font=pikepdf.Dictionary(F=_helvetica())
            )
            # Unbalanced on purpose: what follows is drawn ten times as large.
            painting = b"q 576 0 0 720 0 0 cm /Scan Do Q\n" + content + b"\n10 0 0 10 5 5 cm q\n"
            made.obj.Contents = pdf.make_stream(painting)
        pdf.save(path)
    return path


def _helvetica() -> pikepdf.Dictionary:
    return pikepdf.Dictionary(
        Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica
    )


# Every character there is, those that no file should have included.
characters = st.characters(codec=None, categories=None) | st.sampled_from(" \t\x00\x1f\ud800\uffff")
texts = st.text(characters, max_size=12)
coordinates = st.floats(-50, 1200)
points = st.builds(pages.Point, coordinates, coordinates)
quads = st.tuples(points, points, points, points)
confidences = st.floats(0, 1)
words = st.builds(pages.Word, texts, quads, confidences)


@st.composite
def lines(draw: st.DrawFn) -> pages.Line:
    """Draw lines: with words, without, and with words that spell something else."""
    parts = draw(st.lists(words, max_size=4))
    text = draw(st.sampled_from(["", " ", "  "])).join(each.text for each in parts)
    text = draw(st.just(text) | texts)
    block = draw(st.integers(0, 3))
    return pages.Line(text, draw(quads), draw(confidences), tuple(parts), block)


@st.composite
def documents(draw: st.DrawFn) -> list[pages.ReadPage]:
    """Draw documents of some pages."""
    count = draw(st.integers(0, 3))
    return [
        page(*draw(st.lists(lines(), max_size=5)), number=number + 1)
        if draw(st.integers(0, 5))
        else failed(number + 1)
        for number in range(count)
    ]
