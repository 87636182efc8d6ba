"""Compare text and cost of the stages with the one-pass reader."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.ocr import scoring
from benchmarks.volumes import sample_volume
from pagewarden.ocr import reader
from pagewarden.volumes import stages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.ocr import corpus


def make_text_table(pages: Sequence[corpus.Page]) -> Table:
    """Read every collection both ways, with its language given."""
    table = Table("collection", "pages", "CER, one pass", "stages", "difference in points")
    totals: tuple[list[scoring.Score], list[scoring.Score]] = ([], [])
    for name, group in sample_volume.group_by_collection(pages):
        both = asyncio.run(read_in_one_pass(group, group[0].language)), _read_in_stages(group)
        scores = [
            [scoring.score(page, text) for page, text in zip(group, texts, strict=True)]
            for texts in both
        ]
        for total, group_scores in zip(totals, scores, strict=True):
            total.extend(group_scores)
        table.add_row(name, str(len(group)), *_format_scores(*scores))
    table.add_section()
    table.add_row("all", str(len(pages)), *_format_scores(*totals))
    return table


async def read_in_one_pass(pages: Sequence[corpus.Page], language: str = "") -> list[str]:
    """Read pages with the one-pass reader."""
    languages = [language] if language else []
    async with reader.Reader() as one_pass:

        async def read(page: corpus.Page) -> str:
            async with aclosing(one_pass.read(page.path, languages=languages)) as results:
                return "\n".join([each.text async for each in results])

        return await asyncio.gather(*(read(page) for page in pages))


def _read_in_stages(pages: Sequence[corpus.Page]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder:
        volume = sample_volume.make_volume(Path(folder), pages, language=pages[0].language)
        for _ in volume.run(sample_volume.READ):
            pass
        return volume.texts()


def _format_scores(one: Sequence[scoring.Score], other: Sequence[scoring.Score]) -> list[str]:
    first, second = scoring.total(one).cer, scoring.total(other).cer
    return [f"{first:.2%}", f"{second:.2%}", f"{100 * (second - first):+.2f}"]


# Cost ---------------------------------------------------------------------------------------------
# The cost of a volume in stages, compared with the one-pass reader on the same pages.


def make_cost_table(pages: Sequence[corpus.Page]) -> Table:
    """Read all pages as one volume, without a language; start-up time is included."""
    count = len(pages)
    table = Table(
        "", "pages/s", "CPU s/page", "relative to one pass", title=f"One volume of {count} pages"
    )
    stopwatch = sample_volume.Stopwatch()
    asyncio.run(read_in_one_pass(pages))
    baseline = stopwatch.lap()
    _add_row(table, "one pass", baseline, baseline, count)
    table.add_section()
    with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder:
        volume = sample_volume.make_volume(Path(folder), pages, exports=["txt"])
        costs = {}
        for name, _, cost in volume.run(stages.STAGES):
            costs[name] = cost
            _add_row(table, name, cost, baseline, count)
        total = sample_volume.Cost(
            sum(cost.seconds for cost in costs.values()), sum(cost.cpu for cost in costs.values())
        )
        _add_row(table, "all stages", total, baseline, count)
        table.add_section()
        second_run = [cost for _, _, cost in volume.run(stages.STAGES)]
        total = sample_volume.Cost(
            sum(cost.seconds for cost in second_run), sum(cost.cpu for cost in second_run)
        )
        _add_row(table, "all stages again, results exist", total, baseline, count)
        fast = sample_volume.SampleVolume(volume.root, {**volume.config, "profile": "fast"})
        ((_, _, cost),) = fast.run(["ocr"])
        _add_row(table, "ocr again, profile fast", cost, baseline, count)
    return table


def _add_row(
    table: Table, name: str, cost: sample_volume.Cost, baseline: sample_volume.Cost, count: int
) -> None:
    speed = f"{count / cost.seconds:.2f}"
    table.add_row(name, speed, f"{cost.cpu / count:.2f}", f"{cost.cpu / baseline.cpu:.2f}")
