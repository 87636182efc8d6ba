"""Stage 2, in our process: write line_images.parquet and the line images.

The children cut the lines of a page out of its rotated image, in reading order; see
line_extraction_child.
"""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING

from pagewarden import SOFTWARE, concurrency
from pagewarden.ocr import languages
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
    from pagewarden.volumes import config as configs

# Random and constant: runs that find the same line give it the same id.
_GUID_NAMESPACE = uuid.UUID("5f0f7a52-3c1b-4a6e-9d0d-8f5f3f0f6c11")


class LineExtractionStage:
    """Writes line_images.parquet and the line images of a volume."""

    name = "line_extraction"

    async def run(self, stage_input: base.StageInput) -> base.StageResult:
        """Extract the lines of all pages."""
        started_at = time.perf_counter()
        base.reject_model(stage_input.model, self.name)
        output, keys = stage_input.output, stage_input.keys
        await output.prepare()
        with output.scratch(stage_input.token) as scratch:
            async with (
                publish.open_parquet(
                    output, parquet.LINE_DETECTION, keys.line_detection, scratch
                ) as detected_pages,
                process_pool.open_pool(
                    stage_input.config, _make_sandbox_task(stage_input.config)
                ) as pool,
            ):
                stamp = parquet.Stamp(
                    self.name,
                    detected_pages.digest,
                    stage_input.config.digest(self.name),
                    pool.version,
                    detected_pages.stamp.pages,
                )
                table, key = parquet.LINE_IMAGES, keys.line_images
                run = StageRun(stage_input, table, key, stamp, scratch, started_at=started_at)
                if published := await run.find_published():
                    return published
                pages = (self._process(stage_input, pool, page) for page in detected_pages)
                return await run.publish(
                    concurrency.map_in_order(pages, max_concurrency=pool.ahead)
                )

    async def _process(
        self, stage_input: base.StageInput, pool: process_pool.ProcessPool, page: rows.DetectedPage
    ) -> PageResult[rows.LineImage]:
        error = page.error
        if error is None:
            try:
                return await _extract(stage_input, pool, page)
            except PAGE_ERRORS as exc:
                error = to_page_error(self.name, exc)
        return make_failed_page(rows.LineImage, page.image_name, error, pool.version)


async def _extract(
    stage_input: base.StageInput, pool: process_pool.ProcessPool, page: rows.DetectedPage
) -> PageResult[rows.LineImage]:
    if not page.filtered_contours:
        return PageResult([])
    image = await publish.fetch_image(
        stage_input.output, page.image, stage_input.keys.line_detection
    )
    message = {
        "name": page.image_name,
        "contours": page.filtered_contours,
        "confidences": page.contour_confidences,
    }
    lines, line_images = await pool.run(
        process_pool.Request(page.image_name, child_protocol.LINES, _is_consistent, message, image)
    )
    line_rows = [
        _to_row(stage_input, page.image_name, index, line, line_image)
        for index, (line, line_image) in enumerate(zip(lines, line_images, strict=True))
    ]
    keys = [row.line_image_path or "" for row in line_rows]
    counts = {"lines": len(line_rows)}
    return PageResult(line_rows, dict(zip(keys, line_images, strict=True)), counts)


def _make_sandbox_task(config: configs.VolumeConfig) -> tasks.SandboxTask:
    options = {
        "k_factor": config.k_factor,
        "bbox_tolerance": config.bbox_tolerance,
        "merge_lines": config.merge_lines,
        "masked": config.line_mode == "masked",
        "right_to_left": languages.is_right_to_left(config.languages),
    }
    return tasks.SandboxTask(
        "pagewarden.volumes.stages.line_extraction_child", "LineExtractor", options
    )


def _is_consistent(lines: list[child_protocol.Line], line_images: list[bytes]) -> bool:
    return len(lines) == len(line_images) and all(line.contour for line in lines)


def _to_row(
    stage_input: base.StageInput,
    image_name: str,
    index: int,
    line: child_protocol.Line,
    line_image: bytes,
) -> rows.LineImage:
    xs, ys = zip(*line.contour, strict=True)
    left, top, right, bottom = min(xs), min(ys), max(xs), max(ys)
    return rows.LineImage(
        image_name=image_name,
        line_index=index,
        line_image_path=stage_input.keys.line_image(image_name, index),
        line_guid=_make_line_guid(stage_input, image_name, line),
        bbox_x=left,
        bbox_y=top,
        bbox_w=right - left + 1,
        bbox_h=bottom - top + 1,
        center_x=(left + right) // 2,
        center_y=(top + bottom) // 2,
        contour=line.contour,
        confidence=line.confidence,
        model_version=SOFTWARE,
        corners=line.corners,
        block=line.block,
        line_image_sha256=publish.compute_sha256(line_image),
    )


def _make_line_guid(
    stage_input: base.StageInput, image_name: str, line: child_protocol.Line
) -> str:
    """Derive the id of a line from its position, so that it is the same in every job and run."""
    position = json.dumps([stage_input.w_id, stage_input.i_id, image_name, line.contour])
    return str(uuid.uuid5(_GUID_NAMESPACE, position))


STAGE = LineExtractionStage()
