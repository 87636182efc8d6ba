"""What was read, in the formats people use: text, JSON, searchable PDF, hOCR, ALTO, PAGE-XML."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.exports import document as documents
from pagewarden.exports import files, tidy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from pagewarden.reading import pages

    Writer = Callable[[BinaryIO, Iterable[pages.ReadPage], documents.Document], None]


@dataclass(frozen=True, slots=True)
class Format:
    """A format: how its files end, what they are called on the web, which module writes them.

    The module is imported only when it writes, for some take their time to load. needs_original
    says that it parses the original, which is done in the sandbox only.
    """

    suffix: str
    media_type: str
    module: str
    needs_original: bool = False

    def load(self) -> Writer:
        """Import what writes it."""
        writer: Writer = importlib.import_module(self.module).write
        return writer


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "txt": Format(".txt", "text/plain", "pagewarden.exports.plain_text"),
        "json": Format(".json", "application/json", "pagewarden.exports.json_file"),
        "pdf": Format(".pdf", "application/pdf", "pagewarden.exports.pdf", needs_original=True),
        "hocr": Format(".hocr", "text/vnd.hocr+html", "pagewarden.exports.hocr"),
        "alto": Format(".alto.xml", "application/xml", "pagewarden.exports.alto"),
        "page": Format(".page.xml", "application/xml", "pagewarden.exports.page_xml"),
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
    writer = FORMATS[format_name].load()
    document = documents.Document(tidy.clean(name), source, tuple(languages), password)
    with files.replacing(target, original=source) as out:
        writer(out, map(tidy.tidied, pages), document)
