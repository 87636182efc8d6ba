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
from pagewarden.reading import formats, limits, opening
from tests.reading import samples

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
def test_every_kind_is_told_by_its_content_and_read(tmp_path: Path, kind: str, plugin: str) -> None:
    """A file with a name that says something else is opened as what it is."""
    image = samples.drawn(size=(400, 500))
    path = _written(tmp_path, "holiday.docx", samples.as_file(image, plugin))

    with contextlib.closing(opening.open_document(path, _LIMITS)) as document:
        page = document.page(1)
        picture = page.render()

        assert (kind, 1) == (document.kind, document.page_count)
        assert (page.width, page.height) == (picture.width, picture.height)
        assert picture.pixels.min() < 100
        assert picture.pixels.max() > 250


def test_a_pdf_may_have_junk_before_its_header(tmp_path: Path) -> None:
    """Mail gateways and old scanners put bytes before the header."""
    path = _written(tmp_path, "a.pdf", b"\r\njunk\r\n" * 20 + samples.text_pdf(["Hello"]))

    with contextlib.closing(opening.open_document(path, _LIMITS)) as document:
        assert document.kind == "pdf"
        assert document.page(1).layer() is not None


@pytest.mark.parametrize(
    ("data", "described"),
    [
        (b"Dear Sir or Madam,\nplease find enclosed", "plain text"),
        ("Gr\u00fc\u00dfe".encode("cp1252"), "plain text"),
        (b"<!DOCTYPE html><html>", "a web page (HTML)"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(90), "an old Microsoft Office document"),
        (b"\x00\x00\x00\x18ftypmp42" + bytes(90), "a film (MP4 or QuickTime)"),
        (bytes(range(256)), "data of a kind we do not know"),
    ],
)
def test_what_is_not_read_is_named(tmp_path: Path, data: bytes, described: str) -> None:
    """The message says what the file looks like, and what to do."""
    path = _written(tmp_path, "letter.pdf", data)

    with pytest.raises(errors.UnsupportedFile) as caught:
        opening.open_document(path, _LIMITS)

    assert str(caught.value).startswith(f"letter.pdf: this is {described}. ")
    assert "convert it" in str(caught.value)


def test_an_archive_that_begins_with_a_pdf_is_an_archive(tmp_path: Path) -> None:
    """A PDF stored in a ZIP has its header within the first kilobyte."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as target:
        target.writestr("a.pdf", samples.text_pdf(["Hello"]))
    path = _written(tmp_path, "a.pdf", archive.getvalue())

    with pytest.raises(errors.UnsupportedFile, match="a ZIP archive"):
        opening.open_document(path, _LIMITS)


def test_a_word_document_is_called_one(tmp_path: Path) -> None:
    """Office files are ZIP archives, but nobody thinks of them that way."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as target:
        target.writestr("word/document.xml", "<w:document/>")
    path = _written(tmp_path, "a.docx", archive.getvalue())

    with pytest.raises(errors.UnsupportedFile, match="a Word document"):
        opening.open_document(path, _LIMITS)


def test_the_given_name_stands_in_messages(tmp_path: Path) -> None:
    """An upload is kept under a random name, and its sender knows another one."""
    path = _written(tmp_path, "8f3a", b"")

    with pytest.raises(errors.EmptyFile, match=r"^letter\.pdf: the file is empty"):
        opening.open_document(path, _LIMITS, name="letter.pdf")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """Neither a folder nor a missing file is taken for a document."""
    with pytest.raises(errors.UnreadableFile, match=r"missing\.pdf: not a file"):
        opening.open_document(tmp_path / "missing.pdf", _LIMITS)
    with pytest.raises(errors.UnreadableFile, match="not a file that can be read"):
        opening.open_document(tmp_path, _LIMITS)


def test_a_file_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """Nothing of it is parsed."""
    path = _written(tmp_path, "a.pdf", b"%PDF-1.4" + bytes(2_000_000))

    with pytest.raises(errors.TooLarge, match=r"a\.pdf: 2 MB, and the limit is 1 MB"):
        opening.open_document(path, limits.Limits(file_bytes=1_000_000))


def test_ten_thousand_pages_are_too_many(tmp_path: Path) -> None:
    """The message says how many there are and how many there may be."""
    path = _written(tmp_path, "a.pdf", samples.many_pages_pdf(10_000))

    with pytest.raises(errors.TooLarge, match=r"a\.pdf: 10,000 pages or more.* 5,000"):
        opening.open_document(path, _LIMITS)


def test_a_password_is_asked_for_and_used(tmp_path: Path) -> None:
    """Without it, or with another one, the file is named as protected."""
    plain = samples.text_pdf(["The secret is out"])
    path = _written(tmp_path, "a.pdf", samples.encrypted(plain, user="sesame", owner="boss"))

    with pytest.raises(errors.EncryptedFile, match=r"a\.pdf: protected by a password\. Give"):
        opening.open_document(path, _LIMITS)
    with pytest.raises(errors.EncryptedFile, match="the password does not fit"):
        opening.open_document(path, _LIMITS, password="open")
    with contextlib.closing(opening.open_document(path, _LIMITS, password="sesame")) as document:
        lines = document.page(1).layer()

    assert lines is not None
    assert lines[0].text == "The secret is out"


def test_an_owner_password_is_no_obstacle(tmp_path: Path) -> None:
    """It forbids printing and copying, not reading."""
    plain = samples.text_pdf(["Do not copy"])
    path = _written(tmp_path, "a.pdf", samples.encrypted(plain, user="", owner="boss"))

    with contextlib.closing(opening.open_document(path, _LIMITS)) as document:
        assert document.page(1).layer() is not None


def test_a_pdf_of_nothing_but_its_header_is_damaged(tmp_path: Path) -> None:
    """Both programs give up on it, and the message says what to do."""
    path = _written(tmp_path, "a.pdf", b"%PDF-1.7\nand then the line went dead")

    with pytest.raises(errors.DamagedFile, match=r"^a\.pdf: damaged\. Send it again"):
        opening.open_document(path, _LIMITS)


@hypothesis.given(st.binary(max_size=4096))
def test_detection_takes_any_bytes(head: bytes) -> None:
    """Whatever a file begins with, it is one of our kinds or can be described."""
    kind = formats.detect(head)

    assert kind is None or kind in _KINDS
    assert formats.describe(head)


@hypothesis.settings(deadline=None, max_examples=30)
@hypothesis.given(
    cut=st.integers(0, 5_000), place=st.integers(0, 3_000), junk=st.binary(min_size=1, max_size=40)
)
def test_a_mutilated_pdf_ends_in_pages_or_in_a_typed_error(
    tmp_path_factory: pytest.TempPathFactory, cut: int, place: int, junk: bytes
) -> None:
    """Nothing but our own errors gets out, whatever was done to the file."""
    whole = samples.text_pdf(samples.PROSE, samples.PROSE)
    data = (whole[:place] + junk + whole[place + len(junk) :])[: max(20, len(whole) - cut)]
    path = _written(tmp_path_factory.mktemp("mutilated"), "a.pdf", data)

    with contextlib.suppress(errors.ReadingError):
        document = opening.open_document(path, _LIMITS)
        with contextlib.closing(document):
            for number in range(1, document.page_count + 1):
                with contextlib.suppress(errors.ReadingError):
                    page = document.page(number)
                    page.layer()
                    page.render()


def test_samples_are_sound_themselves() -> None:
    """A broken sample would make the tests above pass for the wrong reason."""
    with pikepdf.open(io.BytesIO(samples.text_pdf(samples.PROSE))) as pdf:
        assert not pdf.check_pdf_syntax()
