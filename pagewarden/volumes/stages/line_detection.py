"""Stage 1, in our process: find the original images and write line_detection.parquet.

The children make each page upright, straighten it if the config asks for that, and detect its
lines; see line_detection_child.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pagewarden import concurrency, errors
from pagewarden.ocr import limits
from pagewarden.ocr.sandbox import tasks
from pagewarden.storage.paths import check_path
from pagewarden.volumes import artifact_keys
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
    from collections.abc import Iterable, Sequence

    from pagewarden.volumes import artifacts

_LIMITS = limits.Limits()
_MAX_LINES = 99_999  # of a page; the number of a line is part of the key of its image


@dataclass(frozen=True, slots=True)
class Original:
    """The image of a page in the input bucket, and the name of the page in all artifacts."""

    image_name: str
    entry: artifacts.Entry


class LineDetectionStage:
    """Writes line_detection.parquet and the rotated images of a volume."""

    name = "line_detection"

    async def run(self, stage_input: base.StageInput) -> base.StageResult:
        """Detect the lines of all pages."""
        started_at = time.perf_counter()
        await stage_input.output.prepare()
        originals = await find_originals(stage_input)
        async with process_pool.open_pool(
            stage_input.config, _make_sandbox_task(stage_input)
        ) as pool:
            stamp = parquet.Stamp(
                self.name,
                await digest_originals(stage_input, originals),
                stage_input.config.digest(self.name),
                pool.version,
                len(originals),
            )
            with stage_input.output.scratch(stage_input.token) as scratch:
                table, key = parquet.LINE_DETECTION, stage_input.keys.line_detection
                run = StageRun(stage_input, table, key, stamp, scratch, started_at=started_at)
                if published := await run.find_published():
                    return published
                pages = (self._process(stage_input, pool, original) for original in originals)
                return await run.publish(
                    concurrency.map_in_order(pages, max_concurrency=pool.ahead)
                )

    async def _process(
        self, stage_input: base.StageInput, pool: process_pool.ProcessPool, original: Original
    ) -> PageResult[rows.DetectedPage]:
        try:
            return await _detect(stage_input, pool, original)
        except PAGE_ERRORS as exc:
            error = to_page_error(self.name, exc)
            return make_failed_page(rows.DetectedPage, original.image_name, error, pool.version)


async def _detect(
    stage_input: base.StageInput, pool: process_pool.ProcessPool, original: Original
) -> PageResult[rows.DetectedPage]:
    name, entry = original.image_name, original.entry
    check_path(name)
    check_path(stage_input.keys.line_image(name, _MAX_LINES))
    if entry.size > _LIMITS.file_bytes:
        raise limits.file_too_large_error(name, entry.size, _LIMITS)
    data = await stage_input.input.get(entry.key)
    detected, (image, mask) = await pool.run(
        process_pool.Request(name, child_protocol.DETECTED, _is_consistent, {"name": name}, data)
    )
    key = stage_input.keys.rotated_image(name)
    row = rows.DetectedPage(
        image_name=name,
        rotated_image_path=key,
        rot_mask=mask,
        page_angle=detected.page_angle,
        dewarping_applied=detected.tps_points is not None,
        tps_ratio=detected.tps_ratio,
        filtered_contours=detected.contours,
        confidence=_compute_mean(detected.confidences),
        model_version=pool.version,
        contour_confidences=detected.confidences,
        tps_points=detected.tps_points,
        width=detected.width,
        height=detected.height,
        dpi=detected.dpi,
        scaled_width=detected.scaled_width,
        scaled_height=detected.scaled_height,
        rotated_width=detected.rotated_width,
        rotated_height=detected.rotated_height,
        rotated_image_sha256=publish.compute_sha256(image),
        source_path=entry.key,
        source_version=entry.etag.strip('"') if entry.etag else publish.compute_sha256(data),
    )
    counts = {"lines": len(detected.contours), "dewarped": int(detected.tps_points is not None)}
    return PageResult([row], {key: image}, counts)


def _make_sandbox_task(stage_input: base.StageInput) -> tasks.SandboxTask:
    options = {
        "use_tps": stage_input.config.use_tps,
        "tps_ratio": stage_input.config.tps_ratio,
        **base.make_model_options(stage_input.model),
    }
    return tasks.SandboxTask(
        "pagewarden.volumes.stages.line_detection_child", "LineDetector", options
    )


def _is_consistent(detected: child_protocol.DetectedLines, files: list[bytes]) -> bool:
    return len(files) == 2 and len(detected.contours) == len(detected.confidences)


def _compute_mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


async def find_originals(stage_input: base.StageInput) -> list[Original]:
    """Find the images of the volume in page order; raise FileNotFound if there are none."""
    folder = artifact_keys.get_originals_folder(stage_input.w_id, stage_input.i_id)
    entries = [
        entry async for entry in stage_input.input.list(folder) if artifact_keys.is_image(entry.key)
    ]
    if not entries:
        raise errors.FileNotFound(
            f"no images for the volume in {stage_input.input.address}/{folder}; upload them, or "
            "check the volume IDs"
        )
    names = _make_image_names(PurePosixPath(entry.key).relative_to(folder) for entry in entries)
    originals = [Original(name, entry) for name, entry in zip(names, entries, strict=True)]
    return sorted(originals, key=lambda original: artifact_keys.page_sort_key(original.image_name))


async def digest_originals(stage_input: base.StageInput, originals: Sequence[Original]) -> str:
    """Return a digest of all images; images without an ETag are read for it."""
    digest = hashlib.sha256()
    for original in originals:
        version = await _get_version(stage_input.input, original.entry)
        digest.update(f"{original.image_name}\0{original.entry.key}\0{version}\n".encode())
    return digest.hexdigest()


async def _get_version(bucket: artifacts.Bucket, entry: artifacts.Entry) -> str:
    """Return the ETag of a file or else its digest; an empty string if it cannot be read."""
    if entry.etag is not None:
        return entry.etag.strip('"')
    try:
        return await bucket.digest(entry.key)
    except (errors.FileNotFound, errors.UnsafePath):  # its page will fail with this error
        return ""


def _make_image_names(paths: Iterable[PurePosixPath]) -> list[str]:
    """Remove the suffixes, except where two pages would then have the same name."""
    full_names = [path.as_posix() for path in paths]
    stems = [name.removesuffix(PurePosixPath(name).suffix) for name in full_names]
    uses = Counter([*full_names, *stems])
    return [full if uses[stem] > 1 else stem for full, stem in zip(full_names, stems, strict=True)]


STAGE = LineDetectionStage()
