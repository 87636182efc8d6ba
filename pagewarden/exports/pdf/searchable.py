"""Searchable PDF: the unchanged original with invisible text over its words."""

from __future__ import annotations

import itertools
import shutil
from typing import TYPE_CHECKING

import pikepdf

from pagewarden import errors
from pagewarden.exports import base
from pagewarden.exports.pdf import glyphless_font, image_pages, objects, text_layer
from pagewarden.ocr import file_types, limits
from pagewarden.ocr.pages import ReadPage, TextSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO

# Pages of other sources already have their text, or have none.
_SOURCES_WITH_LAYER = {TextSource.OCR, TextSource.PERSON}


def write_searchable_pdf(
    source: Path, pages: Iterable[ReadPage], target: Path, *, password: str = ""
) -> None:
    """Write the original with its text to the target.

    This parses the original, so run it in the sandbox.
    """
    document = base.Document(base.clean_text(source.name), source, password=password)
    with base.replace_atomically(target, source=source) as out:
        write(out, map(base.clean_page, pages), document)


def write(out: BinaryIO, read_pages: Iterable[ReadPage], document: base.Document) -> None:
    """Write clean pages one at a time."""
    with document.source.open("rb") as file:
        kind = file_types.detect(file.read(file_types.HEAD_BYTES))
    if kind == "pdf":
        _write_pdf(out, read_pages, document)
    elif kind:
        _write_images(out, read_pages, document)
    else:
        raise errors.UnsupportedFile(
            f"{document.name}: neither a PDF nor an image. Choose another export format."
        )


def _write_pdf(out: BinaryIO, read_pages: Iterable[ReadPage], document: base.Document) -> None:
    with _open_pdf(document) as pdf:
        layers = _TextLayers(pdf)
        for page in read_pages:
            if page.source in _SOURCES_WITH_LAYER and page.lines:
                with limits.translate_parser_errors(document.name, page.number):
                    pdf_page = pdf.pages[page.number - 1]
                    text_layer.strip_invisible_text(pdf, pdf_page)
                    layers.add(pdf_page, page)
        if layers.added:
            with limits.translate_parser_errors(document.name):
                layers.save(out)
        else:  # nothing to add: copy the bytes, so that signatures stay valid
            with document.source.open("rb") as file:
                shutil.copyfileobj(file, out)


def _write_images(out: BinaryIO, read_pages: Iterable[ReadPage], document: base.Document) -> None:
    image_file = image_pages.ImageFile(document)
    with pikepdf.new() as pdf:
        layers = _TextLayers(pdf)
        for page in read_pages:
            layers.add(image_file.add_page(pdf, page), page)
        with limits.translate_parser_errors(document.name):
            layers.save(out)


def _open_pdf(document: base.Document) -> pikepdf.Pdf:
    with limits.translate_parser_errors(document.name):
        try:
            return pikepdf.open(document.source, password=document.password)
        except pikepdf.PasswordError as error:
            raise errors.EncryptedFile(
                f"{document.name}: protected by a password. Give the password, or save the file "
                "without one."
            ) from error


class _TextLayers:
    """The text layers of one PDF and the font they share."""

    def __init__(self, pdf: pikepdf.Pdf) -> None:
        self.added = 0
        self._pdf = pdf
        self._font = glyphless_font.GlyphlessFont(pdf)

    def add(self, pdf_page: pikepdf.Page, page: ReadPage) -> None:
        """Add the words below the page content, where the graphics state is always the default."""
        if not page.lines:
            return
        fonts = objects.copy_dictionary(
            objects.copy_dictionary(pdf_page.obj, "/Resources"), "/Font"
        )
        name = next(name for name in _generate_font_names() if name not in fonts)
        fonts[name] = self._font.object
        frame = objects.find_frame(pdf_page, page)
        layer = text_layer.build_content(page, frame, self._font, name)
        contents = pdf_page.obj.get("/Contents", pikepdf.Array())
        streams = list(contents) if isinstance(contents, pikepdf.Array) else [contents]
        pdf_page.obj.Contents = pikepdf.Array([objects.compress(self._pdf, layer), *streams])
        self.added += 1

    def save(self, out: BinaryIO) -> None:
        """Finish the font and write the PDF; the streams of the original stay unchanged."""
        self._font.finish()
        self._pdf.save(
            out,
            compress_streams=False,
            stream_decode_level=pikepdf.StreamDecodeLevel.none,
            deterministic_id=True,
            fix_metadata_version=False,
        )


def _generate_font_names() -> Iterator[pikepdf.Name]:
    return (pikepdf.Name(f"/Pagewarden{count}") for count in itertools.count(1))
