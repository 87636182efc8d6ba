"""Non-Python files: below the root of a checkout, or inside the package of a wheel."""

from __future__ import annotations

from pathlib import Path

from pagewarden import errors

_PACKAGE = Path(__file__).parent
_ROOTS = (_PACKAGE / "_data", _PACKAGE.parent)


def find(name: str) -> Path:
    """Return the path of a file or folder, by its path in a checkout."""
    for root in _ROOTS:
        if (path := root / name).exists():
            return path
    raise errors.SettingsError(f"{name} is missing from this installation; reinstall Pagewarden")
