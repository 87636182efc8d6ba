"""Detect the type of a file by its first bytes, and describe it; file names are not trusted."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

HEAD_BYTES = 4096
"""Number of leading bytes that `detect` and `describe` need."""

PREVIEW_BYTES = 48
"""Number of leading bytes that `preview` needs."""

_MAX_PDF_OFFSET = 1024  # Acrobat tolerates this much junk before the header
_ZIP = b"PK\x03\x04"
_PLAIN_TEXT = "plain text"
_UNKNOWN = "data of an unknown type"

_MAGIC = (
    (b"\xff\xd8\xff", "jpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"II*\0", "tiff"),
    (b"MM\0*", "tiff"),
    (b"II+\0", "tiff"),
    (b"MM\0+", "tiff"),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "jp2"),
    (b"\xff\x4f\xff\x51", "jp2"),
)
_NAMES = {
    "pdf": "a PDF",
    "jpeg": "a JPEG image",
    "png": "a PNG image",
    "gif": "a GIF image",
    "tiff": "a TIFF image",
    "jp2": "a JPEG 2000 image",
    "webp": "a WebP image",
    "bmp": "a BMP image",
    "avif": "an AVIF image",
    "heic": "a HEIC image",
}
_HEIC_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_AVIF_BRANDS = {b"avif", b"avis"}
_BMP_HEADER_SIZES = {12, 16, 40, 52, 56, 64, 108, 124}

_UNSUPPORTED = (
    (b"\x00\x00\x00\x0cJXL \r\n\x87\n", "a JPEG XL image"),
    (b"\xff\x0a", "a JPEG XL image"),
    (b"8BPS", "a Photoshop image"),
    (b"\x00\x00\x01\x00", "a Windows icon"),
    (b"AT&TFORM", "a DjVu document"),
    (b"%!PS", "a PostScript program"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Microsoft Office document"),
    (b"{\\rtf", "an RTF document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
)
_ZIPPED = (
    (b"word/", "a Word document"),
    (b"xl/", "an Excel workbook"),
    (b"ppt/", "a PowerPoint presentation"),
    (b"mimetypeapplication/vnd.oasis", "an OpenDocument file"),
    (b"mimetypeapplication/epub", "an e-book (EPUB)"),
)
_MARKUP = (
    (b"<svg", "an SVG drawing"),
    (b"<!doctype html", "a web page (HTML)"),
    (b"<html", "a web page (HTML)"),
    (b"<?xml", "an XML file"),
)


@dataclass(frozen=True, slots=True)
class FilePreview:
    """A guess at the type of a file, and its first bytes as text, unprintable ones as dots."""

    guess: str
    text: str


def detect(head: bytes) -> str | None:
    """Return the type of a supported file ("pdf", "jpeg", …); None for any other file."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "webp"
    if head.startswith(b"BM") and int.from_bytes(head[14:18], "little") in _BMP_HEADER_SIZES:
        return "bmp"
    if head[4:8] == b"ftyp":
        return _detect_brand(head)
    if head.startswith(_ZIP):  # an archive may contain the header of a PDF
        return None
    return "pdf" if b"%PDF-" in head[:_MAX_PDF_OFFSET] else None


def describe(head: bytes) -> str:
    """Describe a file of an unsupported type, for an error message."""
    if head.startswith(_ZIP):
        return next((text for part, text in _ZIPPED if part in head), "a ZIP archive")
    for magic, text in _UNSUPPORTED:
        if head.startswith(magic):
            return text
    if head[4:8] == b"ftyp":
        return "a video (MP4 or QuickTime)"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    for tag, text in _MARKUP:
        if start.startswith(tag):
            return text
    return _PLAIN_TEXT if _is_text(head) else _UNKNOWN


def preview(head: bytes) -> FilePreview:
    """Return the beginning of a file as text, with a guess at its type."""
    text = head.decode("utf-8", "replace")
    printable = "".join(char if char.isprintable() else "·" for char in text)
    return FilePreview(_guess_type(head, text), printable)


def _detect_brand(head: bytes) -> str | None:
    end = min(int.from_bytes(head[:4], "big"), len(head))
    brands = {head[start : start + 4] for start in (8, *range(16, end - 3, 4))}
    if brands & _AVIF_BRANDS:
        return "avif"
    return "heic" if brands & _HEIC_BRANDS else None


def _is_text(head: bytes) -> bool:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return True
    return not any(byte < 32 and byte not in b"\t\n\f\r\x1b" for byte in head)


def _guess_type(head: bytes, text: str) -> str:
    if not head:
        return "The file is empty"
    kind = detect(head)
    if kind is not None:
        return f"Looks like {_NAMES[kind]}"
    if head.startswith(_ZIP):  # what it contains comes after the bytes of a preview
        return "Looks like a ZIP archive, or a Word, Excel or LibreOffice document"
    description = describe(head)
    if description == _UNKNOWN or (description == _PLAIN_TEXT and not _is_utf8(text)):
        return "Unknown file type"
    return f"Looks like {description}"


def _is_utf8(text: str) -> bool:
    complete = text[:-1]  # the last character may be cut off
    return "\ufffd" not in complete and all(c.isprintable() or c.isspace() for c in complete)
