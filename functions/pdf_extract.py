"""pdf-extract: read one PDF that is claimed."""

from __future__ import annotations

from functions import working

NAME = "pdf-extract"

router = working.reading(NAME, ("pdf", "index", "acte"))
