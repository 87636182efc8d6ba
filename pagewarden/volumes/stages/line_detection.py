"""First stage: pages are set upright and straight, and their lines are found."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pagewarden import concurrency
from pagewarden.files import paths
from pagewarden.reading import limits, trouble
from pagewarden.reading.sandbox import duties
from pagewarden.volumes import crew
from pagewarden.volumes.artifacts import drafts, parquet, rows
from pagewarden.volumes.children import answers
from pagewarden.volumes.stages import models, originals, runs, sandboxes

if TYPE_CHECKING:
    from pagewarden.volumes.stages import interface

_LIMITS = limits.Limits()
_MOST_LINES = 99_999  # of a page: pictures of its lines are named by their numbers, too


class LineDetection:
    """Makes line_detection.parquet and the rotated images of a volume."""

    name = "line_detection"

    async def run(self, work: interface.Work) -> interface.Done:
        """Go through all pages."""
        began = time.perf_counter()
        await work.output.prepare()
        found = await originals.find(work)
        async with sandboxes.opened(work.config, self._duty(work)) as sandbox:
            stamp = parquet.Stamp(
                self.name,
                await originals.digest(work, found),
                work.config.digest(self.name),
                sandbox.version,
                len(found),
            )
            with work.output.scratch(work.token) as scratch:
                table, key = parquet.LINE_DETECTION, work.keys.line_detection
                run = runs.Run(work, table, key, stamp, scratch, began=began)
                if done := await run.repeated():
                    return done
                works = (self._page(work, sandbox, original) for original in found)
                return await run.make(concurrency.map_in_order(works, ahead=sandbox.ahead))

    def _duty(self, work: interface.Work) -> duties.Duty:
        options = {
            "use_tps": work.config.use_tps,
            "tps_ratio": work.config.tps_ratio,
            **models.options(work.model),
        }
        return duties.Duty("pagewarden.volumes.children.detection", "Detection", options)

    async def _page(
        self, work: interface.Work, sandbox: sandboxes.Sandbox, original: originals.Original
    ) -> runs.Made[rows.DetectedPage]:
        try:
            return await self._detect(work, sandbox, original)
        except runs.PAGE_ERRORS as exc:
            problem = runs.trouble_of(self.name, exc)
            name = original.image_name
            return runs.failed(rows.DetectedPage, name, problem, sandbox.version)

    async def _detect(
        self, work: interface.Work, sandbox: sandboxes.Sandbox, original: originals.Original
    ) -> runs.Made[rows.DetectedPage]:
        name, entry = original.image_name, original.entry
        paths.check_path(name)
        paths.check_path(work.keys.line_image(name, _MOST_LINES))
        if entry.size > _LIMITS.file_bytes:
            raise trouble.too_many_bytes(name, entry.size, _LIMITS)
        data = await work.input.get(entry.key)
        request = crew.Request(name, answers.DETECTED, _fits, {"name": name}, data)
        found, (image, mask) = await sandbox.crew.do(request)
        key = work.keys.rotated_image(name)
        row = rows.DetectedPage(
            image_name=name,
            rotated_image_path=key,
            rot_mask=mask,
            page_angle=found.page_angle,
            dewarping_applied=found.tps_points is not None,
            tps_ratio=found.tps_ratio,
            filtered_contours=found.contours,
            confidence=_mean(found.confidences),
            model_version=sandbox.version,
            contour_confidences=found.confidences,
            tps_points=found.tps_points,
            width=found.width,
            height=found.height,
            dpi=found.dpi,
            scaled_width=found.scaled_width,
            scaled_height=found.scaled_height,
            rotated_width=found.rotated_width,
            rotated_height=found.rotated_height,
            rotated_image_sha256=drafts.digest(image),
            source_path=entry.key,
            source_version=entry.etag.strip('"') if entry.etag else drafts.digest(data),
        )
        counts = {"lines": len(found.contours), "dewarped": int(found.tps_points is not None)}
        return runs.Made([row], {key: image}, counts)


def _fits(found: answers.Detected, files: list[bytes]) -> bool:
    return len(files) == 2 and len(found.contours) == len(found.confidences)


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


STAGE = LineDetection()
