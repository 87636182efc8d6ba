"""The original of a searchable PDF is as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pikepdf
import pypdfium2  # type: ignore[import-untyped, unused-ignore]  # it has no types
import pytest

from pagewarden import errors, exports
from pagewarden.exports.pdf import searchable
from tests.exports import readers, samples

if TYPE_CHECKING:
    from pathlib import Path

HELLO = samples.page(samples.line("Hello world"))
OLD_LAYER = b"q BT 3 Tr /F 12 Tf 72 700 Td (Gar) Tj (bage) Tj ET Q"
VISIBLE = b"BT 0 Tr /F 12 Tf 72 600 Td (Printed) Tj ET"


def test_page_images_are_byte_identical(tmp_path: Path) -> None:
    """The raw streams of all images are those of the original."""
    source, target = samples.scan(tmp_path / "scan.pdf", count=3), tmp_path / "target.pdf"
    searchable.write_searchable_pdf(source, [HELLO, samples.failed(2)], target)
    assert _images(target) == _images(source) == [samples.jpeg()] * 3


def test_an_image_that_is_not_compressed_stays_so(tmp_path: Path) -> None:
    """Saving touches no stream of the original."""
    with pikepdf.new() as document:
        page = document.add_blank_page(page_size=(576, 720))
        image = pikepdf.Stream(document, b"\x7f" * 100, Subtype=pikepdf.Name.Image)
        page.obj.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(I=image))
        document.save(tmp_path / "scan.pdf", compress_streams=False)
    searchable.write_searchable_pdf(tmp_path / "scan.pdf", [HELLO], tmp_path / "target.pdf")
    assert _images(tmp_path / "target.pdf") == [b"\x7f" * 100]


@pytest.mark.parametrize("rotate", [0, 90])
def test_the_page_looks_as_before(rotate: int, tmp_path: Path) -> None:
    """Not a pixel changes."""
    source = samples.scan(tmp_path / "scan.pdf", rotate=rotate, content=VISIBLE)
    searchable.write_searchable_pdf(source, [HELLO], tmp_path / "target.pdf")
    assert np.array_equal(_rendered(tmp_path / "target.pdf"), _rendered(source))


def test_everything_else_is_kept(tmp_path: Path) -> None:
    """Links, bookmarks, attachments, labels, metadata and form fields are still there."""
    source, target = samples.scan(tmp_path / "scan.pdf", count=2), tmp_path / "target.pdf"
    with pikepdf.open(source, allow_overwriting_input=True) as document:
        document.docinfo["/Title"] = "Minutes"
        document.attachments["notes.txt"] = b"attached"
        with document.open_outline() as outline:
            outline.root.append(pikepdf.OutlineItem("Chapter", 1))
        link = pikepdf.Dictionary(
            Type=pikepdf.Name.Annot, Subtype=pikepdf.Name.Link, Rect=[0, 0, 10, 10]
        )
        document.pages[0].obj.Annots = pikepdf.Array([document.make_indirect(link)])
        document.save(source)
    searchable.write_searchable_pdf(source, [HELLO], target)
    with pikepdf.open(target) as document, document.open_outline() as outline:
        assert str(document.docinfo["/Title"]) == "Minutes"
        assert document.attachments["notes.txt"].get_file().read_bytes() == b"attached"
        assert [item.title for item in outline.root] == ["Chapter"]
        assert document.pages[0].obj.Annots[0].Subtype == "/Link"


def test_a_page_with_a_sound_layer_gets_nothing(tmp_path: Path) -> None:
    """Only pages that were read from their image get a layer."""
    source, target = samples.scan(tmp_path / "scan.pdf", count=2), tmp_path / "target.pdf"
    layer = samples.page(samples.line("From the layer"), source="layer")
    ocr = samples.page(samples.line("From the image"), number=2)
    searchable.write_searchable_pdf(source, [layer, ocr], target)
    assert readers.pdfium_text(target) == ["", "From the image"]


def test_an_original_without_need_of_a_layer_is_copied(tmp_path: Path) -> None:
    """Byte for byte, so that a signature stays valid."""
    source, target = samples.scan(tmp_path / "scan.pdf"), tmp_path / "target.pdf"
    searchable.write_searchable_pdf(
        source, [samples.page(samples.line("x"), source="layer")], target
    )
    assert target.read_bytes() == source.read_bytes()


def test_an_old_invisible_layer_makes_way(tmp_path: Path) -> None:
    """Its garbage is not found any more; text that is seen stays."""
    content = OLD_LAYER + b"\n" + VISIBLE
    source, target = samples.scan(tmp_path / "scan.pdf", content=content), tmp_path / "target.pdf"
    assert "Garbage" in readers.pdfium_text(source)[0]
    searchable.write_searchable_pdf(source, [HELLO], target)
    (text,) = readers.pdfium_text(target)
    assert sorted(text.split()) == ["Hello", "Printed", "world"]
    assert np.array_equal(_rendered(target), _rendered(source))


def test_text_that_is_partly_seen_stays_whole(tmp_path: Path) -> None:
    """Taking letters out of it would move the others."""
    content = b"BT /F 12 Tf 72 600 Td 3 Tr (Half) Tj 0 Tr (seen) Tj ET"
    source, target = samples.scan(tmp_path / "scan.pdf", content=content), tmp_path / "target.pdf"
    searchable.write_searchable_pdf(source, [HELLO], target)
    assert "Halfseen" in readers.pdfium_text(target)[0]
    assert np.array_equal(_rendered(target), _rendered(source))


def test_a_second_export_replaces_the_layer_of_the_first(tmp_path: Path) -> None:
    """Corrected text can be laid over a PDF that is searchable already."""
    first, second = tmp_path / "first.pdf", tmp_path / "second.pdf"
    searchable.write_searchable_pdf(samples.scan(tmp_path / "scan.pdf"), [HELLO], first)
    searchable.write_searchable_pdf(first, [samples.page(samples.line("Corrected text"))], second)
    assert readers.pdfium_text(second) == ["Corrected text"]
    assert _images(second) == [samples.jpeg()]


def test_an_old_layer_in_a_form_makes_way_on_this_page_only(tmp_path: Path) -> None:
    """OCRmyPDF draws its layer as a form; another page that shares it keeps it."""
    source, target = samples.scan(tmp_path / "scan.pdf", count=2), tmp_path / "target.pdf"
    with pikepdf.open(source, allow_overwriting_input=True) as document:
        form = pikepdf.Stream(
            document,
            OLD_LAYER,
            Subtype=pikepdf.Name.Form,
            BBox=[0, 0, 576, 720],
            Resources=document.pages[0].obj.Resources,
        )
        for page in document.pages:
            page.obj.Resources.XObject.Layer = form
            page.contents_add(b"/Layer Do\n", prepend=True)
        document.save(source)
    assert readers.pdfium_text(source) == ["Garbage", "Garbage"]
    searchable.write_searchable_pdf(source, [HELLO], target)
    assert readers.pdfium_text(target) == ["Hello world", "Garbage"]


def test_pages_that_share_resources_do_not_disturb_each_other(tmp_path: Path) -> None:
    """The font goes to a copy of the resources."""
    source, target = samples.scan(tmp_path / "scan.pdf", count=2), tmp_path / "target.pdf"
    with pikepdf.open(source, allow_overwriting_input=True) as document:
        first, second = document.pages
        shared = document.make_indirect(first.obj.Resources)
        first.obj.Resources = second.obj.Resources = shared
        document.save(source)
    searchable.write_searchable_pdf(source, [HELLO], target)
    with pikepdf.open(target) as document:
        assert list(document.pages[1].obj.Resources.Font.keys()) == ["/F"]
    assert readers.pdfium_text(target) == ["Hello world", ""]


def test_a_pdf_that_forbids_changes_stays_readable(tmp_path: Path) -> None:
    """One that only its owner may change is opened without a password, before and after."""
    source = _protected(tmp_path, user="")
    searchable.write_searchable_pdf(source, [HELLO], tmp_path / "target.pdf")
    assert readers.pdfium_text(tmp_path / "target.pdf") == ["Hello world"]
    assert _images(tmp_path / "target.pdf") == [samples.jpeg()]


def test_a_pdf_that_wants_a_password_is_opened_with_it(tmp_path: Path) -> None:
    """With the password it works, without one the error says so."""
    source, target = _protected(tmp_path, user="open sesame"), tmp_path / "target.pdf"
    with pytest.raises(errors.EncryptedFile, match=r"scan\.pdf: protected by a password"):
        searchable.write_searchable_pdf(source, [HELLO], target)
    exports.write("pdf", [HELLO], source, target, name="a.pdf", password="open sesame")
    assert readers.pdfium_text(target) == ["Hello world"]


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"%PDF-1.7\nnothing", errors.DamagedFile, "scan.pdf: damaged"),
        (b"just words", errors.UnsupportedFile, "neither a PDF nor an image"),
        (b"\x89PNG\r\n\x1a\nnothing", errors.DamagedFile, "scan.pdf: damaged"),
    ],
)
def test_an_original_that_cannot_be_parsed_is_a_clear_error(
    content: bytes, error: type[Exception], message: str, tmp_path: Path
) -> None:
    """The message names the file, and nothing is left behind."""
    (tmp_path / "scan.pdf").write_bytes(content)
    with pytest.raises(error, match=message):
        searchable.write_searchable_pdf(tmp_path / "scan.pdf", [HELLO], tmp_path / "target.pdf")
    assert [path.name for path in tmp_path.iterdir()] == ["scan.pdf"]


def test_a_page_that_the_original_does_not_have_is_a_clear_error(tmp_path: Path) -> None:
    """The message names the page."""
    source = samples.scan(tmp_path / "scan.pdf")
    page = samples.page(samples.line("Hello"), number=7)
    with pytest.raises(errors.DamagedFile, match=r"scan\.pdf, page 7: damaged"):
        searchable.write_searchable_pdf(source, [page], tmp_path / "target.pdf")


def _protected(folder: Path, *, user: str) -> Path:
    path = samples.scan(folder / "scan.pdf")
    with pikepdf.open(path, allow_overwriting_input=True) as document:
        permissions = pikepdf.Permissions(extract=False, modify_other=False)
        document.save(
            path, encryption=pikepdf.Encryption(owner="owner", user=user, allow=permissions)
        )
    return path


def _images(path: Path) -> list[bytes]:
    with pikepdf.open(path) as document:
        return [
            item.read_raw_bytes()
            for item in document.objects
            if isinstance(item, pikepdf.Stream) and item.get("/Subtype") == "/Image"
        ]


def _rendered(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    with pypdfium2.PdfDocument(path) as document:
        pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
        pixels = document[0].render(scale=1).to_numpy().copy()
    return pixels
