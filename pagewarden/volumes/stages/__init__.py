"""The stages of a volume: each is given its Work, and says when it is Done."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from pagewarden.volumes import artifacts
    from pagewarden.volumes import config as configs

__all__ = ["STAGES", "Done", "Stage", "Work", "find"]

STAGES = ("line_detection", "line_extraction", "ocr", "reduce")
"""In this order."""


async def _whoever_asks() -> None:
    pass


def _ignore(_done: int, _total: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Work:
    """What a stage is given: one volume."""

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


@dataclass(frozen=True, slots=True)
class Done:
    """What a stage says afterwards."""

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
