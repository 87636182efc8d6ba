"""Make volumes from pages of a corpus, and measure stages on them."""

from __future__ import annotations

import asyncio
import itertools
import resource
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagewarden import settings
from pagewarden.volumes import artifact_keys, artifacts, config, contents, stages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from benchmarks.ocr import corpus


W_ID, I_ID, JOB = "W1", "I1", "bench"
READ = stages.STAGES[:3]


@dataclass(frozen=True, slots=True)
class Cost:
    """Wall time and CPU time, in seconds."""

    seconds: float
    cpu: float


class Stopwatch:
    """Measures the cost between two laps; a child process counts when it ends."""

    def __init__(self) -> None:
        self._last = time.perf_counter(), _read_cpu_seconds()

    def lap(self) -> Cost:
        """Return the cost since the last lap."""
        now = time.perf_counter(), _read_cpu_seconds()
        cost = Cost(now[0] - self._last[0], now[1] - self._last[1])
        self._last = now
        return cost


@dataclass(frozen=True, slots=True)
class SampleVolume:
    """A volume in a folder, with originals and artifacts, and its config."""

    root: Path
    config: dict[str, Any]

    @property
    def originals(self) -> Path:
        """Return the folder of the page images."""
        return self.root / "images" / artifact_keys.get_originals_folder(W_ID, I_ID)

    def stage_input(self) -> stages.StageInput:
        """Make the input of a stage."""
        defaults = settings.Settings()
        return stages.StageInput(
            job_key=JOB,
            w_id=W_ID,
            i_id=I_ID,
            config=config.VolumeConfig.parse(self.config),
            input=artifacts.open_bucket(str(self.root / "images"), defaults),
            output=artifacts.open_bucket(str(self.root / "output"), defaults),
            token="bench",  # noqa: S106  # no secret
        )

    def run(self, names: Iterable[str]) -> Iterator[tuple[str, stages.StageResult, Cost]]:
        """Run stages; yield the result and the cost of each."""
        for name in names:
            stopwatch = Stopwatch()
            result = asyncio.run(stages.load(name).run(self.stage_input()))
            yield name, result, stopwatch.lap()

    def texts(self) -> list[str]:
        """Read the text of each page, in order."""
        return asyncio.run(self._read_texts())

    async def _read_texts(self) -> list[str]:
        inputs = self.stage_input()
        with inputs.output.scratch(inputs.token) as scratch:
            async with contents.open_contents(inputs.output, inputs.keys, scratch) as volume:
                return [page.to_read_page().text for page in volume.iterate_pages()]


def make_volume(
    root: Path,
    pages: Sequence[corpus.Page],
    **config: Any,  # noqa: ANN401  # JSON
) -> SampleVolume:
    """Make a volume of pages of a corpus, with file names in their order."""
    volume = SampleVolume(root, config)
    volume.originals.mkdir(parents=True)
    for number, page in enumerate(pages):
        shutil.copyfile(page.path, volume.originals / f"{number:04d}{page.path.suffix}")
    return volume


def group_by_collection(pages: Sequence[corpus.Page]) -> Iterator[tuple[str, list[corpus.Page]]]:
    """Group the pages, which are sorted by collection."""
    for name, group in itertools.groupby(pages, lambda page: page.collection):
        yield name, list(group)


def _read_cpu_seconds() -> float:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in usage)
