"""Lines as pieces of print on a level page, whatever the slant and the size of the real one."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pagewarden.reading import pages

_DIGITS = 6  # of a line's height after the point; no tie is decided by less
_TALL = 1.8  # what is taller than this, like a drop cap, belongs to the first line it stands by


@dataclass(frozen=True, slots=True)
class Piece:
    """A line, or what a detector took for one; middle is the height at which it is read.

    The unit of length is the usual height of lines.
    """

    line: pages.Line
    left: float
    right: float
    top: float
    bottom: float
    middle: float

    @property
    def place(self) -> tuple[float, float, float, float]:
        """Compare by height, then from left to right; the rest tells equals apart."""
        return self.middle, self.left, self.right, self.bottom


def level(lines: Sequence[pages.Line]) -> tuple[list[Piece], list[Piece]]:
    """Turn a page so that most of its text is level; give apart what is not even then.

    Where most letters are Arabic or Hebrew the page is mirrored too, so that one can always read
    from left to right. The order of the lines makes no difference.
    """
    lines = sorted(lines, key=lambda line: (line.quad, line.text, line.confidence))
    low, high, aside = _turned(np.array([line.quad for line in lines], np.float64))
    unit = float(np.median((high - low)[aside == aside.all(), 1])) or 1.0
    if _right_to_left(lines):
        low[:, 0], high[:, 0] = -high[:, 0], -low[:, 0]
    # Rounded, so that what is level on one page is level on the same page at another resolution.
    low, high = (((edge - low.min(0)) / unit).round(_DIGITS) for edge in (low, high))
    pieces = [
        Piece(line, left, right, top, bottom, round(top + _depth(bottom - top), _DIGITS))
        for line, (left, top), (right, bottom) in zip(
            lines, low.tolist(), high.tolist(), strict=True
        )
    ]
    return (
        [piece for piece, is_aside in zip(pieces, aside, strict=True) if not is_aside],
        [piece for piece, is_aside in zip(pieces, aside, strict=True) if is_aside],
    )


def _turned(
    quads: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Find the boxes around quads on the level page, and which of them run another way."""
    along = quads[:, 1] - quads[:, 0]
    about = np.arctan2(*along.sum(0)[::-1])
    slants = (np.arctan2(along[:, 1], along[:, 0]) - about + np.pi) % (2 * np.pi) - np.pi
    usual = _weighted_median(slants, np.hypot(along[:, 0], along[:, 1]))
    cos, sin = np.cos(about + usual), np.sin(about + usual)
    corners = quads @ np.array(((cos, -sin), (sin, cos)))
    return corners.min(1), corners.max(1), abs(slants - usual) > np.pi / 4


def _weighted_median(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    order = np.lexsort((weights, values))
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


def _right_to_left(lines: Sequence[pages.Line]) -> bool:
    directions = [unicodedata.bidirectional(letter) for line in lines for letter in line.text]
    return directions.count("R") + directions.count("AL") > directions.count("L")


def _depth(height: float) -> float:
    """Tell how far below its top a line is read."""
    return 0.5 if height > _TALL else height / 2
