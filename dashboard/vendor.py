"""Other people's browser code: installed from its package at set-up, and served by us."""

from __future__ import annotations

from pathlib import Path

from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException

_PACKAGES = Path(__file__).parents[1] / "node_modules"
_FILES = {"htmx.min.js": "htmx.org/dist/htmx.min.js"}

HINT = "htmx is not installed, so this page does not move by itself. Run make setup, and reload."


def missing() -> str | None:
    """Say what to do when something is not installed."""
    return None if all((_PACKAGES / path).is_file() for path in _FILES.values()) else HINT


def answer(name: str) -> FileResponse:
    """Hand out one of the files."""
    path = _PACKAGES / _FILES[name] if name in _FILES else None
    if path is None or not path.is_file():
        raise HTTPException(404, HINT if path else f"there is no {name}")
    return FileResponse(path, media_type="text/javascript")
