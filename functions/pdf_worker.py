"""pdf-worker: claim the PDFs that wait, and have the GPU service read them if there is one."""

from __future__ import annotations

from functions import working
from pagewarden.documents import lane_reader

NAME = "pdf-worker"

router = working.draining(NAME, (lane_reader.PDF,))
