"""Line extraction: lines cut out in reading order, from artifacts that fit together."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from pagewarden import errors
from pagewarden.ocr import limits
from pagewarden.ocr.engines import fakes
from pagewarden.ocr.images import pixels
from pagewarden.ocr.sandbox import tasks
from pagewarden.volumes.artifacts import parquet, publish
from pagewarden.volumes.stages import child_protocol, line_extraction_child
from tests.ocr import printed
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from pagewarden.volumes.artifacts import rows

STAGE = "line_extraction"


def size(book: books.Book, line: rows.LineImage) -> tuple[int, int]:
    """Measure the picture of a line."""
    with Image.open(book.root / "output" / (line.line_image_path or "")) as image:
        return image.size


async def extracted(copied: books.Book, **given: Any) -> list[rows.LineImage]:
    """Extract with another config."""
    await copied.with_config(**given).run(STAGE)
    return copied.lines()


async def test_lines_are_numbered_in_reading_order_and_can_be_rebuilt(
    finished: books.Book,
) -> None:
    """Box, centre and contour are on the rotated image, the picture is beside."""
    lines = finished.lines()
    numbered = [(line.image_name, line.line_index) for line in lines]
    assert numbered == [(f"page{page}", index) for page in (1, 2, 3) for index in (0, 1)]
    contours = [contour for page in finished.detected() for contour in page.filtered_contours]
    for line in lines:
        assert line.contour in contours
        xs, ys = zip(*(line.contour or []), strict=True)
        assert (line.bbox_x, line.bbox_y) == (min(xs), min(ys))
        assert (line.bbox_w, line.bbox_h) == (max(xs) - min(xs) + 1, max(ys) - min(ys) + 1)
        assert min(xs) <= (line.center_x or 0) <= max(xs)
        assert min(ys) <= (line.center_y or 0) <= max(ys)
        width, height = size(finished, line)
        assert width > 5 * height
        assert line.block is not None
    assert len({uuid.UUID(line.line_guid or "") for line in lines}) == len(lines)


async def test_columns_are_read_one_after_the_other(tmp_path: Path) -> None:
    """Line by line would mix them."""
    left, right = (printed.page(text, size=28).pixels for text in (printed.ENGLISH, printed.GERMAN))
    page = np.full((left.shape[0], left.shape[1] + right.shape[1]), 240, np.uint8)
    page[:, : left.shape[1]] = left
    page[:, left.shape[1] :] = right
    book = books.Book(tmp_path)
    book.add_pixels("p.png", page)
    await book.run("line_detection", STAGE)
    centers = [line.center_x or 0 for line in book.lines()]
    assert len(centers) == len(printed.ENGLISH) + len(printed.GERMAN)
    assert [x > left.shape[1] for x in centers] == [False] * 4 + [True] * 4


async def test_k_factor_says_how_much_around_the_core_is_cut_out(copied: books.Book) -> None:
    """Up to what bbox_tolerance allows."""

    def heights(lines: list[rows.LineImage]) -> list[float]:
        return [abs((line.corners or [])[3][1] - (line.corners or [])[0][1]) for line in lines]

    usual = heights(copied.lines())
    high = heights(await extracted(copied, k_factor=3.5))
    capped = heights(await extracted(copied, k_factor=3.5, bbox_tolerance=2.5))
    cores = [line.bbox_h or 0 for line in copied.lines()]
    assert all(more > less * 1.2 for more, less in zip(high, usual, strict=True))
    assert capped == usual
    assert all(height <= 2.5 * core for height, core in zip(capped, cores, strict=True))


async def test_pieces_of_a_line_are_merged_if_asked_for(tmp_path: Path) -> None:
    """A gap that parts them for the detector is one of a few letters."""
    book = books.Book(tmp_path)
    first, second = (printed.page([text], size=30).pixels for text in ("The garden", "was full"))
    page = np.hstack((first[:, :-60], second[:, 60:]))
    book.add_pixels("p.png", page)
    await book.run("line_detection", STAGE)
    parts = book.lines()
    assert len(parts) == 2
    await book.with_config(merge_lines=True).run(STAGE)
    (merged,) = book.lines()
    assert (merged.bbox_x, merged.bbox_w or 0) == (
        min(part.bbox_x or 0 for part in parts),
        max((part.bbox_x or 0) + (part.bbox_w or 0) for part in parts) - (parts[0].bbox_x or 0),
    )


def test_masked_lines_have_nothing_of_their_neighbours() -> None:
    """Here a blot above the lower end of a line that sinks."""
    page = np.full((300, 900), 255, np.uint8)
    page[90:120, 720:850] = 0
    sinking = [[50, 100], [450, 100], [850, 180], [850, 200], [450, 120], [50, 120]]
    assert _darkness(_cut_out(page, sinking, masked=False)) > 0.02
    assert _darkness(_cut_out(page, sinking, masked=True)) == 0


async def test_what_failed_before_is_passed_on(book: books.Book) -> None:
    """So each file knows all pages that failed, and at which stage."""
    (book.originals / "page2.png").write_bytes(b"no image")
    done = await book.with_config(failed_pages_allowed=0.5).run("line_detection", STAGE)
    assert done.failed_pages == 1
    (bad,) = (line for line in book.lines() if not line.ok)
    assert (bad.image_name, bad.line_index, bad.error_stage) == ("page2", None, "line_detection")


async def test_an_image_that_is_missing_is_named(copied: books.Book) -> None:
    """The artifacts are broken, so no page is blamed."""
    before = copied.digests()
    key = "line_detection/rotated_images/page2.jpg"
    (copied.artifacts / key).unlink()
    with pytest.raises(errors.InvalidArtifact, match=f"{key} is missing"):
        await copied.with_config(k_factor=3.0).run(STAGE)
    after = copied.digests()
    assert {name: before[name] for name in after} == after


async def test_an_image_of_another_run_is_named(copied: books.Book) -> None:
    """Results of two owners never mix."""
    images = copied.artifacts / "line_detection" / "rotated_images"
    (images / "page2.jpg").write_bytes((images / "page1.jpg").read_bytes())
    with pytest.raises(errors.InvalidArtifact, match=r"page2.jpg is from another run"):
        await copied.with_config(k_factor=3.0).run(STAGE)


async def test_a_stage_that_was_not_run_is_named(book: books.Book) -> None:
    """It may come yet."""
    with pytest.raises(errors.FileNotFound, match=r"there is no .*line_detection.parquet; run"):
        await book.run(STAGE)


async def test_a_rotated_image_that_is_none_costs_its_page(copied: books.Book) -> None:
    """Whoever wrote it wrote it whole, so it is the page's fault."""
    name = "line_detection/rotated_images/page2.jpg"
    broken = b"\xff\xd8\xff not a picture"
    (copied.artifacts / name).write_bytes(broken)
    _rewrite_digest(copied, "page2", broken)
    done = await copied.with_config(k_factor=3.0, failed_pages_allowed=0.5).run(STAGE)
    assert done.failed_pages == 1
    (bad,) = (line for line in copied.lines() if not line.ok)
    assert (bad.error_stage, bad.error_type) == (STAGE, "DamagedFile")


def _cut_out(page: NDArray[np.uint8], contour: list[list[int]], *, masked: bool) -> bytes:
    worker = line_extraction_child.LineExtractor(
        k_factor=2.5, bbox_tolerance=4.0, merge_lines=False, masked=masked, right_to_left=False
    )
    request = {"name": "p", "contours": [contour], "confidences": [0.9]}
    image = pixels.encode_jpeg(page)
    work = tasks.TaskRequest(request, image, limits.Limits(), fakes.NullEngine())
    _, (picture,) = child_protocol.unpack(child_protocol.LINES, *worker.run(work))
    return picture


def _darkness(picture: bytes) -> float:
    return float((pixels.decode_jpeg_bytes(picture, "line") < 100).mean())


def _rewrite_digest(book: books.Book, name: str, data: bytes) -> None:
    """Name another image in line_detection.parquet, as if a child had made it."""
    path = book.artifacts / "line_detection" / "line_detection.parquet"
    with parquet.Reader(path, parquet.LINE_DETECTION, "") as found:
        stamp, pages = found.stamp, list(found)
    path.unlink()
    writer = parquet.ParquetWriter(path, parquet.LINE_DETECTION, stamp)
    for page in pages:
        changed = replace(page, rotated_image_sha256=publish.compute_sha256(data))
        writer.add(changed if page.image_name == name else page)
    writer.close()
