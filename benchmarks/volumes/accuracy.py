"""Text and cost of the stages beside those of the one-pass reader."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.ocr import scoring
from benchmarks.volumes import sample_volume
from pagewarden.reading import reader
from pagewarden.volumes import stages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.ocr import corpus


def text_table(pages: Sequence[corpus.Page]) -> Table:
    """Read every collection both ways, told its language."""
    made = Table("collection", "pages", "CER, one pass", "stages", "difference in points")
    every: tuple[list[scoring.Score], list[scoring.Score]] = ([], [])
    for name, group in sample_volume.by_collection(pages):
        both = asyncio.run(read_in_one_pass(group, group[0].language)), _in_stages(group)
        scores = [
            [scoring.score(page, text) for page, text in zip(group, texts, strict=True)]
            for texts in both
        ]
        for all_of_them, these in zip(every, scores, strict=True):
            all_of_them.extend(these)
        made.add_row(name, str(len(group)), *_cells(*scores))
    made.add_section()
    made.add_row("all", str(len(pages)), *_cells(*every))
    return made


async def read_in_one_pass(pages: Sequence[corpus.Page], language: str = "") -> list[str]:
    """Read pages by the one-pass reader."""
    languages = [language] if language else []
    async with reader.Reader() as reading:

        async def read(page: corpus.Page) -> str:
            async with aclosing(reading.read(page.path, languages=languages)) as found:
                return "\n".join([each.text async for each in found])

        return await asyncio.gather(*(read(page) for page in pages))


def _in_stages(pages: Sequence[corpus.Page]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder:
        volume = sample_volume.bind(Path(folder), pages, language=pages[0].language)
        for _ in volume.run(sample_volume.READ):
            pass
        return volume.texts()


def _cells(one: Sequence[scoring.Score], other: Sequence[scoring.Score]) -> list[str]:
    first, second = scoring.total(one).cer, scoring.total(other).cer
    return [f"{first:.2%}", f"{second:.2%}", f"{100 * (second - first):+.2f}"]


# Cost ---------------------------------------------------------------------------------------------
# What a volume costs in stages, beside the one-pass reader on the same pages.


def cost_table(pages: Sequence[corpus.Page]) -> Table:
    """Read all pages as one volume, in whatever language they are; starting counts, too."""
    count = len(pages)
    made = Table("", "pages/s", "CPU s/page", "of one pass", title=f"One volume of {count} pages")
    watch = sample_volume.Stopwatch()
    asyncio.run(read_in_one_pass(pages))
    baseline = watch.look()
    _add(made, "one pass", baseline, baseline, count)
    made.add_section()
    with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder:
        volume = sample_volume.bind(Path(folder), pages, exports=["txt"])
        costs = {}
        for name, _, cost in volume.run(stages.STAGES):
            costs[name] = cost
            _add(made, name, cost, baseline, count)
        total = sample_volume.Cost(
            sum(cost.seconds for cost in costs.values()), sum(cost.cpu for cost in costs.values())
        )
        _add(made, "all stages", total, baseline, count)
        made.add_section()
        again = [cost for _, _, cost in volume.run(stages.STAGES)]
        whole = sample_volume.Cost(
            sum(cost.seconds for cost in again), sum(cost.cpu for cost in again)
        )
        _add(made, "all stages again, all there", whole, baseline, count)
        other = sample_volume.Bound(volume.root, {**volume.given, "profile": "fast"})
        ((_, _, cost),) = other.run(["ocr"])
        _add(made, "ocr again, profile fast", cost, baseline, count)
    return made


def _add(
    made: Table, name: str, cost: sample_volume.Cost, baseline: sample_volume.Cost, count: int
) -> None:
    speed = f"{count / cost.seconds:.2f}"
    made.add_row(name, speed, f"{cost.cpu / count:.2f}", f"{cost.cpu / baseline.cpu:.2f}")
