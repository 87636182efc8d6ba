"""Keys of a volume in the input and output bucket, and which version of it is published.

jobs/{job_key}/volumes/{w_id}-{i_id}/
  line_detection/rotated_images/{image_name}.jpg
  line_detection/line_detection.parquet
  line_extraction/lines/{image_name}_{line_index}.jpg
  line_extraction/line_images.parquet
  ocr/ocr_results.parquet
  reduce/…                                      only what the config asks for
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pagewarden import errors
from pagewarden.storage import paths

if TYPE_CHECKING:
    from collections.abc import Mapping

# The suffix only tells pages from other files; the content decides how a page is read.
_IMAGE_SUFFIXES = frozenset(
    {
        *(".avif", ".bmp", ".gif", ".heic", ".heif", ".j2k", ".jp2"),
        *(".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"),
    }
)
_NUMBERS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class VolumeKeys:
    """Keys of a volume within one job; ids that could lead to other folders are refused."""

    job_key: str
    w_id: str
    i_id: str

    def __post_init__(self) -> None:
        for part in (self.job_key, self.w_id, self.i_id):
            if len(paths.check_path(part)) != 1:
                raise errors.UnsafePath(f"invalid job or volume name {part!r}; remove the slash")

    @property
    def name(self) -> str:
        """Return the name of the volume, as in its folders."""
        return f"{self.w_id}-{self.i_id}"

    @property
    def folder(self) -> str:
        """Return the folder of all artifacts."""
        return f"jobs/{self.job_key}/volumes/{self.name}"

    @property
    def line_detection(self) -> str:
        """Return the key of the Parquet file of the first stage."""
        return f"{self.folder}/line_detection/line_detection.parquet"

    @property
    def line_images(self) -> str:
        """Return the key of the Parquet file of the second stage."""
        return f"{self.folder}/line_extraction/line_images.parquet"

    @property
    def ocr_results(self) -> str:
        """Return the key of the Parquet file of the third stage."""
        return f"{self.folder}/ocr/ocr_results.parquet"

    @property
    def combined(self) -> str:
        """Return the key of the Parquet file of the reducer `combine`."""
        return f"{self.folder}/reduce/combined.parquet"

    def rotated_image(self, image_name: str) -> str:
        """Return the key of the upright image of a page."""
        return f"{self.folder}/line_detection/rotated_images/{image_name}.jpg"

    def line_image(self, image_name: str, line_index: int) -> str:
        """Return the key of the image of a line; line_index counts from 0."""
        return f"{self.folder}/line_extraction/lines/{image_name}_{line_index}.jpg"

    def export(self, suffix: str) -> str:
        """Return the key of an export of the whole volume."""
        return f"{self.folder}/reduce/{self.name}{suffix}"


@dataclass(frozen=True, slots=True)
class VolumeVersion:
    """A published version of a volume; version changes whenever the files may have changed.

    combined: the valid texts are those of the reducer `combine`.
    """

    keys: VolumeKeys
    version: str
    combined: bool = False


def list_requested_files(config: Mapping[str, Any]) -> set[str]:
    """Return the kinds of files that stage reduce makes for this config."""
    combined = {"combined"} if config.get("reducer") == "combine" else set()
    return {*config.get("exports", ()), *combined}


def get_originals_folder(w_id: str, i_id: str) -> str:
    """Return the folder of the page images of a volume in the input bucket."""
    paths.check_path(f"{w_id}-{i_id}")
    return f"{w_id}-{i_id}"


def is_image(key: str) -> bool:
    """Return whether a file in the folder of a volume is a page."""
    return PurePosixPath(key).suffix.lower() in _IMAGE_SUFFIXES


def page_sort_key(image_name: str) -> tuple[list[tuple[bool, int, str]], str]:
    """Return a key that sorts numbers in names by value: page 9 comes before page 10."""
    parts = [part for part in _NUMBERS.split(image_name) if part]
    key = [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]
    return key, image_name
