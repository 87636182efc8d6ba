"""`ocr-worker`: claim and read images, check jobs and documents of the registry."""

from __future__ import annotations

from pagewarden.documents import lanes
from pagewarden.functions.http import document_workers

NAME = "ocr-worker"

router = document_workers.make_worker_router(NAME, lanes.LOCAL_LANES)
