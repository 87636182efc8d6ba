"""What was read, in the formats people use: text, JSON, searchable PDF, hOCR, ALTO, PAGE-XML."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.exports import alto, files, hocr, json_file, page_xml, pdf, plain_text, tidy
from pagewarden.exports import document as documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from pagewarden.reading import pages

    Writer = Callable[[BinaryIO, Iterable[pages.ReadPage], documents.Document], None]


@dataclass(frozen=True, slots=True)
class Format:
    """A format: how its files end, what they are called on the web, who writes them.

    needs_original says that the writer parses the original, which is done in the sandbox only.
    """

    suffix: str
    media_type: str
    writer: Writer
    needs_original: bool = False


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "txt": Format(".txt", "text/plain", plain_text.write),
        "json": Format(".json", "application/json", json_file.write),
        "pdf": Format(".pdf", "application/pdf", pdf.write, needs_original=True),
        "hocr": Format(".hocr", "text/vnd.hocr+html", hocr.write),
        "alto": Format(".alto.xml", "application/xml", alto.write),
        "page": Format(".page.xml", "application/xml", page_xml.write),
    }
)


def write(  # noqa: PLR0913  # what to write, from where, to where, and what to call it
    format_name: str,
    pages: Iterable[pages.ReadPage],
    source: Path,
    target: Path,
    *,
    name: str,
    languages: Sequence[str] = (),
    password: str = "",
) -> None:
    """Write the pages to the target, whole or not at all; pages are taken as they come.

    name is what the document is called inside the export, password opens an original that wants
    one. A format that needs the original parses it: do that in the sandbox.
    """
    if format_name not in FORMATS:
        known = ", ".join(FORMATS)
        raise errors.SettingsError(f"there is no format {format_name!r}; choose one of {known}")
    document = documents.Document(tidy.clean(name), source, tuple(languages), password)
    with files.replacing(target, original=source) as out:
        FORMATS[format_name].writer(out, map(tidy.tidied, pages), document)
