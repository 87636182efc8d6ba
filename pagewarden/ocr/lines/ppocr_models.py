"""Load the PP-OCR models of the RapidOCR wheel, and user-supplied models of the same form.

By default a session has one thread: one process reads one page, and parallelism means many
processes, not threads. All engines of a process share the sessions, which have no state.
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
# Lines and pages have many sizes; an exhaustive search would run again for each of them.
_OPTIONS = {CUDA: {"cudnn_conv_algo_search": "HEURISTIC"}}


@dataclass(frozen=True, slots=True)
class Device:
    """Where models run: a provider of onnxruntime, and the threads for the CPU."""

    provider: str
    threads: int


ONE_CORE = Device(CPU, 1)


def list_providers() -> Sequence[str]:
    """List the providers of this onnxruntime."""
    return list(onnxruntime.get_available_providers())


def get_version() -> str:
    """Return the version of the package and the models, which determine the results."""
    return f"rapidocr {metadata.version('rapidocr')} PP-OCRv6 small"


@functools.cache
def load_detector(device: Device) -> onnxruntime.InferenceSession:
    """Load the model that finds lines."""
    return _load_session(_find_model(DETECTOR).read_bytes(), device)


def load_custom_detector(path: Path, device: Device) -> onnxruntime.InferenceSession:
    """Load a user-supplied model that finds lines; raises SettingsError for an unsuitable model.

    Like PP-OCR, it takes an image (1, 3, height, width, from -1 to 1), of any or of a fixed size,
    and returns the probability that a pixel is text (1, 1, height, width, from 0 to 1).
    """
    session = _load_custom_session(path, device)
    width, height = get_fixed_size(session) or _TRIAL_SIZE
    trial = np.zeros((1, 3, height, width), np.float32)
    try:
        found = session.run(None, {session.get_inputs()[0].name: trial})
    # The exceptions of onnxruntime have no narrower common base.
    except Exception as exc:
        raise _unsuitable_model_error(
            path, "it does not accept images of shape (1, 3, height, width)"
        ) from exc
    if len(found) != 1 or found[0].ndim != 4 or found[0].shape[:2] != (1, 1):
        raise _unsuitable_model_error(
            path, "its output is not one image of shape (1, 1, height, width)"
        )
    return session


def load_custom_recogniser(
    path: Path, device: Device
) -> tuple[onnxruntime.InferenceSession, list[str]]:
    """Load a user-supplied model that reads lines, and the characters of its classes.

    Like PP-OCR, it takes lines of 48 pixels height (1, 3, 48, width) and returns classes for each
    position (1, positions, classes), with class 0 for no character and the characters listed in
    its metadata.
    """
    session = _load_custom_session(path, device)
    listed = session.get_modelmeta().custom_metadata_map.get("character")
    if listed is None:
        raise _unsuitable_model_error(path, "its metadata has no list of characters ('character')")
    characters = [_BLANK, *listed.split("\n"), " "]
    try:
        (found,) = session.run(
            None, {session.get_inputs()[0].name: np.zeros((1, 3, 48, 320), np.float32)}
        )
    except Exception as exc:  # as above
        raise _unsuitable_model_error(
            path, "it does not accept lines of shape (1, 3, 48, width)"
        ) from exc
    if found.ndim != 3 or found.shape[2] != len(characters):
        raise _unsuitable_model_error(
            path, f"its output does not have {len(characters):,} classes, one per character"
        )
    return session, characters


def get_fixed_size(session: onnxruntime.InferenceSession) -> tuple[int, int] | None:
    """Return width and height of the images that a model takes; None if it takes any size."""
    *_, height, width = session.get_inputs()[0].shape
    return (width, height) if isinstance(width, int) and isinstance(height, int) else None


@functools.cache
def load_recogniser(
    includes_character: Callable[[str], bool], device: Device
) -> tuple[onnxruntime.InferenceSession, list[str]]:
    """Load the model that reads lines, and the characters of its classes.

    Only classes of wanted characters remain: the other 18,000 cost a sixth of the time, and a page
    without such characters is read better. Class 0 is 'no character'.
    """
    model = onnx.load_from_string(_find_model(RECOGNISER).read_bytes())
    characters = _read_characters(model)
    classes = [i for i, c in enumerate(characters) if c == _BLANK or includes_character(c)]
    _prune_classes(model, classes)
    return _load_session(model.SerializeToString(), device), [characters[i] for i in classes]


def to_planes(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """Convert grey or colours (0 to 255) to the three planes from -1 to 1 that models take."""
    level = image / 127.5 - 1
    colours = level[None].repeat(3, axis=0) if level.ndim == 2 else level.transpose(2, 0, 1)
    return np.ascontiguousarray(colours)


def _read_characters(model: onnx.ModelProto) -> list[str]:
    (listed,) = (each.value for each in model.metadata_props if each.key == "character")
    return [_BLANK, *listed.split("\n"), " "]


def _prune_classes(model: onnx.ModelProto, classes: Sequence[int]) -> None:
    """Keep only these columns of the last layer; drop the recorded shapes of the full layer."""
    weights = {each.name: each for each in model.graph.initializer}
    product = next(node for node in reversed(model.graph.node) if node.op_type == "MatMul")
    bias = next(node for node in model.graph.node if product.output[0] in node.input)
    for name in (*product.input, *bias.input):
        if name in weights:
            columns = numpy_helper.to_array(weights[name])[..., classes]
            weights[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(columns), name))
    del model.graph.value_info[:]
    model.graph.output[0].type.tensor_type.shape.dim[2].dim_value = len(classes)


def _load_session(model: bytes, device: Device) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = device.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    if device.provider == CUDA:
        # The CUDA libraries come in separate wheels.
        onnxruntime.preload_dlls()
    provider = (device.provider, _OPTIONS.get(device.provider, {}))
    session = onnxruntime.InferenceSession(model, options, providers=[provider])
    # onnxruntime would silently continue without the GPU.
    if device.provider not in session.get_providers():
        raise errors.EngineNotInstalled(
            f"{device.provider} does not work; install its libraries, or choose another engine"
        )
    return session


def _load_custom_session(path: Path, device: Device) -> onnxruntime.InferenceSession:
    try:
        session = _load_session(path.read_bytes(), device)
    except OSError as exc:
        raise _unsuitable_model_error(path, str(exc.strerror)) from exc
    except errors.EngineNotInstalled:
        raise
    except Exception as exc:  # as above
        raise _unsuitable_model_error(path, "it is not an ONNX file") from exc
    if not (session.get_inputs() and len(session.get_inputs()[0].shape) == 4):
        raise _unsuitable_model_error(
            path, "it does not accept images of shape (1, 3, height, width)"
        )
    return session


def _unsuitable_model_error(path: Path, reason: str) -> errors.SettingsError:
    return errors.SettingsError(
        f"{path} is not a usable model: {reason}; specify an ONNX file in the format of PP-OCR, or "
        "omit it to use the PP-OCR models"
    )


def _find_model(name: str) -> Path:
    with resources.as_file(resources.files("rapidocr") / "models" / name) as path:
        if not path.is_file():
            raise errors.EngineNotInstalled(
                f"RapidOCR is installed without its model {name}; reinstall it: pip install "
                "--force-reinstall rapidocr"
            )
        return path
