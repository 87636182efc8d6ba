"""ocr-worker: claim and read the images that wait, check jobs and the registry included."""

from __future__ import annotations

from functions import working
from pagewarden.documents import lane_reader

NAME = "ocr-worker"

router = working.draining(NAME, lane_reader.LOCAL_LANES)
