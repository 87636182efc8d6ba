"""Thin-plate splines: the smoothest surface through, or near, a number of heights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# Heights are of text that was measured on a coarse picture: this much of bending is not worth to
# go through each of them exactly. Lengths are in units of the points' extent.
_STIFFNESS = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class Spline:
    """A surface over a plane; nowhere higher or lower than the points it was laid through."""

    places: NDArray[np.float64]
    weights: NDArray[np.float64]
    centre: NDArray[np.float64]
    extent: float
    lowest: float
    highest: float

    def heights(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the height at each of the places, rows of x and y."""
        scaled = (places - self.centre) / self.extent
        flat = np.column_stack((np.ones(len(scaled)), scaled))
        bent = _kernel(scaled, self.places)
        heights = np.hstack((bent, flat)) @ self.weights
        return np.clip(heights, self.lowest, self.highest)


def through(points: Sequence[Sequence[float]]) -> Spline:
    """Lay a surface through points, rows of x, y and height."""
    rows = np.asarray(points, np.float64)
    centre = rows[:, :2].mean(axis=0)
    extent = float(np.abs(rows[:, :2] - centre).max()) or 1.0
    places = (rows[:, :2] - centre) / extent
    count = len(rows)
    flat = np.column_stack((np.ones(count), places))
    system = np.zeros((count + 3, count + 3))
    system[:count, :count] = _kernel(places, places) + _STIFFNESS * count * np.eye(count)
    system[:count, count:], system[count:, :count] = flat, flat.T
    weights, *_ = np.linalg.lstsq(system, np.append(rows[:, 2], np.zeros(3)), rcond=None)
    return Spline(
        places, np.asarray(weights, np.float64), centre, extent, rows[:, 2].min(), rows[:, 2].max()
    )


def _kernel(to: NDArray[np.float64], of: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bend by r² log r for the distance r from each place of the points."""
    squares = ((to[:, None, :] - of[None, :, :]) ** 2).sum(axis=2)
    return np.asarray(0.5 * squares * np.log(np.maximum(squares, 1e-18)))
