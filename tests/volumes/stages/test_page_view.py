"""Looking at a volume: of its files only what is shown is read, from a folder or over S3."""

from __future__ import annotations

import dataclasses
import uuid
from typing import TYPE_CHECKING

import pytest
from pyarrow import compute  # type: ignore[import-untyped]  # it ships no types
from pyarrow import parquet as pq

from pagewarden import errors
from pagewarden.storage import file_cache
from pagewarden.volumes import artifact_keys, artifacts, page_view
from pagewarden.volumes.artifacts import parquet, rows
from tests.storage import s3_server
from tests.volumes.stages import books

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STAMP = parquet.Stamp("line_detection", "input", "config", "model", 200)


async def _uploaded(book: books.Book, output: artifacts.Bucket) -> None:
    with output.scratch("me") as scratch:
        for key in book.digests():
            made = scratch / "made"
            made.write_bytes((book.root / "output" / key).read_bytes())
            await output.publish(made, key)


async def test_pages_are_looked_at_over_s3(
    moto: s3_server.S3Server, finished: books.Book, tmp_path: Path
) -> None:
    """Files are fetched once for each version; a bucket that is away or not there is told."""
    moto.reset()
    name = f"output-{uuid.uuid4().hex}"
    moto.make_bucket(name)
    chosen, keys = books.of_s3(moto), finished.work().keys
    first, second, third = (artifact_keys.VolumeVersion(keys, version) for version in "123")
    files = file_cache.FileCache(tmp_path, max_bytes=10**8, seconds=60)
    async with artifacts.open_bucket(f"s3://{name}/some/where", chosen) as bucket:
        await _uploaded(finished, bucket)
        looked = page_view.VolumeReader(bucket, files)
        pages = await looked.list_pages(first)
        assert [(page.number, page.image_name, page.error) for page in pages] == [
            (1, "page1", None), (2, "page2", None), (3, "page3", None),
        ]  # fmt: skip
        page = await looked.read_page(first, "page2")
        assert page is not None
        assert [line.text for line in page.lines] == books.text_of(
            row for row in finished.texts() if row.image_name == "page2"
        )
        asked = len(moto.requests)
        assert (await looked.count_lines(first, ["page3"]))["page3"].lines == 2
        assert await looked.read_page(first, "../page2") is None
        assert await looked.fetch_rotated_image(first, "page9") is None
        assert len(moto.requests) == asked
        rotated = finished.artifacts / "line_detection" / "rotated_images" / "page2.jpg"
        assert await looked.fetch_rotated_image(first, "page2") == rotated.read_bytes()
        asked = len(moto.requests)
        await looked.list_pages(second)
        assert len(moto.requests) > asked
        moto.faults.append(s3_server.Fault("GET .*line_detection", "wait"))
        hasty = page_view.VolumeReader(bucket, files, timeout_seconds=0.2)
        for look in (hasty.list_pages(third), hasty.fetch_rotated_image(second, "page1")):
            with pytest.raises(errors.StoreUnavailable, match="is not responding"):
                await look
        moto.go_on.set()
        moto.faults.clear()
    async with artifacts.open_bucket("s3://no-such-bucket", chosen) as bucket:
        with pytest.raises(errors.StoreMisconfigured, match="no-such-bucket"):
            await page_view.VolumeReader(bucket, files).list_pages(third)


async def test_files_are_downloaded_over_s3(
    moto: s3_server.S3Server, finished: books.Book, tmp_path: Path
) -> None:
    """Only those of the fixed set that are there, fetched once; a bucket that is away is told."""
    moto.reset()
    name = f"output-{uuid.uuid4().hex}"
    moto.make_bucket(name)
    keys, files = finished.work().keys, file_cache.FileCache(tmp_path, max_bytes=10**8, seconds=60)
    first, second = (artifact_keys.VolumeVersion(keys, version) for version in "12")
    async with artifacts.open_bucket(f"s3://{name}/some/where", books.of_s3(moto)) as bucket:
        await _uploaded(finished, bucket)
        with bucket.scratch("me") as scratch:
            for key in (keys.export(".txt"), f"{keys.folder}/reduce/other.txt"):
                (scratch / "made").write_bytes(b"text")
                await bucket.publish(scratch / "made", key)
        looked = page_view.VolumeReader(bucket, files)
        sizes = {found.file.name: found.size for found in await looked.list_files(first)}
        texts = (finished.root / "output" / keys.ocr_results).read_bytes()
        assert list(sizes) == [
            f"{keys.name}_line_detection.parquet", f"{keys.name}_line_images.parquet",
            f"{keys.name}_ocr_results.parquet", f"{keys.name}.txt",
        ]  # fmt: skip
        assert sizes[f"{keys.name}_ocr_results.parquet"] == len(texts)
        assert sizes[f"{keys.name}.txt"] == 4
        asked = len(moto.requests)
        async with looked.open_file(first, f"{keys.name}_ocr_results.parquet") as copy:
            assert copy.path.read_bytes() == texts
        assert len(moto.requests) == asked
        for wrong in ("other.txt", "", keys.ocr_results, "../reduce/other.txt"):
            with pytest.raises(errors.FileNotFound):
                await looked.open_file(first, wrong).__aenter__()
        moto.faults.append(s3_server.Fault("GET .*", "wait"))
        hasty = page_view.VolumeReader(bucket, files, timeout_seconds=0.2)
        with pytest.raises(errors.StoreUnavailable, match="is not responding"):
            await hasty.list_files(second)
        moto.go_on.set()
        moto.faults.clear()


async def test_what_combine_has_made_is_looked_at_while_it_fits(copied: books.Book) -> None:
    """A page that only another job could read is there, and each line says whose it is."""
    keys, output = copied.work().keys, copied.root / "output"
    other = keys.ocr_results.replace(copied.job_key, "other")
    (output / other).parent.mkdir(parents=True)
    (output / other).write_bytes((output / keys.ocr_results).read_bytes())
    _change(copied, lambda row: {"ok": row.image_name != "page2"})
    await copied.with_config(reducer="combine", sources=[other]).run("reduce")

    def looked(*, combined: bool) -> tuple[list[str], list[tuple[str | None, int | None]]]:
        detected, lines = output / keys.line_detection, output / keys.line_images
        made = output / keys.combined if combined else None
        files = page_view.VolumeFiles(keys, detected, lines, output / keys.ocr_results, made)
        failed = [page.image_name for page in page_view.list_pages(files) if page.error]
        seen = [page_view.read_page(files, name) for name in ("page1", "page2")]
        whose = [(line.source, line.agreeing) for page in seen if page for line in page.lines]
        return failed, whose

    of_nobody: tuple[None, None] = (None, None)
    assert looked(combined=True) == ([], [(keys.ocr_results, 2)] * 2 + [(other, 1)] * 2)
    assert looked(combined=False) == (["page2"], [of_nobody] * 4)
    _change(copied, lambda _: {"model_version": "newer"})
    assert looked(combined=True) == (["page2"], [of_nobody] * 4)


def _change(book: books.Book, change: Callable[[rows.LineText], dict[str, object]]) -> None:
    """Publish other texts of the same lines."""
    path = book.artifacts / "ocr" / parquet.OCR_RESULTS.name
    with parquet.Reader(path, parquet.OCR_RESULTS, "texts") as reader:
        stamp, found = reader.stamp, list(reader)
    path.unlink()
    writer = parquet.ParquetWriter(path, parquet.OCR_RESULTS, stamp)
    for row in found:
        writer.add(dataclasses.replace(row, **change(row)))  # type: ignore[arg-type]  # any column
    writer.close()


def test_groups_of_rows_that_are_not_wanted_are_not_read(tmp_path: Path) -> None:
    """So one may be broken, and the others can be looked at all the same."""
    path = tmp_path / "line_detection.parquet"
    writer = parquet.ParquetWriter(path, parquet.LINE_DETECTION, STAMP)
    for number in range(200):
        writer.add(rows.DetectedPage(image_name=f"page{number:03}", width=number))
    writer.close()
    second = pq.ParquetFile(path).metadata.row_group(1)
    begin = second.column(0).dictionary_page_offset or second.column(0).data_page_offset
    data = bytearray(path.read_bytes())
    data[begin : begin + 200] = bytes(200)
    path.write_bytes(data)
    with parquet.Reader(path, parquet.LINE_DETECTION, "key") as reader:
        wanted = compute.field("image_name").isin(["page003", "page199"])
        found = [
            (row.image_name, row.width)
            for row in reader.select("image_name", "width", where=wanted)
        ]
        assert found == [("page003", 3), ("page199", 199)]
        with pytest.raises(errors.InvalidArtifact):
            list(reader.select("image_name"))
