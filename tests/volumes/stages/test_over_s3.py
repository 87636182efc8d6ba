"""The same stages over S3: the same artifacts under the same keys."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors
from pagewarden.volumes import artifacts, stages
from tests.storage import s3_server
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path


async def fill(bucket: artifacts.Bucket, book: books.Book) -> None:
    """Upload the originals."""
    with bucket.scratch("me") as scratch:
        for path in book.originals.iterdir():
            made = scratch / path.name
            made.write_bytes(path.read_bytes())
            await bucket.publish(made, f"{books.W_ID}-{books.I_ID}/{path.name}")


async def test_a_volume_over_s3_is_the_volume_of_a_folder(
    moto: s3_server.S3Server, finished: books.Book, tmp_path: Path
) -> None:
    """But for the versions of its originals, which are ETags there."""
    moto.reset()
    names = [f"{kind}-{uuid.uuid4().hex}" for kind in ("images", "output")]
    for name in names:
        moto.make_bucket(name)
    chosen = books.of_s3(moto)
    async with (
        artifacts.open_bucket(f"s3://{names[0]}", chosen) as originals,
        artifacts.open_bucket(f"s3://{names[1]}", chosen) as output,
    ):
        await fill(originals, finished)
        for _ in range(2):
            done = await finished.run(*stages.STAGES, input=originals, output=output)
        assert done.metrics["total_lines"] == 6
        keys = {entry.key async for entry in output.list("jobs")}
        assert keys == set(finished.digests())
        images = {key for key in keys if key.endswith(".jpg")}
        for key in images:
            assert await output.get(key) == (finished.root / "output" / key).read_bytes()
        await output.fetch(finished.work().keys.ocr_results, tmp_path / "fetched")
    uploads = [request for request in moto.requests if request.startswith("PUT")]
    of_artifacts = [
        request for request in uploads if names[1] in request and "?uploads" not in request
    ]
    # The second time everything was skipped, and nothing is ever uploaded twice.
    assert len(of_artifacts) == len(keys) + 1


async def test_an_upload_that_fails_publishes_no_parquet_file(
    moto: s3_server.S3Server, finished: books.Book
) -> None:
    """The images that got through belong to nothing."""
    moto.reset()
    names = [f"{kind}-{uuid.uuid4().hex}" for kind in ("images", "output")]
    for name in names:
        moto.make_bucket(name)
    chosen = books.of_s3(moto)
    async with (
        artifacts.open_bucket(f"s3://{names[0]}", chosen) as originals,
        artifacts.open_bucket(f"s3://{names[1]}", chosen) as output,
    ):
        await fill(originals, finished)
        moto.faults.append(s3_server.Fault("PUT .*page3", 403))
        with pytest.raises(errors.StoreCredentialsRejected) as caught:
            await finished.run("line_detection", input=originals, output=output)
        assert caught.value.outage
        assert not [e.key async for e in output.list("jobs") if e.key.endswith(".parquet")]
