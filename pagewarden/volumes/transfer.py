"""Copy page images of a local folder into the input bucket, and artifacts out of the output bucket.

For people and tests; stages read and publish through artifacts.publish.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagewarden import errors
from pagewarden.storage import paths
from pagewarden.volumes import artifact_keys, exports
from pagewarden.volumes.artifacts import parquet, publish

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from pagewarden.volumes import artifacts
    from pagewarden.volumes.jobs import VolumeName

_MAX_LISTED_NAMES = 5  # in an error message


def find_images(folder: Path) -> Mapping[str, Path]:
    """Find the page images in a folder and below it, by the names they will have."""
    images = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(parent, name) for name in names if not name.startswith(".")):
            # Files of a Mac have decomposed names.
            name = unicodedata.normalize("NFC", path.relative_to(folder).as_posix())
            if artifact_keys.is_image(name) and path.is_file():
                paths.check_path(name)
                images[name] = path
    if not images:
        raise errors.LocalFileError(f"{folder} has no images; a volume needs one for each page")
    return dict(sorted(images.items()))


async def upload_images(
    folder: Path, bucket: artifacts.Bucket, name: VolumeName, progress: Callable[[int, int], None]
) -> int:
    """Copy the images of a folder to where workers look for the volume; return their number.

    If the bucket has images of the volume that the folder lacks, nothing is copied, because they
    would become pages too.
    """
    images = await asyncio.to_thread(find_images, folder)
    await bucket.prepare()
    originals = artifact_keys.get_originals_folder(name.w_id, name.i_id)
    await _require_no_other_images(bucket, originals, images)
    with bucket.scratch(str(name)) as scratch:
        for number, (key, image) in enumerate(images.items(), 1):
            copy = scratch / str(number)
            await asyncio.to_thread(shutil.copyfile, image, copy)
            await bucket.publish(copy, f"{name}/{key}")
            progress(number, len(images))
    return len(images)


async def _require_no_other_images(
    bucket: artifacts.Bucket, folder: str, images: Mapping[str, Path]
) -> None:
    others = [
        name
        async for entry in bucket.list(folder)
        if artifact_keys.is_image(name := entry.key.removeprefix(f"{folder}/"))
        and name not in images
    ]
    if others:
        names = ", ".join(sorted(others)[:_MAX_LISTED_NAMES])
        more = len(others) - _MAX_LISTED_NAMES
        raise errors.LocalFileError(
            f"{bucket.address}/{folder} contains images that are not in the folder: {names}"
            f"{f' and {more} more' if more > 0 else ''}. They would become pages of the volume: "
            "remove them from the bucket, or rename the folder"
        )


async def download_artifacts(
    bucket: artifacts.Bucket,
    keys: artifact_keys.VolumeKeys,
    config: Mapping[str, Any],
    folder: Path,
    *,
    with_images: bool,
) -> int:
    """Copy the artifacts of a volume into a local folder; return the number of files.

    Files of earlier runs that no current file names are not copied.
    """
    count = 0
    with bucket.scratch(keys.name) as scratch:
        files = _fetch_files(bucket, keys, config, scratch, with_images=with_images)
        async with contextlib.aclosing(files):
            async for key, path in files:
                inner = paths.check_path(key.removeprefix(f"{keys.folder}/"))
                await asyncio.to_thread(_copy, path, folder.joinpath(keys.name, *inner))
                count += 1
    return count


async def _fetch_files(
    bucket: artifacts.Bucket,
    keys: artifact_keys.VolumeKeys,
    config: Mapping[str, Any],
    scratch: Path,
    *,
    with_images: bool,
) -> AsyncGenerator[tuple[str, Path]]:
    """Fetch one file after another; the next one overwrites the last."""
    path = scratch / "file"
    for file in exports.list_job_files(keys, config):
        try:
            await bucket.fetch(file.key, path)
        except errors.FileNotFound:
            continue
        yield file.key, path
    if not with_images:
        return
    tables: Sequence[tuple[parquet.Table[Any], str]] = (
        (parquet.LINE_DETECTION, keys.line_detection),
        (parquet.LINE_IMAGES, keys.line_images),
    )
    for table, key in tables:
        async with publish.open_parquet(bucket, table, key, scratch) as rows:
            for image in (row.image for row in rows if row.image):
                path.unlink(missing_ok=True)
                path.write_bytes(await publish.fetch_image(bucket, image, key))
                yield image.key, path


def _copy(source: Path, target: Path) -> None:
    """Copy instead of link, so that changes of the copy do not affect the bucket."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
