"""Fake stages of known duration, which write small artifacts under the keys of the real ones.

The artifact of a stage depends only on that of the previous stage, so runs can be compared byte by
byte. A second file has the lock token that wrote each page; all pages of an artifact must have the
same.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from pagewarden import errors
from pagewarden.volumes import stages

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = {
    "line_detection": "line_detection/line_detection.parquet",
    "line_extraction": "line_extraction/line_images.parquet",
    "ocr": "ocr/ocr_results.parquet",
    "reduce": "reduce/text.parquet",
}
PAGES = 4


def folder(work: stages.StageInput) -> str:
    """Return the folder of a volume's artifacts."""
    return f"jobs/{work.job_key}/volumes/{work.w_id}-{work.i_id}"


@dataclass(frozen=True, slots=True)
class FakeStage:
    """Spends page_seconds on each page, then writes one Parquet file and a file of owners.

    before is called before each page, with the input and the page number.
    """

    name: str
    page_seconds: float = 0.0
    before: Callable[[stages.StageInput, int], None] = lambda _work, _page: None

    async def run(self, work: stages.StageInput) -> stages.StageResult:
        """Make an artifact from that of the previous stage."""
        texts = await self._texts(work)
        with work.output.scratch(work.token) as scratch:
            rows = []
            for number, text in enumerate(texts, 1):
                self.before(work, number)
                await asyncio.sleep(self.page_seconds)
                rows.append({"image_name": f"{number:04}", "text": _digest(self.name, text)})
                work.progress(number, len(texts))
            owners = [{"image_name": row["image_name"], "token": work.token} for row in rows]
            await self._publish(work, scratch, {"": rows, ".owners": owners})
        return stages.StageResult(len(rows), 0, skipped=False, metrics=_metrics(rows))

    async def _texts(self, work: stages.StageInput) -> list[str]:
        number = stages.STAGES.index(self.name)
        if number == 0:
            return [f"{work.w_id}-{work.i_id} page {page}" for page in range(PAGES)]
        made = await work.output.get(f"{folder(work)}/{FILES[stages.STAGES[number - 1]]}")
        return [str(row["text"]) for row in pq.read_table(io.BytesIO(made)).to_pylist()]

    async def _publish(
        self, work: stages.StageInput, scratch: Path, tables: dict[str, list[dict[str, str]]]
    ) -> None:
        for suffix, rows in tables.items():
            pq.write_table(pa.Table.from_pylist(rows), scratch / f"made{suffix}")
        await work.may_publish()
        for suffix in tables:
            key = f"{folder(work)}/{FILES[self.name]}{suffix}"
            await work.output.publish(scratch / f"made{suffix}", key)


def _digest(stage: str, text: str) -> str:
    return hashlib.sha256(f"{stage}: {text}".encode()).hexdigest()


def _metrics(rows: list[dict[str, str]]) -> dict[str, float | int | str]:
    characters = sum(len(row["text"]) for row in rows)
    return {
        "total_images": len(rows),
        "total_lines": len(rows),
        "total_characters": characters,
        "dewarping_applied_count": 0,
    }


def steady(page_seconds: float = 0.0) -> Callable[[str], stages.Stage]:
    """Return a loader of stages that always succeed."""
    return lambda name: FakeStage(name, page_seconds)


def deadly(name: str) -> stages.Stage:
    """Load stages that kill their process at volume W0-I0."""

    def before(work: stages.StageInput, _page: int) -> None:
        if (work.w_id, work.i_id) == ("W0", "I0"):
            os.kill(os.getpid(), signal.SIGKILL)

    return FakeStage(name, before=before)


def failing(error: Exception, *, times: int, at: str = "ocr") -> Callable[[str], stages.Stage]:
    """Return a loader of stages of which one fails `times` times before it succeeds."""
    left = [times]

    def before(_work: stages.StageInput, _page: int) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise error

    return lambda name: FakeStage(name, before=before) if name == at else FakeStage(name)


def away(name: str) -> stages.Stage:
    """Load stages whose store is unreachable."""
    return _away(name, lambda _work: True)


def away_for(volume: str) -> Callable[[str], stages.Stage]:
    """Return a loader of stages whose store is unreachable for one volume."""
    return lambda name: _away(name, lambda work: f"{work.w_id}-{work.i_id}" == volume)


def _away(name: str, meets_it: Callable[[stages.StageInput], bool]) -> stages.Stage:
    def before(work: stages.StageInput, _page: int) -> None:
        if meets_it(work):
            raise errors.StoreUnavailable("the bucket cannot be reached; try again")

    return FakeStage(name, before=before)
