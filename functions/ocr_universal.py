"""ocr-universal: read one image that is claimed."""

from __future__ import annotations

from functions import working

NAME = "ocr-universal"

router = working.reading(NAME, ("image", "check", "index", "acte"))
