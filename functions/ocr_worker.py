"""ocr-worker: claim and read the images that wait."""

from __future__ import annotations

from functions import working

NAME = "ocr-worker"

router = working.draining(NAME, ("image",))
