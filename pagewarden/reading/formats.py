"""What a file is, told by its first bytes; its name is never believed."""

from __future__ import annotations

import codecs

HEAD_BYTES = 4096
"""How much of a file detect and describe want to see."""

_PDF_HEADER_WITHIN = 1024  # Acrobat's own tolerance for junk before the header

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
_HEIC_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_AVIF_BRANDS = {b"avif", b"avis"}
_BMP_HEADER_SIZES = {12, 16, 40, 52, 56, 64, 108, 124}

_OTHERS = (
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
    (b"xl/", "an Excel sheet"),
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


def detect(head: bytes) -> str | None:
    """Name the kind of a file we read ('pdf', 'jpeg', …); None if it is none of them."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "webp"
    if head.startswith(b"BM") and int.from_bytes(head[14:18], "little") in _BMP_HEADER_SIZES:
        return "bmp"
    if head[4:8] == b"ftyp":
        return _detect_brand(head)
    if head.startswith(b"PK\x03\x04"):  # it may hold a PDF, but it is none
        return None
    return "pdf" if b"%PDF-" in head[:_PDF_HEADER_WITHIN] else None


def _detect_brand(head: bytes) -> str | None:
    end = min(int.from_bytes(head[:4], "big"), len(head))
    brands = {head[start : start + 4] for start in (8, *range(16, end - 3, 4))}
    if brands & _AVIF_BRANDS:
        return "avif"
    return "heic" if brands & _HEIC_BRANDS else None


def describe(head: bytes) -> str:
    """Say what a file that we do not read looks like, for the person who sent it."""
    if head.startswith(b"PK\x03\x04"):
        return next((what for part, what in _ZIPPED if part in head), "a ZIP archive")
    for magic, what in _OTHERS:
        if head.startswith(magic):
            return what
    if head[4:8] == b"ftyp":
        return "a film (MP4 or QuickTime)"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    for tag, what in _MARKUP:
        if start.startswith(tag):
            return what
    return "plain text" if _is_text(head) else "data of a kind we do not know"


def _is_text(head: bytes) -> bool:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return True
    return not any(byte < 32 and byte not in b"\t\n\f\r\x1b" for byte in head)
