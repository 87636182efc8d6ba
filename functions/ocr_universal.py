"""ocr-universal: read one claimed image, or one document of the registry."""

from __future__ import annotations

from functions import working
from pagewarden.documents import lane_reader

NAME = "ocr-universal"

router = working.reading(NAME, lane_reader.LOCAL_LANES)
