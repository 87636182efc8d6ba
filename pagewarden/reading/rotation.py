"""Tell whether the lines of a page stand on their heads.

The first judge is the turner, a small network of RapidOCR's wheel that tells a line of text from
the same line turned by 180 degrees. It is shown each line both ways, and only the difference
counts: alone, it leans to one side for scripts it has not learnt. Of these it may still get some
wrong, and surely so (Hebrew, Thai), which is why only the highest odds turn a page by themselves.
Otherwise the second judge decides, the network that reads: which way up can it read the lines?
A page neither judge is sure about is left alone.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING

import cv2
import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types

from pagewarden import errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TURNER = "ch_ppocr_mobile_v2.0_cls_mobile.onnx"
_READER = "PP-OCRv6_rec_small.onnx"
_ASPECT = 6  # of the pieces of lines that are judged: long ones, squeezed, are judged best
_FIRST, _MORE, _READ = 2, 16, 4  # pieces to look at first, if need be, and to read in the end
_UPRIGHT = -12.0  # log odds of a page that stands upright; nearly all have them after two pieces
_CERTAIN = 10.5  # mean log odds that only scripts have which the turner has learnt
_LEGIBLE, _ILLEGIBLE = 0.85, 0.75  # how sure the reader is of letters that are some, or none


def prepare() -> None:
    """Load the network that nearly every page needs."""
    _network(_TURNER)


def upside_down(pixels: NDArray[np.uint8], lines: NDArray[np.float64], *, likelier: bool) -> bool:
    """Tell whether a page stands on its head, from its level lines: left, top, width, height.

    In doubt it does not, or with likelier it does what seems more likely.
    """
    pieces = _pieces(lines)
    if not len(pieces):
        return False
    odds = _log_odds(pixels, pieces[:_FIRST])
    if odds.sum() > _UPRIGHT and len(pieces) > _FIRST:
        odds = np.append(odds, _log_odds(pixels, pieces[_FIRST:_MORE]))
    if odds.sum() < (_UPRIGHT if likelier else 0):
        return False
    if len(odds) == _MORE and odds.mean() > _CERTAIN:
        return True
    upright, turned = _legibility(pixels, pieces[:_READ])
    if max(upright, turned) > _LEGIBLE and min(upright, turned) < _ILLEGIBLE:
        return turned > upright
    return likelier and bool(odds.sum() > 0)


def _pieces(lines: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cut lines into pieces, in an order in which the first few are from all over the page."""
    counts = np.maximum(1, lines[:, 2] // (_ASPECT * lines[:, 3])).astype(int)
    number = [i for count in counts for i in range(count)]
    pieces = np.repeat(lines, counts, axis=0)
    pieces[:, 0] += number * pieces[:, 2] / np.repeat(counts, counts)
    pieces[:, 2] = np.minimum(pieces[:, 2], _ASPECT * pieces[:, 3])
    return np.random.default_rng(0).permutation(pieces)


def _log_odds(pixels: NDArray[np.uint8], pieces: NDArray[np.float64]) -> NDArray[np.float32]:
    """Weigh 'on its head' against 'upright' for each piece, from what the turner says."""
    both = _both_ways(pixels, pieces, (192, 48))
    turned = _network(_TURNER).run(None, {"x": both})[0][:, 1]
    odds = np.log((turned + 1e-3) / (1 - turned + 1e-3))
    return np.asarray(odds[: len(pieces)] - odds[len(pieces) :], np.float32)


def _legibility(pixels: NDArray[np.uint8], pieces: NDArray[np.float64]) -> tuple[float, float]:
    """Tell how sure the reader is of the letters it reads, 0 to 1: as they are, and turned."""
    both = _both_ways(pixels, pieces, (48 * _ASPECT, 48))
    classes = _network(_READER).run(None, {"x": both})[0]
    sure = classes.max(2) * (classes.argmax(2) > 0)  # class 0 is 'no letter'
    upright, turned = (half.sum() / max(1, (half > 0).sum()) for half in np.split(sure, 2))
    return float(upright), float(turned)


def _both_ways(
    pixels: NDArray[np.uint8], pieces: NDArray[np.float64], size: tuple[int, int]
) -> NDArray[np.float32]:
    """Cut pieces out as the networks want them, all as they are and then all turned around."""
    upright = np.stack([_cut(pixels, piece, size) for piece in pieces])
    return np.concatenate((upright, upright[:, :, ::-1, ::-1]))


def _cut(
    pixels: NDArray[np.uint8], piece: NDArray[np.float64], size: tuple[int, int]
) -> NDArray[np.float32]:
    """Cut a piece out, in three channels of -1 to 1."""
    left, top, width, height = piece
    rows = slice(max(0, int(top - 0.1 * height)), int(top + 1.1 * height) + 1)
    columns = slice(int(left), int(left + width) + 1)
    image = cv2.resize(pixels[rows, columns], size, interpolation=cv2.INTER_AREA)
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) if image.ndim == 3 else image
    level = grey.astype(np.float32) / 127.5 - 1
    return np.broadcast_to(level, (3, *level.shape))


@functools.cache
def _network(name: str) -> onnxruntime.InferenceSession:
    """Load a network of RapidOCR's wheel, once per process."""
    model = resources.files("rapidocr") / "models" / name
    if not model.is_file():
        raise errors.EngineMissing(
            f"RapidOCR is installed without its model {name}; install it again: "
            "pip install --force-reinstall rapidocr"
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only
    return onnxruntime.InferenceSession(
        model.read_bytes(), options, providers=["CPUExecutionProvider"]
    )
