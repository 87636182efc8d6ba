"""Volumes for tests: printed pages in a folder, and the work that stages are given."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import pydantic
from PIL import Image

from pagewarden import settings
from pagewarden.volumes import artifacts, config, stages
from pagewarden.volumes.artifacts import parquet, rows
from tests.ocr import printed
from tests.storage import s3_server

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

W_ID, I_ID, JOB = "W22084", "I0886", "first"
TEXTS = (
    ("The garden behind the old house was full of roses,", "and every morning a woman came out"),
    ("to cut the dead flowers and talk to the birds.", "Nobody in the village knew her name."),
    ("One day in autumn she did not come any more,", "and the roses grew over the wall."),
)
PARQUET = {
    "line_detection": "line_detection.parquet",
    "line_extraction": "line_images.parquet",
    "ocr": "ocr_results.parquet",
}
"""The file of each stage, which is published last."""
FAST = {"language": "eng", "processes": 1}
"""A config for tests: everything as usual, only quicker on printed pages."""


@dataclass(frozen=True)
class Book:
    """A volume on disk: originals and artifacts in two folders."""

    root: Path
    given: dict[str, Any] = field(default_factory=lambda: dict(FAST))
    job_key: str = JOB

    @property
    def originals(self) -> Path:
        """Give the folder of the page images."""
        return self.root / "images" / f"{W_ID}-{I_ID}"

    @property
    def artifacts(self) -> Path:
        """Give the folder of what the stages make."""
        return self.root / "output" / "jobs" / self.job_key / "volumes" / f"{W_ID}-{I_ID}"

    def add(self, name: str, lines: Sequence[str], **print_options: Any) -> Path:
        """Print a page."""
        return self.add_pixels(name, printed.page(lines, **print_options).pixels)

    def add_pixels(self, name: str, pixels: Any) -> Path:
        """Save a page."""
        self.originals.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(self.originals / name)
        return self.originals / name

    def with_config(self, **given: Any) -> Book:
        """Give the same volume to a job with another config."""
        return replace(self, given={**self.given, **given})

    def work(self, **changes: Any) -> stages.StageInput:
        """Make the work of a stage."""
        chosen = settings.Settings()
        made = stages.StageInput(
            job_key=self.job_key,
            w_id=W_ID,
            i_id=I_ID,
            config=config.VolumeConfig.parse(self.given),
            input=artifacts.open_bucket(str(self.root / "images"), chosen),
            output=artifacts.open_bucket(str(self.root / "output"), chosen),
            token="owner",
        )
        return replace(made, **changes)

    async def run(self, *names: str, **changes: Any) -> stages.StageResult:
        """Run stages one after another; gives what the last one said."""
        for name in names:
            done = await stages.load(name).run(self.work(**changes))
        return done

    def detected(self) -> list[rows.DetectedPage]:
        """Read what line_detection has published."""
        return self._rows("line_detection", parquet.LINE_DETECTION)

    def lines(self) -> list[rows.LineImage]:
        """Read what line_extraction has published."""
        return self._rows("line_extraction", parquet.LINE_IMAGES)

    def texts(self) -> list[rows.LineText]:
        """Read what ocr has published."""
        return self._rows("ocr", parquet.OCR_RESULTS)

    def _rows(self, stage: str, table: parquet.Table[Any]) -> list[Any]:
        with parquet.Reader(self.artifacts / stage / table.name, table, stage) as found:
            return list(found)

    def digests(self) -> dict[str, str]:
        """Name everything that is in the output bucket by its content, hidden files too."""
        output = self.root / "output"
        return {
            path.relative_to(output).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(output.rglob("*"))
            if path.is_file()
        }


def make(root: Path, texts: Iterable[Sequence[str]] = TEXTS) -> Book:
    """Print a volume."""
    book = Book(root)
    for number, lines in enumerate(texts, 1):
        book.add(f"page{number}.png", lines)
    return book


def run_sync(book: Book, *names: str) -> stages.StageResult:
    """Run stages outside of an event loop."""
    return asyncio.run(book.run(*names))


def of_s3(server: s3_server.S3Server) -> settings.Settings:
    """Give the settings that lead to a server."""
    return settings.Settings(
        s3_endpoint=pydantic.HttpUrl(server.url),
        s3_region=s3_server.REGION,
        s3_access_key_id=s3_server.ACCESS_KEY,
        s3_secret_access_key=pydantic.SecretStr(s3_server.SECRET_KEY),
    )


def text_of(found: Iterable[rows.LineText]) -> list[str]:
    """Give what was read, line by line."""
    return [row.text or "" for row in found]


def bent(pixels: NDArray[np.uint8], depth: float) -> NDArray[np.uint8]:
    """Bend a page so that the middle of each line is so many pixels higher than its ends."""
    height, width = pixels.shape[:2]
    down = depth * np.sin(np.linspace(0, np.pi, width, dtype=np.float32))
    rows_from = np.arange(height, dtype=np.float32)[:, None] + down[None, :].astype(np.float32)
    columns = np.broadcast_to(np.arange(width, dtype=np.float32), (height, width))
    moved = cv2.remap(pixels, columns, rows_from, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(moved, np.uint8)
