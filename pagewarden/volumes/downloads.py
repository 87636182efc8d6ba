"""What people may have of a volume: files of a fixed set, whatever else lies in its folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagewarden.volumes import editions, exports
from pagewarden.volumes.artifacts import parquet

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pagewarden.volumes import layout

_PARQUET = "application/vnd.apache.parquet"
_TYPES = {"txt": "text/plain"}


@dataclass(frozen=True, slots=True)
class File:
    """A file: what it is, the stage that makes it, its key, and what it is called when saved."""

    kind: str
    stage: str
    key: str
    name: str
    media_type: str


@dataclass(frozen=True, slots=True)
class Found:
    """A file that is there, with its size in bytes."""

    file: File
    size: int


@dataclass(frozen=True, slots=True)
class Copy:
    """A file on this machine, as long as it is needed."""

    path: Path
    name: str
    media_type: str


def of_stages(keys: layout.Volume) -> list[File]:
    """Name the files that every volume comes to have."""
    made = (
        ("line_detection", "line_detection", keys.line_detection, parquet.LINE_DETECTION.name),
        ("line_images", "line_extraction", keys.line_images, parquet.LINE_IMAGES.name),
        ("ocr_results", "ocr", keys.ocr_results, parquet.OCR_RESULTS.name),
    )
    return [
        File(kind, stage, key, f"{keys.name}_{name}", _PARQUET) for kind, stage, key, name in made
    ]


def of_reduce(keys: layout.Volume) -> list[File]:
    """Name the files that the last stage makes if it is asked to."""
    combined = f"{keys.name}_{parquet.COMBINED.name}"
    return [
        File("combined", "reduce", keys.combined, combined, _PARQUET),
        *(
            File(
                form,
                "reduce",
                keys.export(suffix),
                f"{keys.name}{suffix}",
                _TYPES.get(form, "application/zip"),
            )
            for form, suffix in exports.SUFFIXES.items()
        ),
    ]


def wanted(keys: layout.Volume, config: Mapping[str, Any]) -> list[File]:
    """Name the files that a job with this config makes; others are of an earlier one."""
    asked = editions.asked(config)
    return [*of_stages(keys), *(file for file in of_reduce(keys) if file.kind in asked)]


def find(keys: layout.Volume, name: str) -> File | None:
    """Find a file of the set by its name; None if it is no such name."""
    every = (*of_stages(keys), *of_reduce(keys))
    return next((file for file in every if file.name == name), None)
