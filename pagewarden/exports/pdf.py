"""Searchable PDF: the original as it is, with invisible text exactly over the words."""

from __future__ import annotations

import itertools
import shutil
from typing import TYPE_CHECKING

import pikepdf

from pagewarden import errors
from pagewarden.exports import document as documents
from pagewarden.exports import (
    files,
    geometry,
    glyphless,
    invisible,
    picture,
    streams,
    text_layer,
    tidy,
)
from pagewarden.reading import formats, trouble
from pagewarden.reading import pages as reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO

# Of the others a page has its text already, or there is none.
_LAID_OVER = {reading.Source.OCR, reading.Source.PERSON}


def searchable_pdf(
    source: Path, pages: Iterable[reading.ReadPage], target: Path, *, password: str = ""
) -> None:
    """Write the original with its text to the target; pages are taken as they come.

    Parses the original: run it in the sandbox.
    """
    document = documents.Document(tidy.clean(source.name), source, password=password)
    with files.replacing(target, original=source) as out:
        write(out, map(tidy.tidied, pages), document)


def write(
    out: BinaryIO, read_pages: Iterable[reading.ReadPage], document: documents.Document
) -> None:
    """Write tidied pages as they come."""
    with document.source.open("rb") as file:
        kind = formats.detect(file.read(formats.HEAD_BYTES))
    if kind == "pdf":
        _write_over_pdf(out, read_pages, document)
    elif kind:
        _write_pictures(out, read_pages, document)
    else:
        raise errors.UnsupportedFile(
            f"{document.name}: neither a PDF nor an image. Choose another format of export."
        )


def _write_over_pdf(
    out: BinaryIO, read_pages: Iterable[reading.ReadPage], document: documents.Document
) -> None:
    with _opened(document) as pdf:
        layers = _Layers(pdf)
        for page in read_pages:
            if page.source in _LAID_OVER and page.lines:
                with trouble.parsing(document.name, page.number):
                    pdf_page = pdf.pages[page.number - 1]
                    invisible.strip(pdf, pdf_page)
                    layers.add(pdf_page, page)
        if layers.added:
            with trouble.parsing(document.name):
                layers.save(out)
        else:  # nothing to add: every byte stays, and a signature stays valid
            with document.source.open("rb") as file:
                shutil.copyfileobj(file, out)


def _write_pictures(
    out: BinaryIO, read_pages: Iterable[reading.ReadPage], document: documents.Document
) -> None:
    shown = picture.Picture(document)
    with pikepdf.new() as pdf:
        layers = _Layers(pdf)
        for page in read_pages:
            layers.add(shown.add_page(pdf, page), page)
        with trouble.parsing(document.name):
            layers.save(out)


def _opened(document: documents.Document) -> pikepdf.Pdf:
    with trouble.parsing(document.name):
        try:
            return pikepdf.open(document.source, password=document.password)
        except pikepdf.PasswordError as error:
            raise errors.EncryptedFile(
                f"{document.name}: protected by a password. Give the password, or save the file "
                "without one."
            ) from error


class _Layers:
    """The text layers of one PDF and the font they share."""

    def __init__(self, pdf: pikepdf.Pdf) -> None:
        self.added = 0
        self._pdf = pdf
        self._font = glyphless.Font(pdf)

    def add(self, pdf_page: pikepdf.Page, page: reading.ReadPage) -> None:
        """Lay the words under the page: there the graphics state is always as it should be."""
        if not page.lines:
            return
        fonts = streams.own(streams.own(pdf_page.obj, "/Resources"), "/Font")
        name = next(name for name in _names() if name not in fonts)
        fonts[name] = self._font.object
        frame = geometry.frame_of(pdf_page, page)
        layer = text_layer.content(page, frame, self._font, name)
        shown = pdf_page.obj.get("/Contents", pikepdf.Array())
        streams_shown = list(shown) if isinstance(shown, pikepdf.Array) else [shown]
        pdf_page.obj.Contents = pikepdf.Array(
            [streams.compressed(self._pdf, layer), *streams_shown]
        )
        self.added += 1

    def save(self, out: BinaryIO) -> None:
        """Finish the font and write the PDF; the streams of the original stay as they are."""
        self._font.finish()
        self._pdf.save(
            out,
            compress_streams=False,
            stream_decode_level=pikepdf.StreamDecodeLevel.none,
            deterministic_id=True,
            fix_metadata_version=False,
        )


def _names() -> Iterator[pikepdf.Name]:
    return (pikepdf.Name(f"/Pagewarden{count}") for count in itertools.count(1))
