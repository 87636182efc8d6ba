"""Second stage: lines are cut out of their pages, in reading order."""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING

from pagewarden import concurrency
from pagewarden.reading import scripts
from pagewarden.reading.sandbox import duties
from pagewarden.volumes import crew
from pagewarden.volumes.artifacts import drafts, parquet, published, rows
from pagewarden.volumes.children import answers
from pagewarden.volumes.stages import models, runs, sandboxes

if TYPE_CHECKING:
    from pagewarden.volumes import config as configs
    from pagewarden.volumes.stages import interface

# Made once at random: ids of lines are the same in every run that finds the same lines.
_NAMESPACE = uuid.UUID("5f0f7a52-3c1b-4a6e-9d0d-8f5f3f0f6c11")


class LineExtraction:
    """Makes line_images.parquet and the pictures of the lines of a volume."""

    name = "line_extraction"

    async def run(self, work: interface.Work) -> interface.Done:
        """Go through all pages."""
        began = time.perf_counter()
        models.refuse(work.model, self.name)
        await work.output.prepare()
        with work.output.scratch(work.token) as scratch:
            key = work.keys.line_detection
            async with (
                published.opened(work.output, parquet.LINE_DETECTION, key, scratch) as pages,
                sandboxes.opened(work.config, _duty(work.config)) as sandbox,
            ):
                stamp = parquet.Stamp(
                    self.name,
                    pages.digest,
                    work.config.digest(self.name),
                    sandbox.version,
                    pages.stamp.pages,
                )
                table, key = parquet.LINE_IMAGES, work.keys.line_images
                run = runs.Run(work, table, key, stamp, scratch, began=began)
                if done := await run.repeated():
                    return done
                works = (self._page(work, sandbox, page) for page in pages)
                return await run.make(concurrency.map_in_order(works, ahead=sandbox.ahead))

    async def _page(
        self, work: interface.Work, sandbox: sandboxes.Sandbox, page: rows.DetectedPage
    ) -> runs.Made[rows.LineImage]:
        trouble = page.trouble
        if trouble is None:
            try:
                return await self._extract(work, sandbox, page)
            except runs.PAGE_ERRORS as exc:
                trouble = runs.trouble_of(self.name, exc)
        return runs.failed(rows.LineImage, page.image_name, trouble, sandbox.version)

    async def _extract(
        self, work: interface.Work, sandbox: sandboxes.Sandbox, page: rows.DetectedPage
    ) -> runs.Made[rows.LineImage]:
        if not page.filtered_contours:
            return runs.Made([])
        image = await published.fetch_image(work.output, page.image, work.keys.line_detection)
        message = {
            "name": page.image_name,
            "contours": page.filtered_contours,
            "confidences": page.contour_confidences,
        }
        request = crew.Request(page.image_name, answers.LINES, _fits, message, image)
        lines, pictures = await sandbox.crew.do(request)
        made = [
            _row(work, page.image_name, index, line, picture)
            for index, (line, picture) in enumerate(zip(lines, pictures, strict=True))
        ]
        keys = [row.line_image_path or "" for row in made]
        return runs.Made(made, dict(zip(keys, pictures, strict=True)), {"lines": len(made)})


def _duty(config: configs.Config) -> duties.Duty:
    options = {
        "k_factor": config.k_factor,
        "bbox_tolerance": config.bbox_tolerance,
        "merge_lines": config.merge_lines,
        "masked": config.line_mode == "masked",
        "right_to_left": scripts.runs_right_to_left(config.languages),
    }
    return duties.Duty("pagewarden.volumes.children.extraction", "Extraction", options)


def _fits(lines: list[answers.Line], pictures: list[bytes]) -> bool:
    return len(lines) == len(pictures) and all(line.contour for line in lines)


def _row(
    work: interface.Work, image_name: str, index: int, line: answers.Line, picture: bytes
) -> rows.LineImage:
    xs, ys = zip(*line.contour, strict=True)
    left, top, right, bottom = min(xs), min(ys), max(xs), max(ys)
    return rows.LineImage(
        image_name=image_name,
        line_index=index,
        line_image_path=work.keys.line_image(image_name, index),
        line_guid=_guid(work, image_name, line),
        bbox_x=left,
        bbox_y=top,
        bbox_w=right - left + 1,
        bbox_h=bottom - top + 1,
        center_x=(left + right) // 2,
        center_y=(top + bottom) // 2,
        contour=line.contour,
        confidence=line.confidence,
        model_version=sandboxes.SOFTWARE,
        corners=line.corners,
        block=line.block,
        line_image_sha256=drafts.digest(picture),
    )


def _guid(work: interface.Work, image_name: str, line: answers.Line) -> str:
    """Name a line by where it is, whichever job and whichever run has found it."""
    place = json.dumps([work.w_id, work.i_id, image_name, line.contour])
    return str(uuid.uuid5(_NAMESPACE, place))


STAGE = LineExtraction()
