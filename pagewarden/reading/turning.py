"""Turn the image of a page, by quarters or by a few degrees, and places on it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_QUARTERS = {
    90: cv2.ROTATE_90_CLOCKWISE,
    180: cv2.ROTATE_180,
    270: cv2.ROTATE_90_COUNTERCLOCKWISE,
}


def quarter(pixels: NDArray[np.uint8], degrees: int) -> NDArray[np.uint8]:
    """Turn an image clockwise by 0, 90, 180 or 270 degrees."""
    return np.asarray(cv2.rotate(pixels, _QUARTERS[degrees]), np.uint8) if degrees else pixels


def level(pixels: NDArray[np.uint8], skew: float) -> NDArray[np.uint8]:
    """Turn an image so that lines which fall by so many degrees to the right become level.

    Nothing is cut off; what comes into sight is as light as the paper.
    """
    if not skew:
        return pixels
    size = _size_around(pixels.shape[1], pixels.shape[0], skew)
    matrix = way_back(0, skew, size, (pixels.shape[1], pixels.shape[0]))
    # Places are measured from the corners of pixels; OpenCV counts from their middles.
    matrix[:, 2] += matrix[:, :2] @ (0.5, 0.5) - 0.5
    paper = np.atleast_1d(np.median(pixels[::16, ::16], axis=(0, 1))).tolist()
    how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(pixels, matrix, size, flags=how, borderValue=paper), np.uint8)


def way_back(
    rotation: int, skew: float, size: tuple[int, int], original: tuple[int, int]
) -> NDArray[np.float64]:
    """Make the matrix from places on an image turned by both to those on the original.

    size and original are width and height after and before; the middles are each other's images.
    """
    angle = np.deg2rad(skew - rotation)
    turned = np.array(((np.cos(angle), -np.sin(angle)), (np.sin(angle), np.cos(angle))))
    shift = np.array(original) / 2 - turned @ (np.array(size) / 2)
    return np.column_stack((turned, shift))


def _size_around(width: int, height: int, skew: float) -> tuple[int, int]:
    along, across = np.cos(np.deg2rad(skew)), abs(np.sin(np.deg2rad(skew)))
    return (
        int(np.ceil(width * along + height * across)),
        int(np.ceil(height * along + width * across)),
    )
