"""Publish the images and the Parquet file of a stage; fetch and verify published ones.

A Draft collects the files until the stage is complete; then it publishes the images first and the
Parquet file last. The Parquet file has the digest of each image, so images of different runs are
never mixed up. If publishing is interrupted, the old Parquet file does not match the new images:
the artifacts are recognised as incomplete, and the next run replaces all of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar

from pagewarden import concurrency, errors
from pagewarden.volumes.artifacts import parquet, rows

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
    from pathlib import Path

    from pagewarden.volumes.artifacts import base

R = TypeVar("R", bound=rows.Row)

IMAGES_PER_CHECK = 256
"""Number of images published between lock checks."""

_CONCURRENT_UPLOADS = 16
_NO_IMAGES: Mapping[str, bytes] = MappingProxyType({})


class ArtifactDraft(Generic[R]):
    """A Parquet file and the images it names, in a scratch folder of their bucket."""

    def __init__(self, scratch: Path, table: parquet.Table[R], stamp: parquet.Stamp) -> None:
        self._scratch = scratch
        self._path = scratch / table.name
        self._writer = parquet.ParquetWriter(self._path, table, stamp)
        # In a file, not in memory: each page has dozens of images.
        self._keys = scratch / "keys"
        self._keys.touch()
        self._image_count = 0

    async def add(self, rows_to_add: Iterable[R], images: Mapping[str, bytes] = _NO_IMAGES) -> None:
        """Add rows, and images by the keys under which to publish them."""
        await concurrency.run_in_thread(self._add, rows_to_add, images)

    async def publish(
        self, bucket: base.Bucket, key: str, require_lock: Callable[[], Awaitable[None]]
    ) -> None:
        """Publish the images, then the Parquet file; require_lock raises if the lock is lost."""
        await concurrency.run_in_thread(self._writer.close)
        with self._keys.open(encoding="utf-8") as file:
            images = enumerate(line.removesuffix("\n") for line in file)
            while batch := list(itertools.islice(images, IMAGES_PER_CHECK)):
                await require_lock()
                uploads = (
                    bucket.publish(self._get_image_path(number), image_key)
                    for number, image_key in batch
                )
                async for _ in concurrency.map_in_order(
                    uploads, max_concurrency=_CONCURRENT_UPLOADS
                ):
                    pass
        await require_lock()
        await bucket.publish(self._path, key)

    def _add(self, new_rows: Iterable[R], images: Mapping[str, bytes]) -> None:
        with self._keys.open("a", encoding="utf-8") as keys:
            for key, data in images.items():
                self._get_image_path(self._image_count).write_bytes(data)
                keys.write(f"{key}\n")
                self._image_count += 1
        for row in new_rows:
            self._writer.add(row)

    def _get_image_path(self, number: int) -> Path:
        return self._scratch / f"{number}.jpg"


def compute_sha256(data: bytes) -> str:
    """Return the SHA-256 as a hexadecimal string."""
    return hashlib.sha256(data).hexdigest()


@contextlib.asynccontextmanager
async def open_parquet(
    bucket: base.Bucket, table: parquet.Table[R], key: str, scratch: Path
) -> AsyncGenerator[parquet.Reader[R]]:
    """Open a snapshot of a Parquet file, which later publications do not change."""
    path = scratch / compute_sha256(key.encode())
    try:
        await bucket.fetch(key, path)
    except errors.FileNotFound as exc:
        raise errors.FileNotFound(f"there is no {key}; run the stage that creates it") from exc
    with parquet.Reader(path, table, key) as reader:
        yield reader


async def fetch_image(
    bucket: base.Bucket, image: rows.StoredImage | None, source_key: str
) -> bytes:
    """Return an image; raise InvalidArtifact if it does not match the file that names it."""
    if image is None:
        raise _make_inconsistent_error(source_key, "a row has no image")
    try:
        data = await bucket.get(image.key)
    except errors.FileNotFound as exc:
        raise _make_inconsistent_error(source_key, f"its image {image.key} is missing") from exc
    if compute_sha256(data) != image.sha256:
        raise _make_inconsistent_error(source_key, f"its image {image.key} is from another run")
    return data


def _make_inconsistent_error(key: str, reason: str) -> errors.InvalidArtifact:
    return errors.InvalidArtifact(f"{key}: {reason}. Rerun the stage that creates these files.")
