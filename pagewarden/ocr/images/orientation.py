"""Rotate a page upright and deskew it; map coordinates back.

Whether a page is upside down is decided by two models of the RapidOCR wheel. The classifier is
small and distinguishes a line of text from the same line rotated by 180 degrees. It sees each line
both ways, and only the difference counts, because it is biased for scripts that it was not trained
on. For some of these (Hebrew, Thai) it is confident and wrong, so only very high odds suffice to
rotate a page. Otherwise the recogniser decides: in which orientation can it read the lines? If
neither is certain, the page is not rotated.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import TYPE_CHECKING

import cv2
import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types

from pagewarden import errors
from pagewarden.ocr import pages
from pagewarden.ocr.engines import base
from pagewarden.ocr.images import pixels as images_pixels
from pagewarden.ocr.images.skew import (
    downscale,
    find_letters,
    find_lines,
    find_text_angle,
    mark_ink,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_CLASSIFIER = "ch_ppocr_mobile_v2.0_cls_mobile.onnx"
_RECOGNISER = "PP-OCRv6_rec_small.onnx"
_ASPECT = 6  # of the segments of lines; long segments, squeezed, are classified best
_FIRST, _MORE, _READ = 2, 16, 4  # segments to classify first, in doubt, and to recognise
_UPRIGHT = -12.0  # log odds of an upright page; nearly all reach them after two segments
_CERTAIN = 10.5  # mean log odds that only scripts known to the classifier reach
_LEGIBLE, _ILLEGIBLE = 0.85, 0.75  # confidence of the recogniser for real letters, and for noise


def is_upside_down(pixels: NDArray[np.uint8], lines: NDArray[np.float64], *, prior: bool) -> bool:
    """Tell whether a page is upside down, from its level lines: left, top, width, height.

    If uncertain, return False, or with `prior` what is more likely.
    """
    segments = _split_lines(lines)
    if not len(segments):
        return False
    odds = _compute_log_odds(pixels, segments[:_FIRST])
    if odds.sum() > _UPRIGHT and len(segments) > _FIRST:
        odds = np.append(odds, _compute_log_odds(pixels, segments[_FIRST:_MORE]))
    if odds.sum() < (_UPRIGHT if prior else 0):
        return False
    if len(odds) == _MORE and odds.mean() > _CERTAIN:
        return True
    upright, rotated = _measure_legibility(pixels, segments[:_READ])
    if max(upright, rotated) > _LEGIBLE and min(upright, rotated) < _ILLEGIBLE:
        return rotated > upright
    return prior and bool(odds.sum() > 0)


def _split_lines(lines: NDArray[np.float64]) -> NDArray[np.float64]:
    """Split lines into segments, shuffled so that the first few come from the whole page."""
    counts = np.maximum(1, lines[:, 2] // (_ASPECT * lines[:, 3])).astype(int)
    number = [i for count in counts for i in range(count)]
    segments = np.repeat(lines, counts, axis=0)
    segments[:, 0] += number * segments[:, 2] / np.repeat(counts, counts)
    segments[:, 2] = np.minimum(segments[:, 2], _ASPECT * segments[:, 3])
    return np.random.default_rng(0).permutation(segments)


def _compute_log_odds(
    pixels: NDArray[np.uint8], segments: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Return the log odds of 'upside down' against 'upright' for each segment."""
    both = _crop_both_ways(pixels, segments, (192, 48))
    rotated = _load_model(_CLASSIFIER).run(None, {"x": both})[0][:, 1]
    odds = np.log((rotated + 1e-3) / (1 - rotated + 1e-3))
    return np.asarray(odds[: len(segments)] - odds[len(segments) :], np.float32)


def _measure_legibility(
    pixels: NDArray[np.uint8], segments: NDArray[np.float64]
) -> tuple[float, float]:
    """Return the mean confidence of the recognised letters: as they are, and rotated."""
    both = _crop_both_ways(pixels, segments, (48 * _ASPECT, 48))
    classes = _load_model(_RECOGNISER).run(None, {"x": both})[0]
    confidence = classes.max(2) * (classes.argmax(2) > 0)  # class 0 is 'no letter'
    upright, rotated = (half.sum() / max(1, (half > 0).sum()) for half in np.split(confidence, 2))
    return float(upright), float(rotated)


def _crop_both_ways(
    pixels: NDArray[np.uint8], segments: NDArray[np.float64], size: tuple[int, int]
) -> NDArray[np.float32]:
    """Crop the segments for the models: all as they are, then all rotated by 180 degrees."""
    upright = np.stack([_crop(pixels, segment, size) for segment in segments])
    return np.concatenate((upright, upright[:, :, ::-1, ::-1]))


def _crop(
    pixels: NDArray[np.uint8], segment: NDArray[np.float64], size: tuple[int, int]
) -> NDArray[np.float32]:
    """Crop a segment, in three channels of -1 to 1."""
    left, top, width, height = segment
    rows = slice(max(0, int(top - 0.1 * height)), int(top + 1.1 * height) + 1)
    columns = slice(int(left), int(left + width) + 1)
    image = cv2.resize(pixels[rows, columns], size, interpolation=cv2.INTER_AREA)
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) if image.ndim == 3 else image
    level = grey.astype(np.float32) / 127.5 - 1
    return np.broadcast_to(level, (3, *level.shape))


@functools.cache
def _load_model(name: str) -> onnxruntime.InferenceSession:
    """Load a model of the RapidOCR wheel, once per process."""
    model = resources.files("rapidocr") / "models" / name
    if not model.is_file():
        raise errors.EngineNotInstalled(
            f"RapidOCR is installed without its model {name}; reinstall it: pip install "
            "--force-reinstall rapidocr"
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only
    return onnxruntime.InferenceSession(
        model.read_bytes(), options, providers=["CPUExecutionProvider"]
    )


_MIN_SKEW = 0.7  # degrees; engines read a page with less skew at least as well without deskewing
_IDENTITY = np.eye(2, 3)


@dataclass(frozen=True, slots=True)
class UprightPage:
    """An upright page, and its transformation.

    rotation is the clockwise rotation of the original in degrees: 0, 90, 180 or 270. skew is the
    angle by which the lines of the rotated page fall to the right (negative: rise), which was then
    corrected. matrix maps pixels of this page to those of the original.
    """

    image: base.PageImage
    rotation: int = 0
    skew: float = 0.0
    matrix: NDArray[np.float64] = field(default_factory=_IDENTITY.copy, repr=False, compare=False)

    def map_to_original(self, lines: Sequence[pages.Line]) -> tuple[pages.Line, ...]:
        """Return the lines of this page with their positions on the original."""
        if not self.rotation and not self.skew:
            return tuple(lines)
        return tuple(
            replace(
                line,
                quad=self._map_quad_to_original(line.quad),
                words=tuple(
                    replace(word, quad=self._map_quad_to_original(word.quad)) for word in line.words
                ),
            )
            for line in lines
        )

    def _map_quad_to_original(self, quad: pages.Quad) -> pages.Quad:
        first, second, third, fourth = np.array(quad) @ self.matrix[:, :2].T + self.matrix[:, 2]
        return (
            pages.Point(*first.tolist()),
            pages.Point(*second.tolist()),
            pages.Point(*third.tolist()),
            pages.Point(*fourth.tolist()),
        )


def straighten(image: base.PageImage) -> UprightPage:
    """Rotate a page upright and deskew it; a page without clear lines of text is unchanged."""
    small = downscale(image.pixels)
    marks = mark_ink(small)
    letters = find_letters(marks)
    angle = find_text_angle(marks, letters)
    if angle is None:
        return UprightPage(image)
    rotation, slant = (270, angle - 90) if angle >= 45 else (0, angle)
    if abs(slant) < _MIN_SKEW:
        slant = 0.0
    size = float(np.median(letters.width if rotation else letters.height))
    lines = find_lines(_rotate(marks, rotation, slant), size)
    level = _rotate(image.pixels, rotation, slant)
    # A page on its side is rotated in any case, so the likelier direction is good enough.
    scale = max(image.pixels.shape) / max(small.shape)
    if is_upside_down(level, lines * scale, prior=bool(rotation)):
        rotation, level = (rotation + 180) % 360, images_pixels.rotate_quarter(level, 180)
    result = base.PageImage(level, image.dpi)
    matrix = images_pixels.make_inverse_transform(
        rotation, slant, (result.width, result.height), (image.width, image.height)
    )
    return UprightPage(result, rotation, slant, matrix)


def _rotate(pixels: NDArray[np.uint8], rotation: int, skew: float) -> NDArray[np.uint8]:
    return images_pixels.deskew(images_pixels.rotate_quarter(pixels, rotation), skew)
