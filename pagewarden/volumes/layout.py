"""What the artifacts of a volume are called in their bucket.

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

from pagewarden import errors
from pagewarden.files import paths

# What is in a file decides how it is read; the name only tells pages from what lies beside them.
_IMAGES = frozenset(
    {
        *(".avif", ".bmp", ".gif", ".heic", ".heif", ".j2k", ".jp2"),
        *(".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"),
    }
)
_NUMBERS = re.compile(r"(\d+)")


def page_order(image_name: str) -> tuple[list[tuple[bool, int, str]], str]:
    """Compare names of pages, numbers in them as numbers: page 9 comes before page 10."""
    parts = [part for part in _NUMBERS.split(image_name) if part]
    key = [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]
    return key, image_name


def is_image(key: str) -> bool:
    """Tell whether a file of a volume is one of its pages."""
    return PurePosixPath(key).suffix.lower() in _IMAGES


def originals(w_id: str, i_id: str) -> str:
    """Name the folder of the input bucket in which the page images of a volume are."""
    paths.check_path(f"{w_id}-{i_id}")
    return f"{w_id}-{i_id}"


@dataclass(frozen=True, slots=True)
class Volume:
    """The keys of a volume within one job; ids that could lead elsewhere are refused."""

    job_key: str
    w_id: str
    i_id: str

    def __post_init__(self) -> None:
        for part in (self.job_key, self.w_id, self.i_id):
            if len(paths.check_path(part)) != 1:
                raise errors.UnsafePath(f"{part!r} is no name of a job or volume; leave out the /")

    @property
    def name(self) -> str:
        """Name the volume as its folders do."""
        return f"{self.w_id}-{self.i_id}"

    @property
    def folder(self) -> str:
        """Name the folder of all its artifacts."""
        return f"jobs/{self.job_key}/volumes/{self.name}"

    @property
    def line_detection(self) -> str:
        """Name the Parquet file of the first stage."""
        return f"{self.folder}/line_detection/line_detection.parquet"

    @property
    def line_images(self) -> str:
        """Name the Parquet file of the second stage."""
        return f"{self.folder}/line_extraction/line_images.parquet"

    @property
    def ocr_results(self) -> str:
        """Name the Parquet file of the third stage."""
        return f"{self.folder}/ocr/ocr_results.parquet"

    @property
    def combined(self) -> str:
        """Name the Parquet file of the reducer that combines."""
        return f"{self.folder}/reduce/combined.parquet"

    def rotated_image(self, image_name: str) -> str:
        """Name the picture of a page that was set upright."""
        return f"{self.folder}/line_detection/rotated_images/{image_name}.jpg"

    def line_image(self, image_name: str, line_index: int) -> str:
        """Name the picture of a line, counted from 0."""
        return f"{self.folder}/line_extraction/lines/{image_name}_{line_index}.jpg"

    def export(self, suffix: str) -> str:
        """Name an export of the whole volume."""
        return f"{self.folder}/reduce/{self.name}{suffix}"
