"""Set a page right that was scanned lying on its side, on its head or at a slant."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from pagewarden.reading import engine, pages, rotation, skew, turning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_LEAST_SKEW = 0.3  # degrees; below that engines read as well, and the image stays untouched
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


def straighten(image: engine.PageImage) -> Straightened:
    """Turn a page upright and its lines level; one without clear lines of text is left alone."""
    small = skew.reduce(image.pixels)
    marks = skew.ink(small)
    letters = skew.find_letters(marks)
    angle = skew.direction(marks, letters)
    if angle is None:
        return Straightened(image)
    turn, slant = (270, angle - 90) if angle >= 45 else (0, angle)
    if abs(slant) < _LEAST_SKEW:
        slant = 0.0
    level, level_small = (
        turning.level(turning.quarter(each, turn), slant) for each in (image.pixels, small)
    )
    size = float(np.median(letters.width if turn else letters.height))
    # A page on its side is turned in any case, so for it the likelier way is good enough.
    if rotation.upside_down(level, level_small, size, likelier=bool(turn)):
        turn, level = (turn + 180) % 360, turning.quarter(level, 180)
    if not turn and not slant:
        return Straightened(image)
    result = engine.PageImage(level, image.dpi)
    matrix = turning.way_back(
        turn, slant, (result.width, result.height), (image.width, image.height)
    )
    return Straightened(result, turn, slant, matrix)
