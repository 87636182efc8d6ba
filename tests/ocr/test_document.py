from __future__ import annotations

import contextlib
import io
import zipfile
from typing import TYPE_CHECKING

import hypothesis
import pikepdf
import pytest
from hypothesis import strategies as st

from pagewarden import errors
from pagewarden.ocr import file_types, limits
from pagewarden.ocr.document import open_document
from tests.ocr import samples

if TYPE_CHECKING:
    from pathlib import Path

_LIMITS = limits.Limits()
_KINDS = {
    "jpeg": "JPEG",
    "jp2": "JPEG2000",
    "png": "PNG",
    "webp": "WEBP",
    "tiff": "TIFF",
    "heic": "HEIF",
    "avif": "AVIF",
    "bmp": "BMP",
    "gif": "GIF",
    "pdf": "PDF",
}


def _written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(("kind", "plugin"), _KINDS.items())
def test_every_type_is_detected_by_content_and_read(tmp_path: Path, kind: str, plugin: str) -> None:
    """The suffix of the file name does not matter."""
    image = samples.drawn(size=(400, 500))
    path = _written(tmp_path, "holiday.docx", samples.as_file(image, plugin))

    with contextlib.closing(open_document(path, _LIMITS)) as document:
        page = document.open_page(1)
        picture = page.render()

        assert (kind, 1) == (document.kind, document.page_count)
        assert (page.width, page.height) == (picture.width, picture.height)
        assert picture.pixels.min() < 100
        assert picture.pixels.max() > 250


def test_a_pdf_may_have_junk_before_its_header(tmp_path: Path) -> None:
    """Mail gateways and old scanners put bytes before the header."""
    path = _written(tmp_path, "a.pdf", b"\r\njunk\r\n" * 20 + samples.make_text_pdf(["Hello"]))

    with contextlib.closing(open_document(path, _LIMITS)) as document:
        assert document.kind == "pdf"
        assert document.open_page(1).read_text_layer() is not None


@pytest.mark.parametrize(
    ("data", "described"),
    [
        (b"Dear Sir or Madam,\nplease find enclosed", "plain text"),
        ("Gr\u00fc\u00dfe".encode("cp1252"), "plain text"),
        (b"<!DOCTYPE html><html>", "a web page (HTML)"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(90), "an old Microsoft Office document"),
        (b"\x00\x00\x00\x18ftypmp42" + bytes(90), "a video (MP4 or QuickTime)"),
        (bytes(range(256)), "data of an unknown type"),
    ],
)
def test_unsupported_type_is_named(tmp_path: Path, data: bytes, described: str) -> None:
    """The message says what the file looks like, and what to do."""
    path = _written(tmp_path, "letter.pdf", data)

    with pytest.raises(errors.UnsupportedFile) as caught:
        open_document(path, _LIMITS)

    assert str(caught.value).startswith(f"letter.pdf: this is {described}. ")
    assert "Convert it" in str(caught.value)


def test_an_archive_that_begins_with_a_pdf_is_an_archive(tmp_path: Path) -> None:
    """A PDF stored in a ZIP has its header within the first kilobyte."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as target:
        target.writestr("a.pdf", samples.make_text_pdf(["Hello"]))
    path = _written(tmp_path, "a.pdf", archive.getvalue())

    with pytest.raises(errors.UnsupportedFile, match="a ZIP archive"):
        open_document(path, _LIMITS)


def test_word_document_is_recognised(tmp_path: Path) -> None:
    """The message does not call it a ZIP archive."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as target:
        target.writestr("word/document.xml", "<w:document/>")
    path = _written(tmp_path, "a.docx", archive.getvalue())

    with pytest.raises(errors.UnsupportedFile, match="a Word document"):
        open_document(path, _LIMITS)


def test_messages_use_the_given_name(tmp_path: Path) -> None:
    """An upload has a random file name, which users do not know."""
    path = _written(tmp_path, "8f3a", b"")

    with pytest.raises(errors.EmptyFile, match=r"^letter\.pdf: the file is empty"):
        open_document(path, _LIMITS, name="letter.pdf")


def test_missing_file_or_folder_is_rejected(tmp_path: Path) -> None:
    """The error is UnreadableFile."""
    with pytest.raises(errors.UnreadableFile, match=r"missing\.pdf: the file cannot be read"):
        open_document(tmp_path / "missing.pdf", _LIMITS)
    with pytest.raises(errors.UnreadableFile, match="the file cannot be read"):
        open_document(tmp_path, _LIMITS)


def test_too_large_file_is_rejected(tmp_path: Path) -> None:
    """It is not parsed."""
    path = _written(tmp_path, "a.pdf", b"%PDF-1.4" + bytes(2_000_000))

    with pytest.raises(errors.DocumentTooLarge, match=r"a\.pdf: 2 MB exceeds the limit of 1 MB"):
        open_document(path, limits.Limits(file_bytes=1_000_000))


def test_document_with_too_many_pages_is_rejected(tmp_path: Path) -> None:
    """The message has the number of pages and the limit."""
    path = _written(tmp_path, "a.pdf", samples.many_pages_pdf(10_000))

    with pytest.raises(errors.DocumentTooLarge, match=r"a\.pdf: 10,000 or more pages.* 5,000"):
        open_document(path, _LIMITS)


def test_password_is_required_and_used(tmp_path: Path) -> None:
    """Without it, or with another one, the file is named as protected."""
    plain = samples.make_text_pdf(["The secret is out"])
    path = _written(tmp_path, "a.pdf", samples.encrypted(plain, user="sesame", owner="boss"))

    with pytest.raises(errors.EncryptedFile, match=r"a\.pdf: protected by a password\. Enter"):
        open_document(path, _LIMITS)
    with pytest.raises(errors.EncryptedFile, match="incorrect password"):
        open_document(path, _LIMITS, password="open")
    with contextlib.closing(open_document(path, _LIMITS, password="sesame")) as document:
        lines = document.open_page(1).read_text_layer()

    assert lines is not None
    assert lines[0].text == "The secret is out"


def test_owner_password_is_not_required(tmp_path: Path) -> None:
    """It forbids printing and copying, not reading."""
    plain = samples.make_text_pdf(["Do not copy"])
    path = _written(tmp_path, "a.pdf", samples.encrypted(plain, user="", owner="boss"))

    with contextlib.closing(open_document(path, _LIMITS)) as document:
        assert document.open_page(1).read_text_layer() is not None


def test_pdf_with_only_a_header_is_damaged(tmp_path: Path) -> None:
    """PDFium and poppler fail; the message says what to do."""
    path = _written(tmp_path, "a.pdf", b"%PDF-1.7\nand then the line went dead")

    with pytest.raises(errors.DamagedFile, match=r"^a\.pdf: damaged\. Send it again"):
        open_document(path, _LIMITS)


@hypothesis.given(st.binary(max_size=4096))
def test_detection_accepts_any_bytes(head: bytes) -> None:
    """Whatever a file begins with, it is one of our kinds or can be described."""
    kind = file_types.detect(head)

    assert kind is None or kind in _KINDS
    assert file_types.describe(head)


@hypothesis.settings(deadline=None, max_examples=30)
@hypothesis.given(
    cut=st.integers(0, 5_000), place=st.integers(0, 3_000), junk=st.binary(min_size=1, max_size=40)
)
def test_corrupted_pdf_gives_pages_or_a_typed_error(
    tmp_path_factory: pytest.TempPathFactory, cut: int, place: int, junk: bytes
) -> None:
    """All errors are of `pagewarden.errors`."""
    whole = samples.make_text_pdf(samples.PROSE, samples.PROSE)
    data = (whole[:place] + junk + whole[place + len(junk) :])[: max(20, len(whole) - cut)]
    path = _written(tmp_path_factory.mktemp("mutilated"), "a.pdf", data)

    with contextlib.suppress(errors.ReadingError):
        document = open_document(path, _LIMITS)
        with contextlib.closing(document):
            for number in range(1, document.page_count + 1):
                with contextlib.suppress(errors.ReadingError):
                    page = document.open_page(number)
                    page.read_text_layer()
                    page.render()


def test_samples_are_valid() -> None:
    """A broken sample would make the tests above pass for the wrong reason."""
    with pikepdf.open(io.BytesIO(samples.make_text_pdf(samples.PROSE))) as pdf:
        assert not pdf.check_pdf_syntax()
