"""One run of a stage that works page by page: failed pages are counted, then all is published."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar

from pagewarden import errors
from pagewarden.volumes.artifacts import parquet, publish
from pagewarden.volumes.artifacts.rows import PageError, Row
from pagewarden.volumes.stages import base

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from pathlib import Path

R = TypeVar("R", bound=Row)

PAGE_ERRORS = (*errors.PAGE_ERRORS, errors.FileNotFound, errors.UnsafePath)
"""Errors that fail only one page; any other error fails the stage."""


@dataclass(frozen=True, slots=True)
class PageResult(Generic[R]):
    """Rows of a page, images by their keys, and counts that become metrics of the stage."""

    rows: Sequence[R]
    images: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))
    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


def to_page_error(stage: str, error: Exception) -> PageError:
    """Convert an exception to the form that is saved in a row."""
    return PageError(stage, type(error).__name__, str(error))


def make_failed_page(
    row_type: type[R], image_name: str, error: PageError, version: str
) -> PageResult[R]:
    """Return the result of a page that failed in this stage or an earlier one."""
    row = row_type(
        image_name=image_name,
        ok=False,
        error_stage=error.stage,
        error_type=error.type,
        error_message=error.message,
        model_version=version,
    )
    return PageResult([row])


class StageRun(Generic[R]):
    """Collects the pages of a stage and publishes them; started_at is of time.perf_counter."""

    def __init__(  # noqa: PLR0913  # what is published, its origin, where, and since when
        self,
        stage_input: base.StageInput,
        table: parquet.Table[R],
        key: str,
        stamp: parquet.Stamp,
        scratch: Path,
        *,
        started_at: float,
    ) -> None:
        self._input = stage_input
        self._table = table
        self._key = key
        self._stamp = stamp
        self._scratch = scratch
        self._started_at = started_at

    async def find_published(self) -> base.StageResult | None:
        """Return the result of an earlier run if its artifacts are complete and up to date."""
        if self._input.force:
            return None
        path = self._scratch / f"published-{self._table.name}"
        try:
            await self._input.output.fetch(self._key, path)
            with parquet.Reader(path, self._table, self._key) as reader:
                return await self._verify(reader) if reader.stamp == self._stamp else None
        except (errors.FileNotFound, errors.InvalidArtifact):
            return None

    async def publish(self, pages: AsyncGenerator[PageResult[R]]) -> base.StageResult:
        """Collect all pages, then publish them."""
        draft = publish.ArtifactDraft(self._scratch, self._table, self._stamp)
        failures, counts, done = self._make_failure_counter(), Counter[str](), 0
        total = self._stamp.pages
        async with contextlib.aclosing(pages) as results:
            async for page in results:
                failures.add(page.rows)
                await draft.add(page.rows, page.images)
                counts.update(page.counts)
                done += 1
                self._input.progress(done, total)
        if done < total:  # the other pages have no lines, so they are done too
            self._input.progress(total, total)
        await draft.publish(self._input.output, self._key, self._input.may_publish)
        return self._to_result(failures, counts, is_skipped=False)

    async def _verify(self, reader: parquet.Reader[R]) -> base.StageResult:
        """Check that every image of a published file is there and of the same run."""
        failures = self._make_failure_counter()
        for row in reader:
            failures.add([row])
            if row.image:
                await publish.fetch_image(self._input.output, row.image, self._key)
        return self._to_result(failures, {}, is_skipped=True)

    def _make_failure_counter(self) -> FailureCounter:
        return FailureCounter(
            self._input.keys.name, self._stamp.pages, self._input.config.failed_pages_allowed
        )

    def _to_result(
        self, failures: FailureCounter, counts: Mapping[str, int], *, is_skipped: bool
    ) -> base.StageResult:
        metrics = {**counts, "seconds": time.perf_counter() - self._started_at}
        return base.StageResult(self._stamp.pages, failures.total, is_skipped, metrics)


class FailureCounter:
    """Counts failed pages of a volume, and raises when more failed than the config allows."""

    def __init__(self, volume: str, pages: int, allowed_share: float) -> None:
        self._volume = volume
        self._pages = pages
        self._allowed_share = allowed_share
        self._types: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    @property
    def total(self) -> int:
        """Return the number of failed pages."""
        return self._types.total()

    def add(self, rows: Sequence[Row]) -> None:
        """Count a page if it failed; raise the most frequent error once too many have."""
        error = next((row.error for row in rows if row.error), None)
        if error is None:
            return
        self._types[error.type] += 1
        self._examples.setdefault(error.type, error.message)
        if self.total <= self._allowed_share * self._pages:
            return
        ((name, count),) = self._types.most_common(1)
        error_type: type[errors.PagewardenError] = getattr(errors, name, errors.ReadingError)
        raise error_type(
            f"{self._volume}: {self.total} of {self._pages} pages failed, more than the allowed "
            f"{self._allowed_share:.0%} (failed_pages_allowed); {count} of them with {name}, for "
            f"example: {self._examples[name]}"
        )
