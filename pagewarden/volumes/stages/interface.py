"""What a stage is, what it is given, and what it says afterwards."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pagewarden import errors
from pagewarden.volumes import layout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from pagewarden.volumes import artifacts
    from pagewarden.volumes import config as configs

STAGES = ("line_detection", "line_extraction", "ocr", "reduce")
"""In this order."""


async def _whoever_asks() -> None:
    pass


def _ignore(_done: int, _total: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Work:
    """What a stage is given: one volume.

    input: where the original images are, below layout.originals(w_id, i_id).
    output: where artifacts of all jobs are.
    token: names the owner of this run; what several owners have not published stays apart.
    model: an ONNX file instead of the model that the stage has by itself.
    seconds_before: what the stages before took, for the metrics of the whole volume.
    force: do it again, even if all is there already.
    progress: told after each page how many are done, and how many there are.
    may_publish: awaited right before something is published; raises LockLost when somebody else
        owns the task by now.
    """

    job_key: str
    w_id: str
    i_id: str
    config: configs.Config
    input: artifacts.Bucket
    output: artifacts.Bucket
    token: str
    model: Path | None = None
    seconds_before: float = 0.0
    force: bool = False
    progress: Callable[[int, int], None] = field(default=_ignore)
    may_publish: Callable[[], Awaitable[None]] = field(default=_whoever_asks)

    @property
    def keys(self) -> layout.Volume:
        """Name the artifacts of the volume."""
        return layout.Volume(self.job_key, self.w_id, self.i_id)


@dataclass(frozen=True, slots=True)
class Done:
    """What a stage says afterwards.

    failed_pages are those that this stage, or one before it, could not do. skipped says that all
    was there already: made of the same input, with the same config, by the same model.
    metrics always has "seconds"; that of reduce has those of volume_results.
    """

    pages: int
    failed_pages: int
    skipped: bool
    metrics: Mapping[str, float | int | str]


class Stage(Protocol):
    """Does one step of the way of a volume; used for one volume after another."""

    @property
    def name(self) -> str:
        """Name it as STAGES does."""
        ...

    async def run(self, work: Work) -> Done:
        """Do it, and publish what comes of it; raises an error of pagewarden.errors."""
        ...


def find(name: str) -> Stage:
    """Find a stage; it is imported only now, for some take a second to load."""
    if name not in STAGES:
        raise errors.SettingsError(f"there is no stage {name!r}; choose one of {', '.join(STAGES)}")
    stage: Stage = importlib.import_module(f"pagewarden.volumes.stages.{name}").STAGE
    return stage
