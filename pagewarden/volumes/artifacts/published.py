"""What stages have published, as others use it: all of it is checked, none of it is believed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeVar

from pagewarden import errors
from pagewarden.volumes.artifacts import drafts, parquet, rows

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from pagewarden.volumes.artifacts import interface

R = TypeVar("R", bound=rows.Row)


@contextlib.asynccontextmanager
async def opened(
    bucket: interface.Bucket, table: parquet.Table[R], key: str, scratch: Path
) -> AsyncGenerator[parquet.Reader[R]]:
    """Open a Parquet file as it is now, whatever is published meanwhile."""
    path = scratch / drafts.digest(key.encode())
    try:
        await bucket.fetch(key, path)
    except errors.FileNotThere as exc:
        raise errors.FileNotThere(f"{key} is not there; run the stage that makes it") from exc
    with parquet.Reader(path, table, key) as reader:
        yield reader


async def fetch_image(bucket: interface.Bucket, image: rows.Image | None, named_by: str) -> bytes:
    """Get an image as it was when the file that names it was made; ArtifactUnusable otherwise."""
    if image is None:
        raise _unfit(named_by, "a row of it names no image")
    try:
        data = await bucket.get(image.key)
    except errors.FileNotThere as exc:
        raise _unfit(named_by, f"{image.key}, which it names, is not there") from exc
    if drafts.digest(data) != image.sha256:
        raise _unfit(named_by, f"{image.key}, which it names, is of another run")
    return data


def _unfit(key: str, why: str) -> errors.ArtifactUnusable:
    return errors.ArtifactUnusable(f"{key}: {why}. Run the stage again that makes them.")
