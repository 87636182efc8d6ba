"""`pdf-extract`: read one PDF, with the GPU service if one is configured."""

from __future__ import annotations

from pagewarden.documents import lanes
from pagewarden.functions.http import document_workers

NAME = "pdf-extract"

router = document_workers.make_document_router(NAME, (lanes.PDF, *lanes.REGISTRY))
