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
    """Undoes what line_detection did to a page: first the dewarping, then the turning."""

    def __init__(self, page: rows.DetectedPage) -> None:
        # Turning by both is turning by their sum, see page_angle.
        self._matrix = turning.way_back(
            0,
            -(page.page_angle or 0.0),
            (page.rotated_width or 0, page.rotated_height or 0),
            (page.width or 0, page.height or 0),
        )
        self._spline = splines.through(page.tps_points) if page.tps_points else None

    def places(self, points: Sequence[Sequence[float]]) -> NDArray[np.float64]:
        """Give the places on the original of points, rows of x and y."""
        moved = np.array(points, np.float64).reshape(-1, 2)
        if self._spline is not None:
            moved[:, 1] += self._spline.heights(moved)
        return np.asarray(moved @ self._matrix[:, :2].T + self._matrix[:, 2])
