"""The PP-OCR networks of RapidOCR's wheel, as sessions of one thread each unless asked otherwise.

One process reads one page; parallelism is many processes, never threads in one of them. All
engines of a process share the sessions, which remember nothing.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import metadata, resources
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]  # it ships no types
from onnx import numpy_helper

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

DETECTOR = "PP-OCRv6_det_small.onnx"
RECOGNISER = "PP-OCRv6_rec_small.onnx"

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"

_BLANK = ""
_ERRORS_ONLY = 3
_TRIAL_SIZE = (320, 320)
# Lines and pages are of many sizes; the usual search would try all ways anew for each of them.
_OPTIONS = {CUDA: {"cudnn_conv_algo_search": "HEURISTIC"}}


@dataclass(frozen=True, slots=True)
class Device:
    """Where networks run: a provider of onnxruntime, and threads for what runs on the CPU."""

    provider: str
    threads: int


ONE_CORE = Device(CPU, 1)


def available() -> Sequence[str]:
    """List the providers that onnxruntime has here."""
    return list(onnxruntime.get_available_providers())


def version() -> str:
    """Name the versions of what decides the result."""
    return f"rapidocr {metadata.version('rapidocr')} PP-OCRv6 small"


@functools.cache
def detector(device: Device) -> onnxruntime.InferenceSession:
    """Load the network that finds lines."""
    return _session(_path(DETECTOR).read_bytes(), device)


def own_detector(path: Path, device: Device) -> onnxruntime.InferenceSession:
    """Load somebody's own network for lines: an image in, how surely each pixel is of a line out.

    Its input is of the form of PP-OCR's (1, 3, height, width, from -1 to 1), sizes free or fixed,
    and so is its output (1, 1, height, width, from 0 to 1). Whatever is not is refused.
    """
    session = _own_session(path, device)
    width, height = fixed_size(session) or _TRIAL_SIZE
    trial = np.zeros((1, 3, height, width), np.float32)
    try:
        found = session.run(None, {session.get_inputs()[0].name: trial})
    # It raises classes of its own that have no common base but this.
    except Exception as exc:
        raise _unfit(path, "it does not take images (1, 3, height, width)") from exc
    if len(found) != 1 or found[0].ndim != 4 or found[0].shape[:2] != (1, 1):
        raise _unfit(path, "it does not give one image (1, 1, height, width)")
    return session


def own_recogniser(path: Path, device: Device) -> tuple[onnxruntime.InferenceSession, list[str]]:
    """Load somebody's own network for reading lines, and the characters its classes stand for.

    It is of the form of PP-OCR's: lines of 48 pixels height (1, 3, 48, width) in, classes for each
    place (1, places, classes) out, class 0 for none, and the characters listed in its metadata.
    """
    session = _own_session(path, device)
    listed = session.get_modelmeta().custom_metadata_map.get("character")
    if listed is None:
        raise _unfit(path, "its metadata has no list of characters ('character')")
    characters = [_BLANK, *listed.split("\n"), " "]
    try:
        (found,) = session.run(
            None, {session.get_inputs()[0].name: np.zeros((1, 3, 48, 320), np.float32)}
        )
    except Exception as exc:  # as above
        raise _unfit(path, "it does not take lines (1, 3, 48, width)") from exc
    if found.ndim != 3 or found.shape[2] != len(characters):
        raise _unfit(path, f"it does not give classes of {len(characters):,} characters")
    return session, characters


def fixed_size(session: onnxruntime.InferenceSession) -> tuple[int, int] | None:
    """Give width and height of the images a network takes; None where it takes all."""
    *_, height, width = session.get_inputs()[0].shape
    return (width, height) if isinstance(width, int) and isinstance(height, int) else None


@functools.cache
def recogniser(
    wanted: Callable[[str], bool], device: Device
) -> tuple[onnxruntime.InferenceSession, list[str]]:
    """Load the network that reads lines, and the characters its classes stand for.

    Only classes of wanted characters are kept: the other 18,000 cost a sixth of the time, and a
    page that has none of them is read better without. Class 0 is 'no character'.
    """
    model = onnx.load_from_string(_path(RECOGNISER).read_bytes())
    characters = _characters(model)
    kept = [i for i, c in enumerate(characters) if c == _BLANK or wanted(c)]
    _cut_head(model, kept)
    return _session(model.SerializeToString(), device), [characters[i] for i in kept]


def planes(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """Bring grey or colours (0 to 255) to the three planes from -1 to 1 the networks want."""
    level = image / 127.5 - 1
    colours = level[None].repeat(3, axis=0) if level.ndim == 2 else level.transpose(2, 0, 1)
    return np.ascontiguousarray(colours)


def _characters(model: onnx.ModelProto) -> list[str]:
    (listed,) = (each.value for each in model.metadata_props if each.key == "character")
    return [_BLANK, *listed.split("\n"), " "]


def _cut_head(model: onnx.ModelProto, kept: Sequence[int]) -> None:
    """Keep these columns of the last layer; shapes noted for the full one are dropped."""
    weights = {each.name: each for each in model.graph.initializer}
    product = next(node for node in reversed(model.graph.node) if node.op_type == "MatMul")
    bias = next(node for node in model.graph.node if product.output[0] in node.input)
    for name in (*product.input, *bias.input):
        if name in weights:
            columns = numpy_helper.to_array(weights[name])[..., kept]
            weights[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(columns), name))
    del model.graph.value_info[:]
    model.graph.output[0].type.tensor_type.shape.dim[2].dim_value = len(kept)


def _session(model: bytes, device: Device) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = device.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    if device.provider == CUDA:
        # Its libraries come in wheels of their own.
        onnxruntime.preload_dlls()
    chosen = (device.provider, _OPTIONS.get(device.provider, {}))
    session = onnxruntime.InferenceSession(model, options, providers=[chosen])
    # onnxruntime itself would go on without the GPU, and say nothing.
    if device.provider not in session.get_providers():
        raise errors.EngineMissing(
            f"{device.provider} does not work; install its libraries, or choose another engine"
        )
    return session


def _own_session(path: Path, device: Device) -> onnxruntime.InferenceSession:
    try:
        session = _session(path.read_bytes(), device)
    except OSError as exc:
        raise _unfit(path, str(exc.strerror)) from exc
    except errors.EngineMissing:
        raise
    except Exception as exc:  # as above
        raise _unfit(path, "it is no ONNX file") from exc
    if not (session.get_inputs() and len(session.get_inputs()[0].shape) == 4):
        raise _unfit(path, "it does not take images (1, 3, height, width)")
    return session


def _unfit(path: Path, why: str) -> errors.SettingsError:
    return errors.SettingsError(
        f"{path} is no model that can be used here: {why}; give an ONNX file like those of PP-OCR, "
        "or none to use these"
    )


def _path(name: str) -> Path:
    with resources.as_file(resources.files("rapidocr") / "models" / name) as path:
        if not path.is_file():
            raise errors.EngineMissing(
                f"RapidOCR is installed without its model {name}; install it again: "
                "pip install --force-reinstall rapidocr"
            )
        return path
