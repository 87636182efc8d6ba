"""Models that somebody gives a worker instead of those that the stages have by themselves."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from pagewarden import errors

if TYPE_CHECKING:
    from pathlib import Path


def options(model: Path | None) -> dict[str, Any]:
    """Tell children where it is, and what its version is: what is in the file."""
    if model is None:
        return {"model": None, "version": ""}
    try:
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
    except OSError as exc:
        raise errors.SettingsError(
            f"{model} cannot be read ({exc.strerror}); give an ONNX file, or none"
        ) from exc
    return {"model": str(model.absolute()), "version": f"{model.name} sha256:{digest}"}


def refuse(model: Path | None, stage: str) -> None:
    """Refuse a model where none is used: somebody has taken one stage for another."""
    if model is not None:
        raise errors.SettingsError(f"the stage {stage} uses no model; leave out {model}")
