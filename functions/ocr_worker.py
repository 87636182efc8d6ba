"""ocr-worker: claim and read the images that wait, those of check jobs too."""

from __future__ import annotations

from functions import working

NAME = "ocr-worker"

router = working.draining(NAME, ("image", "check"))
