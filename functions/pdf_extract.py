"""`pdf-extract`: read one claimed PDF."""

from __future__ import annotations

from pagewarden.documents import lanes
from pagewarden.functions.http import document_workers

NAME = "pdf-extract"

router = document_workers.make_document_router(NAME, (lanes.PDF, *lanes.REGISTRY))
