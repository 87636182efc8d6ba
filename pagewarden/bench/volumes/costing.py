"""What a volume costs in stages, beside the one-pass reader on the same pages."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from pagewarden.bench.volumes import agreeing, volumes
from pagewarden.volumes import stages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.bench.ocr import corpus


def table(pages: Sequence[corpus.Page]) -> Table:
    """Read all pages as one volume, in whatever language they are; starting counts, too."""
    count = len(pages)
    made = Table("", "pages/s", "CPU s/page", "of one pass", title=f"One volume of {count} pages")
    watch = volumes.Stopwatch()
    asyncio.run(agreeing.once(pages))
    baseline = watch.look()
    _add(made, "one pass", baseline, baseline, count)
    made.add_section()
    with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder:
        volume = volumes.bind(Path(folder), pages, exports=["txt"])
        costs = {}
        for name, _, cost in volume.run(stages.STAGES):
            costs[name] = cost
            _add(made, name, cost, baseline, count)
        total = volumes.Cost(
            sum(cost.seconds for cost in costs.values()), sum(cost.cpu for cost in costs.values())
        )
        _add(made, "all stages", total, baseline, count)
        made.add_section()
        again = [cost for _, _, cost in volume.run(stages.STAGES)]
        whole = volumes.Cost(sum(cost.seconds for cost in again), sum(cost.cpu for cost in again))
        _add(made, "all stages again, all there", whole, baseline, count)
        other = volumes.Bound(volume.root, {**volume.given, "profile": "fast"})
        ((_, _, cost),) = other.run(["ocr"])
        _add(made, "ocr again, profile fast", cost, baseline, count)
    return made


def _add(made: Table, name: str, cost: volumes.Cost, baseline: volumes.Cost, count: int) -> None:
    speed = f"{count / cost.seconds:.2f}"
    made.add_row(name, speed, f"{cost.cpu / count:.2f}", f"{cost.cpu / baseline.cpu:.2f}")
