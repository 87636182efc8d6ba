"""Where images come from and artifacts go, unless somebody says otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagewarden.settings import Settings


def input_of(settings: Settings, given: str | None = None) -> str:
    """Give the address of the bucket of page images."""
    return given or settings.volume_input or str(settings.home / "volumes" / "input")


def output_of(settings: Settings, given: str | None = None) -> str:
    """Give the address of the bucket of artifacts."""
    return given or settings.volume_output or str(settings.home / "volumes" / "output")
