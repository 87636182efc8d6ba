"""pdf-extract: read one PDF that is claimed."""

from __future__ import annotations

from functions import working
from pagewarden.documents import lane_reader

NAME = "pdf-extract"

router = working.reading(NAME, (lane_reader.PDF, *lane_reader.REGISTRY))
