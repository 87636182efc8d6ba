"""Pages as an engine would have read them, made from their lines."""

from __future__ import annotations

from pagewarden.ocr import pages

WIDTH, HEIGHT, LETTER, STEP = 1000, 800, 10, 50


def page(*lines: str) -> pages.ReadPage:
    """Write lines below each other; each letter is 10 pixels wide, the first one at x = 100."""
    written = tuple(_line(text, number) for number, text in enumerate(lines))
    return pages.ReadPage(1, WIDTH, HEIGHT, 96, pages.TextSource.OCR, written)


def box(line: int, start: int, end: int) -> pages.Quad:
    """Say where text[start:end] of a line stands."""
    top = 100.0 + STEP * line
    return pages.Box(100.0 + LETTER * start, top, 100.0 + LETTER * end, top + 20).quad()


def _line(text: str, number: int) -> pages.Line:
    words, end = [], 0
    for word in text.split():
        start = text.index(word, end)
        end = start + len(word)
        words.append(pages.Word(word, box(number, start, end), 0.99))
    return pages.Line(text, box(number, 0, len(text)), 0.99, tuple(words))
