"""Last stage: figures of the whole volume, and whatever else its config wants of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.volumes import config as configs
from pagewarden.volumes import contents, exports, reducers
from pagewarden.volumes.artifacts import parquet, published
from pagewarden.volumes.stages import interface, models

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path


class Reduce:
    """Gives the metrics of a volume; publishes exports, and what its reducer makes."""

    name = "reduce"

    async def run(self, work: interface.Work) -> interface.Done:
        """Go through the Parquet files; that is quick, so it is done every time."""
        began = time.perf_counter()
        models.refuse(work.model, self.name)
        await work.output.prepare()
        with work.output.scratch(work.token) as scratch:
            async with _given(work, scratch) as given:
                reduced, files = await asyncio.to_thread(_reduce, work, given)
                pages = given.volume.detected.stamp.pages
            await work.may_publish()
            for key, path in files.items():
                await work.output.publish(path, key)
        work.progress(pages, pages)
        return _done(work, reduced, pages, time.perf_counter() - began)


@contextlib.asynccontextmanager
async def _given(work: interface.Work, scratch: Path) -> AsyncGenerator[reducers.Given]:
    async with contextlib.AsyncExitStack() as stack:
        volume = await stack.enter_async_context(contents.opened(work.output, work.keys, scratch))
        others = [
            await stack.enter_async_context(
                published.opened(work.output, parquet.OCR_RESULTS, key, scratch)
            )
            for key in _sources(work)
        ]
        yield reducers.Given(volume, others, work.keys, scratch)


def _sources(work: interface.Work) -> list[str]:
    """Fill in the ids of the volume; nothing counts twice, and its own texts count anyway."""
    ids = {"w_id": work.w_id, "i_id": work.i_id}
    keys = dict.fromkeys(configs.filled_in(source, **ids) for source in work.config.sources)
    others = [key for key in keys if key != work.keys.ocr_results]
    if keys and not others:
        raise errors.ArtifactUnusable(
            f"sources of the job name only what it reads itself ({work.keys.ocr_results}). Name "
            "texts of other jobs, or take reducer 'metrics'."
        )
    return others


def _reduce(
    work: interface.Work, given: reducers.Given
) -> tuple[reducers.Reduced, dict[str, Path]]:
    """Have the volume reduced, then exported; gives files by the keys they are to have."""
    reduced = reducers.find(work.config.reducer).reduce(given)
    made = {}
    for name in work.config.exports:
        suffix = exports.SUFFIXES[name]
        path = made[work.keys.export(suffix)] = given.scratch / f"export{suffix}"
        pages = given.volume.pages(reduced.texts)
        languages = work.config.languages
        exports.write(name, pages, path, name=work.keys.name, languages=languages)
    return reduced, {**made, **reduced.files}


def _done(
    work: interface.Work, reduced: reducers.Reduced, pages: int, seconds: float
) -> interface.Done:
    duration = 1000 * (work.seconds_before + seconds)
    metrics = {**reduced.metrics, "processing_duration_ms": duration, "seconds": seconds}
    return interface.Done(pages, int(metrics["failed_images"]), skipped=False, metrics=metrics)


STAGE = Reduce()
