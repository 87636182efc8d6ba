"""The way from places on a rotated image back to those on the original."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagewarden.reading import turning
from pagewarden.volumes import splines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pagewarden.volumes.artifacts import rows


class WayBack:
    """Undoes what line_detection did to a page: dewarping, then turning, then scaling down."""

    def __init__(self, page: rows.DetectedPage) -> None:
        scaled = page.scaled_width or 0, page.scaled_height or 0
        # Turning by both is turning by their sum, see page_angle.
        self._matrix = turning.way_back(
            0,
            -(page.page_angle or 0.0),
            (page.rotated_width or 0, page.rotated_height or 0),
            scaled,
        )
        self._growth = np.array((page.width or 1, page.height or 1)) / np.maximum(scaled, 1)
        self._spline = splines.through(page.tps_points) if page.tps_points else None

    def places(self, points: Sequence[Sequence[float]]) -> NDArray[np.float64]:
        """Give the places on the original of points, rows of x and y."""
        moved = np.array(points, np.float64).reshape(-1, 2)
        if self._spline is not None:
            moved[:, 1] += self._spline.heights(moved)
        turned = moved @ self._matrix[:, :2].T + self._matrix[:, 2]
        return np.asarray(turned * self._growth)

    @property
    def bends(self) -> bool:
        """Tell whether what is straight on the rotated image may be bent on the original."""
        return self._spline is not None
