"""Stage 4: run the reducer of the config on the volume, and write the exports it asks for."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.volumes import config as configs
from pagewarden.volumes import contents, exports
from pagewarden.volumes.artifacts import parquet, publish
from pagewarden.volumes.stages import base, reducers

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path


class ReduceStage:
    """Computes the metrics of a volume; publishes its exports and the files of the reducer."""

    name = "reduce"

    async def run(self, stage_input: base.StageInput) -> base.StageResult:
        """Read the Parquet files; this takes little time, so it is never skipped."""
        started_at = time.perf_counter()
        base.reject_model(stage_input.model, self.name)
        await stage_input.output.prepare()
        with stage_input.output.scratch(stage_input.token) as scratch:
            async with _open_inputs(stage_input, scratch) as reducer_input:
                reduced, files = await asyncio.to_thread(_reduce, stage_input, reducer_input)
                pages = reducer_input.volume.detected.stamp.pages
            await stage_input.may_publish()
            for key, path in files.items():
                await stage_input.output.publish(path, key)
        stage_input.progress(pages, pages)
        return _to_result(stage_input, reduced, pages, time.perf_counter() - started_at)


@contextlib.asynccontextmanager
async def _open_inputs(
    stage_input: base.StageInput, scratch: Path
) -> AsyncGenerator[reducers.ReducerInput]:
    bucket = stage_input.output
    async with contextlib.AsyncExitStack() as stack:
        volume = await stack.enter_async_context(
            contents.open_contents(bucket, stage_input.keys, scratch)
        )
        others = [
            await stack.enter_async_context(
                publish.open_parquet(bucket, parquet.OCR_RESULTS, key, scratch)
            )
            for key in _find_sources(stage_input)
        ]
        yield reducers.ReducerInput(volume, others, stage_input.keys, scratch)


def _find_sources(stage_input: base.StageInput) -> list[str]:
    """Return the keys of further texts, without duplicates and without those of the volume."""
    ids = {"w_id": stage_input.w_id, "i_id": stage_input.i_id}
    own = stage_input.keys.ocr_results
    keys = dict.fromkeys(
        configs.fill_in_source(source, **ids) for source in stage_input.config.sources
    )
    others = [key for key in keys if key != own]
    if keys and not others:
        raise errors.InvalidArtifact(
            f"the only source of the job is its own text ({own}). Specify texts from other jobs, "
            "or "
            "use reducer 'metrics'."
        )
    return others


def _reduce(
    stage_input: base.StageInput, reducer_input: reducers.ReducerInput
) -> tuple[reducers.ReducerResult, dict[str, Path]]:
    """Reduce the volume and export the result; return the files by their keys."""
    config, keys = stage_input.config, stage_input.keys
    reduced = reducers.REDUCERS[config.reducer].reduce(reducer_input)
    files = {}
    for format_name in config.exports:
        suffix = exports.SUFFIXES[format_name]
        path = files[keys.export(suffix)] = reducer_input.scratch / f"export{suffix}"
        pages = reducer_input.volume.iterate_pages(reduced.texts)
        exports.write_pages(format_name, pages, path, name=keys.name, languages=config.languages)
    return reduced, {**files, **reduced.files}


def _to_result(
    stage_input: base.StageInput, reducer_result: reducers.ReducerResult, pages: int, seconds: float
) -> base.StageResult:
    duration = 1000 * (stage_input.seconds_before + seconds)
    metrics = {**reducer_result.metrics, "processing_duration_ms": duration, "seconds": seconds}
    return base.StageResult(pages, int(metrics["failed_images"]), skipped=False, metrics=metrics)


STAGE = ReduceStage()
