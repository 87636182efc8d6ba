"""`ocr-universal`: read one image, or one document of the registry."""

from __future__ import annotations

from pagewarden.documents import lanes
from pagewarden.functions.http import document_workers

NAME = "ocr-universal"

router = document_workers.make_document_router(NAME, lanes.LOCAL_LANES)
