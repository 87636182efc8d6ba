"""What all stages share: the Stage protocol, its input and result, and the model option."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pagewarden import errors
from pagewarden.volumes import artifact_keys

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from pagewarden.volumes import artifacts
    from pagewarden.volumes import config as configs


async def _allow_always() -> None:
    pass


def _ignore_progress(_completed: int, _total: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class StageInput:
    """One volume to process.

    input: bucket of the original images, below artifact_keys.get_originals_folder(w_id, i_id).
    output: bucket of the artifacts of all jobs.
    token: identifies the owner of this run; unpublished files of different owners stay separate.
    model: ONNX file to use instead of the default model.
    seconds_before: duration of the earlier stages, for the metrics of the volume.
    force: run even if the artifacts are up to date.
    progress: called after each page with the number of pages done and the total.
    may_publish: awaited before each publication; raises LockLost if another worker owns the task.
    """

    job_key: str
    w_id: str
    i_id: str
    config: configs.VolumeConfig
    input: artifacts.Bucket
    output: artifacts.Bucket
    token: str
    model: Path | None = None
    seconds_before: float = 0.0
    force: bool = False
    progress: Callable[[int, int], None] = field(default=_ignore_progress)
    may_publish: Callable[[], Awaitable[None]] = field(default=_allow_always)

    @property
    def keys(self) -> artifact_keys.VolumeKeys:
        """Return the artifact keys of the volume."""
        return artifact_keys.VolumeKeys(self.job_key, self.w_id, self.i_id)


@dataclass(frozen=True, slots=True)
class StageResult:
    """The outcome of a stage.

    failed_pages: pages that failed in this stage or an earlier one.
    skipped: the artifacts were up to date: same input, same config, same model.
    metrics: always has "seconds"; those of reduce include the columns of volume_results.
    """

    pages: int
    failed_pages: int
    skipped: bool
    metrics: Mapping[str, float | int | str]


class Stage(Protocol):
    """One step of a volume; the same object processes one volume after another."""

    @property
    def name(self) -> str:
        """Return its name in STAGES."""
        ...

    async def run(self, stage_input: StageInput) -> StageResult:
        """Process a volume and publish the artifacts; raise an error of pagewarden.errors."""
        ...


def make_model_options(model: Path | None) -> dict[str, Any]:
    """Return the options that tell a child the path of the model and its version, a digest."""
    if model is None:
        return {"model": None, "version": ""}
    try:
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
    except OSError as exc:
        raise errors.SettingsError(
            f"cannot read {model} ({exc.strerror}); specify an ONNX file, or omit the model"
        ) from exc
    return {"model": str(model.absolute()), "version": f"{model.name} sha256:{digest}"}


def reject_model(model: Path | None, stage: str) -> None:
    """Raise SettingsError if a model was given to a stage that uses none."""
    if model is not None:
        raise errors.SettingsError(f"stage {stage} uses no model; omit {model}")
