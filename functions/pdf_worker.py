"""pdf-worker: claim the PDFs that wait, and have the GPU service read them if there is one."""

from __future__ import annotations

from functions import working

NAME = "pdf-worker"

router = working.draining(NAME, ("pdf",))
