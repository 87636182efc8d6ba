"""The reducer 'metrics': figures of a volume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden.volumes.reducers import interface

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pagewarden.volumes import contents


@dataclass(slots=True)
class _Figures:
    """Those of volume_results, and a few more.

    blank pages have no lines, unread ones have some, but no text. mean_confidence weighs lines by
    their length.
    """

    total_images: int = 0
    total_lines: int = 0
    total_characters: int = 0
    dewarping_applied_count: int = 0
    failed_images: int = 0
    blank_images: int = 0
    unread_images: int = 0
    sure: float = 0.0

    def add(self, page: contents.Page) -> None:
        characters = sum(len(text.text or "") for text in page.texts)
        self.total_images += 1
        self.total_lines += len(page.lines)
        self.total_characters += characters
        self.dewarping_applied_count += bool(page.detected.dewarping_applied)
        self.failed_images += page.trouble is not None
        self.blank_images += page.trouble is None and not page.lines
        self.unread_images += bool(page.lines) and not characters
        self.sure += sum((text.confidence or 0.0) * len(text.text or "") for text in page.texts)

    def as_metrics(self) -> dict[str, float | int | str]:
        return {
            "total_images": self.total_images,
            "total_lines": self.total_lines,
            "total_characters": self.total_characters,
            "dewarping_applied_count": self.dewarping_applied_count,
            "failed_images": self.failed_images,
            "blank_images": self.blank_images,
            "unread_images": self.unread_images,
            "mean_confidence": self.sure / max(self.total_characters, 1),
        }


def count(pages: Iterable[contents.Page]) -> Mapping[str, float | int | str]:
    """Add up the figures of pages."""
    figures = _Figures()
    for page in pages:
        figures.add(page)
    return figures.as_metrics()


class Metrics:
    """Counts, and leaves everything as it is."""

    def reduce(self, given: interface.Given) -> interface.Reduced:
        """Count."""
        return interface.Reduced(count(given.volume.pages()))


REDUCER = Metrics()
