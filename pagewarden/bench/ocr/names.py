"""The names of the contestants, and what they need installed."""

from __future__ import annotations

import importlib.util

from pagewarden import errors

PROFILES = ("fast", "balanced", "accurate")
ENGINES = ("rapid", "tesseract")
RAPIDOCR = "RapidOCR"
TESSERACT = "Tesseract"
OCRMYPDF = "OCRmyPDF"
BARE_ENGINES = (RAPIDOCR, TESSERACT)
PEERS = (*BARE_ENGINES, OCRMYPDF)
ALL = (*PROFILES, *ENGINES, *PEERS)

_PACKAGES = ("ocrmypdf", "psutil", "rapidfuzz", "tesserocr")


def require() -> None:
    """Refuse to start when a peer is not installed: a contest without it would prove nothing."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise errors.SettingsError(
            f"not installed: {', '.join(missing)}; install with pip install pagewarden[bench]"
        )
