"""One run of a stage: pages come, failures are counted, and in the end all is published."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar

from pagewarden import errors
from pagewarden.reading import lanes
from pagewarden.volumes.artifacts import drafts, parquet, published, rows
from pagewarden.volumes.stages import interface

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from pathlib import Path

R = TypeVar("R", bound=rows.Row)

PAGE_ERRORS = (*lanes.PAGE_ERRORS, errors.FileNotThere, errors.UnsafePath)
"""What costs a page; every other error is not the page's fault, and ends the stage."""


@dataclass(frozen=True, slots=True)
class Made(Generic[R]):
    """What came of a page: its rows, images by their keys, and what is to be counted."""

    rows: Sequence[R]
    images: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))
    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


def trouble_of(stage: str, error: Exception) -> rows.Trouble:
    """Say in a row what went wrong."""
    return rows.Trouble(stage, type(error).__name__, str(error))


def failed(kind: type[R], image_name: str, trouble: rows.Trouble, model: str) -> Made[R]:
    """Make the row of a page that failed, at this stage or at one before."""
    row = kind(
        image_name=image_name,
        ok=False,
        error_stage=trouble.stage,
        error_type=trouble.type,
        error_message=trouble.message,
        model_version=model,
    )
    return Made([row])


class Tally:
    """Counts pages that failed, and says when there are too many of them."""

    def __init__(self, volume: str, total: int, allowed: float) -> None:
        self._volume = volume
        self._total = total
        self._allowed = allowed
        self._kinds: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    @property
    def failed(self) -> int:
        """Count them."""
        return self._kinds.total()

    def judge(self, of_page: Sequence[rows.Row]) -> None:
        """Count a page if it failed; raises what most did, once they are more than allowed."""
        trouble = next((row.trouble for row in of_page if row.trouble), None)
        if trouble is None:
            return
        self._kinds[trouble.type] += 1
        self._examples.setdefault(trouble.type, trouble.message)
        if self.failed <= self._allowed * self._total:
            return
        ((kind, count),) = self._kinds.most_common(1)
        error: type[errors.PagewardenError] = getattr(errors, kind, errors.ReadingError)
        raise error(
            f"{self._volume}: {self.failed} of {self._total} pages failed, and only "
            f"{self._allowed:.0%} may (failed_pages_allowed); {count} of them with {kind}, such as "
            f"this: {self._examples[kind]}"
        )


class Run(Generic[R]):
    """Takes what a stage makes, page by page, and publishes it; began is of time.perf_counter."""

    def __init__(  # noqa: PLR0913  # what is made, of what, where, and since when
        self,
        work: interface.Work,
        table: parquet.Table[R],
        key: str,
        stamp: parquet.Stamp,
        scratch: Path,
        *,
        began: float,
    ) -> None:
        self._work = work
        self._table = table
        self._key = key
        self._stamp = stamp
        self._scratch = scratch
        self._began = began

    async def repeated(self) -> interface.Done | None:
        """Say that all of it is there already; None if it is to be done."""
        if self._work.force:
            return None
        path = self._scratch / f"published-{self._table.name}"
        try:
            await self._work.output.fetch(self._key, path)
            with parquet.Reader(path, self._table, self._key) as there:
                return await self._verified(there) if there.stamp == self._stamp else None
        except (errors.FileNotThere, errors.ArtifactUnusable):
            return None

    async def make(self, pages: AsyncGenerator[Made[R]]) -> interface.Done:
        """Take pages until there are no more, and publish what they make up."""
        draft = drafts.Draft(self._scratch, self._table, self._stamp)
        tally, counts, done = self._tally(), Counter[str](), 0
        async with contextlib.aclosing(pages) as coming:
            async for made in coming:
                tally.judge(made.rows)
                await draft.add(made.rows, made.images)
                counts.update(made.counts)
                done += 1
                self._work.progress(done, self._stamp.pages)
        if done < self._stamp.pages:  # the others have no lines, and are done as well
            self._work.progress(self._stamp.pages, self._stamp.pages)
        await draft.publish(self._work.output, self._key, self._work.may_publish)
        return self._done(tally, counts, skipped=False)

    async def _verified(self, there: parquet.Reader[R]) -> interface.Done:
        tally = self._tally()
        for row in there:
            tally.judge([row])
            if row.image:
                await published.fetch_image(self._work.output, row.image, self._key)
        return self._done(tally, {}, skipped=True)

    def _tally(self) -> Tally:
        return Tally(
            self._work.keys.name, self._stamp.pages, self._work.config.failed_pages_allowed
        )

    def _done(self, tally: Tally, counts: Mapping[str, int], *, skipped: bool) -> interface.Done:
        metrics = {**counts, "seconds": time.perf_counter() - self._began}
        return interface.Done(self._stamp.pages, tally.failed, skipped, metrics)
