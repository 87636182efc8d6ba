"""Exports of OCR results.

Begin with `write` and `FORMATS`. Each format is a module of the same name with a `FORMAT`; adding
one adds it to the command line, the API and the dashboard.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import MappingProxyType
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.exports import base

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pagewarden.ocr.pages import ReadPage


# Modules of this package that formats share; every other module is a format.
_SHARED = frozenset({"base", "sandbox", "xml"})


def _find_formats() -> Mapping[str, base.Format]:
    """Return the format of each module by the module's name, in the order of menus."""
    names = {module.name for module in pkgutil.iter_modules(__path__)} - _SHARED
    found = {name: _load_format(name) for name in names}
    suffixes = [export.suffix for export in found.values()]
    if len(set(suffixes)) < len(suffixes):
        raise ValueError(f"two export formats have the same suffix: {sorted(suffixes)}")
    ordered = sorted(found.items(), key=lambda entry: (entry[1].order, entry[0]))
    return MappingProxyType(dict(ordered))


def _load_format(name: str) -> base.Format:
    found = getattr(importlib.import_module(f"{__name__}.{name}"), "FORMAT", None)
    if not isinstance(found, base.Format):
        raise TypeError(
            f"pagewarden/exports/{name}.py has no FORMAT; if several formats share it, add it to "
            "_SHARED in pagewarden/exports/__init__.py"
        )
    return found


FORMATS = _find_formats()


def write(  # noqa: PLR0913  # the fields of an export
    format_name: str,
    pages: Iterable[ReadPage],
    source: Path,
    target: Path,
    *,
    name: str,
    languages: Sequence[str] = (),
    password: str = "",
) -> None:
    """Write pages to the target atomically, one page at a time.

    `name` is the document's name inside the export, `password` opens a protected original. Formats
    that need the original parse it, so write them in the sandbox.
    """
    if format_name not in FORMATS:
        known = ", ".join(FORMATS)
        raise errors.SettingsError(f"unknown format {format_name!r}; choose from {known}")
    document = base.Document(base.clean_text(name), source, tuple(languages), password)
    with base.replace_atomically(target, source=source) as out:
        FORMATS[format_name].write(out, map(base.clean_page, pages), document)
