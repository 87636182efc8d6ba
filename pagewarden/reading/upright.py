"""Set a page right that was scanned lying on its side, on its head or at a slant."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from pagewarden.reading import engine, ink, pages, rotation, skew, turning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_LEAST_SKEW = 0.7  # degrees; below that engines read an untouched image at least as well
_UNMOVED = np.eye(2, 3)


@dataclass(frozen=True, slots=True)
class Straightened:
    """An upright page, and the way back to the original.

    rotation is by how many degrees clockwise the original had to be turned: 0, 90, 180 or 270.
    skew is by how many degrees its lines then still fell to the right (negative: rose) and were
    set level. matrix leads from its pixels to those of the original.
    """

    image: engine.PageImage
    rotation: int = 0
    skew: float = 0.0
    matrix: NDArray[np.float64] = field(default_factory=_UNMOVED.copy, repr=False, compare=False)

    def back(self, lines: Sequence[pages.Line]) -> tuple[pages.Line, ...]:
        """Give lines found on this page their places on the original."""
        if not self.rotation and not self.skew:
            return tuple(lines)
        return tuple(
            replace(
                line,
                quad=self._moved(line.quad),
                words=tuple(replace(word, quad=self._moved(word.quad)) for word in line.words),
            )
            for line in lines
        )

    def _moved(self, quad: pages.Quad) -> pages.Quad:
        first, second, third, fourth = np.array(quad) @ self.matrix[:, :2].T + self.matrix[:, 2]
        return (
            pages.Point(*first.tolist()),
            pages.Point(*second.tolist()),
            pages.Point(*third.tolist()),
            pages.Point(*fourth.tolist()),
        )


def prepare() -> None:
    """Load what pages need, so that processes forked from this one have it already."""
    rotation.prepare()


def straighten(image: engine.PageImage) -> Straightened:
    """Turn a page upright and its lines level; one without clear lines of text is left alone."""
    small = ink.reduce(image.pixels)
    marks = ink.mark(small)
    letters = ink.find_letters(marks)
    angle = skew.direction(marks, letters)
    if angle is None:
        return Straightened(image)
    turn, slant = (270, angle - 90) if angle >= 45 else (0, angle)
    if abs(slant) < _LEAST_SKEW:
        slant = 0.0
    size = float(np.median(letters.width if turn else letters.height))
    lines = ink.find_lines(_levelled(marks, turn, slant), size)
    level = _levelled(image.pixels, turn, slant)
    # A page on its side is turned in any case, so for it the likelier way is good enough.
    scale = max(image.pixels.shape) / max(small.shape)
    if rotation.upside_down(level, lines * scale, likelier=bool(turn)):
        turn, level = (turn + 180) % 360, turning.quarter(level, 180)
    result = engine.PageImage(level, image.dpi)
    matrix = turning.way_back(
        turn, slant, (result.width, result.height), (image.width, image.height)
    )
    return Straightened(result, turn, slant, matrix)


def _levelled(pixels: NDArray[np.uint8], turn: int, slant: float) -> NDArray[np.uint8]:
    return turning.level(turning.quarter(pixels, turn), slant)
