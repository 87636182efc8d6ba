"""`ocr-worker`: claim images, check jobs and documents of the registry, and have them read."""

from __future__ import annotations

from pagewarden.documents import lanes
from pagewarden.functions.http import document_workers

NAME = "ocr-worker"

router = document_workers.make_worker_router(NAME, lanes.LOCAL_LANES)
