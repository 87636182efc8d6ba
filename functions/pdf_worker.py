"""`pdf-worker`: claim PDFs, and have them read."""

from __future__ import annotations

from pagewarden.documents import lanes
from pagewarden.functions.http import document_workers

NAME = "pdf-worker"

router = document_workers.make_worker_router(NAME, (lanes.PDF,))
