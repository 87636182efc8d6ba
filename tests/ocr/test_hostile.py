"""Errors for files that are broken, too large or unsupported."""

from __future__ import annotations

import io
import struct
import zlib
from typing import TYPE_CHECKING

import pikepdf
import pytest

from benchmarks import sample_files
from pagewarden import errors
from pagewarden.ocr import limits, pages, reader
from tests.ocr import drawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TIGHT = limits.Limits(memory_bytes=512 << 20, page_cpu_seconds=20, page_seconds=40)


@pytest.fixture(scope="module")
async def null() -> AsyncIterator[reader.Reader]:
    """A reader that only parses."""
    async with reader.Reader(engine="null", limits=TIGHT, processes=2) as made:
        yield made


def png(width: int, height: int) -> bytes:
    """Make a PNG with this size in its header and no pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack("!I", len(data)) + checked + struct.pack("!I", zlib.crc32(checked))

    head = struct.pack("!IIBBBBB", width, height, 1, 0, 0, 0, 0)
    body = zlib.compress(b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def pdf(*objects: bytes) -> bytes:
    """Make a PDF of these objects, numbered from 1; the first is the catalogue. It has no index."""
    body = b"".join(b"%d 0 obj %b endobj\n" % (n, each) for n, each in enumerate(objects, 1))
    return b"%PDF-1.7\n" + body + b"trailer <</Root 1 0 R>>"


def long_pdf(count: int) -> bytes:
    """Make a PDF of identical pages."""
    return pdf(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/Kids[%b]>>" % (count, b"3 0 R " * count),
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 300]>>",
    )


def bomb(megabytes: int) -> bytes:
    """Make a small PDF with a huge number of drawing operators."""
    packer = zlib.compressobj()
    parts = [packer.compress(b"q Q " * (1 << 18)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in "12"]
    packed = parts[0] + parts[1] * (megabytes - 1) + packer.flush()
    return pdf(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 300]/Contents 4 0 R>>",
        b"<</Length %d/Filter/FlateDecode>> stream\n%b\nendstream" % (len(packed), packed),
    )


def with_broken_page(number: int) -> bytes:
    """Make a PDF of four pages, one of which is invalid."""
    with pikepdf.open(io.BytesIO(sample_files.make_text_pdf(4))) as made:
        made.Root.Pages.Kids[number - 1] = pikepdf.Dictionary(Type=pikepdf.Name.Font)
        buffer = io.BytesIO()
        made.save(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "error", "words"),
    [
        ("empty.pdf", b"", errors.EmptyFile, ("empty", "Send it again")),
        ("letter.pdf", b"Dear Sir", errors.UnsupportedFile, ("this is ", "Convert it")),
        ("cut.png", png(100, 100)[:40], errors.DamagedFile, ("damaged", "Send it again")),
        ("cut.pdf", b"%PDF-1.7\n1 0 obj <<", errors.DamagedFile, ("damaged", "Send it again")),
        (
            "poster.png",
            png(60_000, 60_000),
            errors.DocumentTooLarge,
            ("60,000 x 60,000", "Scale it down"),
        ),
        (
            "strip.png",
            png(100_000, 20),
            errors.DocumentTooLarge,
            ("100,000 x 20", "Split it into pages"),
        ),
        (
            "archive.pdf",
            long_pdf(10_000),
            errors.DocumentTooLarge,
            ("10,000 or more pages", "Split it"),
        ),
    ],
)
async def test_unreadable_document_explains_why(
    null: reader.Reader, name: str, data: bytes, error: type[Exception], words: tuple[str, str]
) -> None:
    """One error of the right kind, with the file, the reason, and what to do."""
    with pytest.raises(error) as caught:
        await anext(null.read(data, name=name))
    said = str(caught.value)
    assert said.startswith((f"{name}: ", f"{name}, page 1: "))
    assert all(word in said for word in words)


async def test_folder_and_missing_file_are_rejected(null: reader.Reader, tmp_path: Path) -> None:
    """The message has its name."""
    for path in (tmp_path, tmp_path / "missing.pdf"):
        with pytest.raises(
            errors.UnreadableFile, match=f"^{path.name}: the file cannot be read"
        ) as caught:
            await anext(null.read(path))
        assert "Check" in str(caught.value)


async def test_encrypted_document_requires_its_password(null: reader.Reader) -> None:
    """Without one, and with a wrong one, it says so; with the right one it is read."""
    locked = sample_files.make_text_pdf(1, password="open sesame")
    for password in (None, "wrong"):
        with pytest.raises(errors.EncryptedFile, match=r"locked\.pdf: .*password"):
            await anext(null.read(locked, name="locked.pdf", password=password))

    (page,) = [page async for page in null.read(locked, password="open sesame")]
    assert sample_files.WORDS in page.text


async def test_broken_page_is_named_and_others_are_read(null: reader.Reader) -> None:
    """The error of page 3 of 4 has file, page, reason and advice."""
    found = [page async for page in null.read(with_broken_page(3), name="scan.pdf")]

    assert [page.source for page in found] == ["layer", "layer", "failed", "layer"]
    assert str(found[2].error).startswith("scan.pdf, page 3: damaged")
    assert "Send it again" in str(found[2].error)


async def test_bomb_is_contained_by_the_sandbox(null: reader.Reader) -> None:
    """A decompression bomb gives an error; the next document is read."""
    (page,) = [page async for page in null.read(bomb(2048), name="bomb.pdf")]
    assert page.source is pages.TextSource.FAILED
    assert "bomb.pdf, page 1: reading it exceeds the memory limit of 537 MB" in str(page.error)
    assert [page.number async for page in null.read(drawn.document("white"))] == [1]
