"""What the first bytes of a file tell people; nothing here takes a file apart."""

from __future__ import annotations

from dataclasses import dataclass

BYTES = 48

_MARKS = (
    (b"%PDF", "Looks like a PDF"),
    (b"\x89PNG", "Looks like a PNG image"),
    (b"\xff\xd8\xff", "Looks like a JPEG image"),
    (b"II*\0", "Looks like a TIFF image"),
    (b"MM\0*", "Looks like a TIFF image"),
    (b"GIF8", "Looks like a GIF image"),
    (b"BM", "Looks like a BMP image"),
    (b"\0\0\0\x0cjP", "Looks like a JPEG 2000 image"),
    (b"AT&TFORM", "Looks like a DjVu document"),
    (b"PK\x03\x04", "Looks like a ZIP archive, or a document of Word, Excel or LibreOffice"),
    (b"\xd0\xcf\x11\xe0", "Looks like an old document of Word, Excel or PowerPoint"),
    (b"{\\rtf", "Looks like rich text"),
    (b"\x1f\x8b", "Looks like a gzip archive"),
    (b"7z\xbc\xaf", "Looks like a 7z archive"),
    (b"Rar!", "Looks like a RAR archive"),
    (b"<?xml", "Looks like XML"),
    (b"MZ", "Looks like a program of Windows"),
    (b"\x7fELF", "Looks like a program of Linux"),
)


@dataclass(frozen=True, slots=True)
class Beginning:
    """A guess, and the bytes as text (what is no text as dots)."""

    guess: str
    shown: str


def look(first: bytes) -> Beginning:
    """Say what a file with this beginning may be."""
    text = first.decode("utf-8", "replace")
    shown = "".join(sign if sign.isprintable() else "·" for sign in text)
    return Beginning(_guess(first, text), shown)


def _guess(first: bytes, text: str) -> str:
    if not first:
        return "The file is empty"
    for mark, guess in _MARKS:
        if first.startswith(mark):
            return guess
    # The last sign may be cut off.
    if (
        all(sign.isprintable() or sign.isspace() for sign in text[:-1])
        and "\ufffd" not in text[:-1]
    ):
        return "Looks like plain text"
    return "Nobody knows what it is"
