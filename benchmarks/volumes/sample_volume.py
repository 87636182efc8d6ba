"""Volumes made of pages of a corpus, and the stages run on them, measured."""

from __future__ import annotations

import asyncio
import itertools
import resource
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagewarden import settings
from pagewarden.volumes import artifacts, config, contents, layout, stages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from benchmarks.ocr import corpus


W_ID, I_ID, JOB = "W1", "I1", "bench"
READ = stages.STAGES[:3]


@dataclass(frozen=True, slots=True)
class Cost:
    """What something took: seconds on the wall's clock, and of all processors."""

    seconds: float
    cpu: float


class Stopwatch:
    """Measures what passes between two looks at it; processes count once they have ended."""

    def __init__(self) -> None:
        self._since = time.perf_counter(), _cpu()

    def look(self) -> Cost:
        """Say what passed since the last look."""
        now = time.perf_counter(), _cpu()
        passed = Cost(now[0] - self._since[0], now[1] - self._since[1])
        self._since = now
        return passed


@dataclass(frozen=True, slots=True)
class Bound:
    """A volume in a folder, with originals and artifacts; given is its config."""

    root: Path
    given: dict[str, Any]

    @property
    def originals(self) -> Path:
        """Give the folder of the page images."""
        return self.root / "images" / layout.originals(W_ID, I_ID)

    def work(self) -> stages.Work:
        """Make the work of a stage."""
        chosen = settings.Settings()
        return stages.Work(
            job_key=JOB,
            w_id=W_ID,
            i_id=I_ID,
            config=config.Config.parse(self.given),
            input=artifacts.open_bucket(str(self.root / "images"), chosen),
            output=artifacts.open_bucket(str(self.root / "output"), chosen),
            token="bench",  # noqa: S106  # it names an owner
        )

    def run(self, names: Iterable[str]) -> Iterator[tuple[str, stages.Done, Cost]]:
        """Run stages, each measured by itself."""
        for name in names:
            watch = Stopwatch()
            done = asyncio.run(stages.find(name).run(self.work()))
            yield name, done, watch.look()

    def texts(self) -> list[str]:
        """Read the text of each page, lines in their order."""
        return asyncio.run(self._texts())

    async def _texts(self) -> list[str]:
        work = self.work()
        with work.output.scratch(work.token) as scratch:
            async with contents.opened(work.output, work.keys, scratch) as volume:
                return [page.read().text for page in volume.pages()]


def bind(root: Path, pages: Sequence[corpus.Page], **given: Any) -> Bound:  # noqa: ANN401  # JSON
    """Make a volume of pages of a corpus; their names keep the order."""
    volume = Bound(root, given)
    volume.originals.mkdir(parents=True)
    for number, page in enumerate(pages):
        shutil.copyfile(page.path, volume.originals / f"{number:04d}{page.path.suffix}")
    return volume


def by_collection(pages: Sequence[corpus.Page]) -> Iterator[tuple[str, list[corpus.Page]]]:
    """Group pages of one language, which stand together."""
    for name, group in itertools.groupby(pages, lambda page: page.collection):
        yield name, list(group)


def _cpu() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent)
