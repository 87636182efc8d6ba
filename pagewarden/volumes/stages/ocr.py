"""Stage 3, in our process: write ocr_results.parquet.

The children recognise the text of line images, all lines of a page together; see ocr_child.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from pagewarden import concurrency
from pagewarden.ocr.sandbox import tasks
from pagewarden.volumes.artifacts import parquet, publish, rows
from pagewarden.volumes.stages import base, child_protocol, process_pool
from pagewarden.volumes.stages.run import (
    PAGE_ERRORS,
    PageResult,
    StageRun,
    make_failed_page,
    to_page_error,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CONCURRENT_FETCHES = 16  # of line images, for each page


class OcrStage:
    """Writes ocr_results.parquet of a volume."""

    name = "ocr"

    async def run(self, stage_input: base.StageInput) -> base.StageResult:
        """Recognise the text of all pages that have lines."""
        started_at = time.perf_counter()
        output, keys = stage_input.output, stage_input.keys
        await output.prepare()
        with output.scratch(stage_input.token) as scratch:
            async with (
                publish.open_parquet(
                    output, parquet.LINE_IMAGES, keys.line_images, scratch
                ) as lines,
                process_pool.open_pool(
                    stage_input.config,
                    _make_sandbox_task(stage_input),
                    with_engine=stage_input.model is None,
                ) as pool,
            ):
                stamp = parquet.Stamp(
                    self.name,
                    lines.digest,
                    stage_input.config.digest(self.name),
                    pool.version,
                    lines.stamp.pages,
                )
                table, key = parquet.OCR_RESULTS, keys.ocr_results
                run = StageRun(stage_input, table, key, stamp, scratch, started_at=started_at)
                if published := await run.find_published():
                    return published
                pages = (self._process(stage_input, pool, page) for page in _group_by_page(lines))
                return await run.publish(
                    concurrency.map_in_order(pages, max_concurrency=pool.ahead)
                )

    async def _process(
        self,
        stage_input: base.StageInput,
        pool: process_pool.ProcessPool,
        lines: Sequence[rows.LineImage],
    ) -> PageResult[rows.LineText]:
        image_name, error = lines[0].image_name, lines[0].error
        if error is None:
            try:
                return await _recognise(stage_input, pool, lines)
            except PAGE_ERRORS as exc:
                error = to_page_error(self.name, exc)
        return make_failed_page(rows.LineText, image_name, error, pool.version)


async def _recognise(
    stage_input: base.StageInput,
    pool: process_pool.ProcessPool,
    lines: Sequence[rows.LineImage],
) -> PageResult[rows.LineText]:
    image_name, named_by = lines[0].image_name, stage_input.keys.line_images
    fetches = (publish.fetch_image(stage_input.output, line.image, named_by) for line in lines)
    line_images = [
        data
        async for data in concurrency.map_in_order(fetches, max_concurrency=_CONCURRENT_FETCHES)
    ]
    request = process_pool.Request(
        image_name,
        child_protocol.TEXTS,
        lambda texts, files: len(texts) == len(lines) and not files,
        {"name": image_name, "sizes": [len(data) for data in line_images]},
        b"".join(line_images),
    )
    texts, _ = await pool.run(request)
    text_rows = [
        _to_row(line, text, stage_input.config.encoding, pool.version)
        for line, text in zip(lines, texts, strict=True)
    ]
    counts = {"lines": len(text_rows), "characters": sum(len(text.text) for text in texts)}
    return PageResult(text_rows, counts=counts)


def _make_sandbox_task(stage_input: base.StageInput) -> tasks.SandboxTask:
    options = {
        "languages": stage_input.config.languages,
        "wylie": stage_input.config.encoding == "wylie",
        **base.make_model_options(stage_input.model),
    }
    return tasks.SandboxTask("pagewarden.volumes.stages.ocr_child", "LineRecogniser", options)


def _group_by_page(lines: parquet.Reader[rows.LineImage]) -> Iterator[list[rows.LineImage]]:
    for _, page in itertools.groupby(lines, key=lambda line: line.image_name):
        yield list(page)


def _to_row(
    line: rows.LineImage, text: child_protocol.RecognisedText, encoding: str, version: str
) -> rows.LineText:
    return rows.LineText(
        image_name=line.image_name,
        line_index=line.line_index,
        line_guid=line.line_guid,
        text=text.text,
        encoding=encoding,
        confidence=text.confidence if text.text else None,
        model_version=version,
        words=[
            rows.LineWord(text=word, left=left, right=right, confidence=confidence)
            for word, left, right, confidence in text.words
        ],
    )


STAGE = OcrStage()
