"""What an export says about a document besides its pages."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SOFTWARE = "Pagewarden"
VERSION = importlib.metadata.version("pagewarden")


@dataclass(frozen=True, slots=True)
class Document:
    """A document: the name people know it by, the original, and the languages it was read in.

    languages are codes of ISO 639-3, best first; empty when nobody said. password opens the
    original, where it is a PDF that wants one.
    """

    name: str
    source: Path
    languages: tuple[str, ...] = ()
    password: str = ""
