"""Page images into the bucket in which workers look for them, and artifacts out of theirs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagewarden import errors
from pagewarden.files import paths
from pagewarden.volumes import downloads, layout
from pagewarden.volumes.artifacts import parquet, published

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from pagewarden.volumes import artifacts
    from pagewarden.volumes.jobs import Name

_NAMED = 5  # of images that are in the way


def images_of(folder: Path) -> Mapping[str, Path]:
    """Find the page images of a folder and those below it, by the names they will have."""
    found = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(place, name) for name in names if not name.startswith(".")):
            # Files of a Mac have names in another form of Unicode.
            name = unicodedata.normalize("NFC", path.relative_to(folder).as_posix())
            if layout.is_image(name) and path.is_file():
                paths.check_path(name)
                found[name] = path
    if not found:
        raise errors.LocalFileError(f"{folder} has no images; a volume has one for each page")
    return dict(sorted(found.items()))


async def bring(
    folder: Path, bucket: artifacts.Bucket, name: Name, progress: Callable[[int, int], None]
) -> int:
    """Copy the images of a folder to where workers find those of a volume; count them.

    Images that the bucket has of the volume and the folder has not would become pages, too: then
    nothing is copied.
    """
    images = await asyncio.to_thread(images_of, folder)
    await bucket.prepare()
    await _require_no_others(bucket, layout.originals(name.w_id, name.i_id), images)
    with bucket.scratch(str(name)) as scratch:
        for number, (key, image) in enumerate(images.items(), 1):
            made = scratch / str(number)
            await asyncio.to_thread(shutil.copyfile, image, made)
            await bucket.publish(made, f"{name}/{key}")
            progress(number, len(images))
    return len(images)


async def export(
    bucket: artifacts.Bucket,
    keys: layout.Volume,
    config: Mapping[str, Any],
    folder: Path,
    *,
    pictures: bool,
) -> int:
    """Copy what was made of a volume into a folder of this machine; count the files.

    Those that an earlier run left in the bucket, and that no file of today names, stay there.
    """
    count = 0
    with bucket.scratch(keys.name) as scratch:
        files = _files(bucket, keys, config, scratch, pictures=pictures)
        async with contextlib.aclosing(files):
            async for key, made in files:
                inner = paths.check_path(key.removeprefix(f"{keys.folder}/"))
                await asyncio.to_thread(_put, made, folder.joinpath(keys.name, *inner))
                count += 1
    return count


async def _require_no_others(
    bucket: artifacts.Bucket, folder: str, images: Mapping[str, Path]
) -> None:
    others = [
        name
        async for entry in bucket.list(folder)
        if layout.is_image(name := entry.key.removeprefix(f"{folder}/")) and name not in images
    ]
    if others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        raise errors.LocalFileError(
            f"{bucket.address}/{folder} has images that the folder has not: "
            f"{', '.join(sorted(others)[:_NAMED])}{more}. They would be pages of the volume, too: "
            "remove them there, or give the folder another name"
        )


async def _files(
    bucket: artifacts.Bucket,
    keys: layout.Volume,
    config: Mapping[str, Any],
    scratch: Path,
    *,
    pictures: bool,
) -> AsyncGenerator[tuple[str, Path]]:
    """Fetch files one after another; who asks for the next is done with the last."""
    made = scratch / "file"
    for file in downloads.wanted(keys, config):
        try:
            await bucket.fetch(file.key, made)
        except errors.FileNotThere:
            continue
        yield file.key, made
    if not pictures:
        return
    tables: Sequence[tuple[parquet.Table[Any], str]] = (
        (parquet.LINE_DETECTION, keys.line_detection),
        (parquet.LINE_IMAGES, keys.line_images),
    )
    for table, key in tables:
        async with published.opened(bucket, table, key, scratch) as rows:
            for image in (row.image for row in rows if row.image):
                made.unlink(missing_ok=True)
                made.write_bytes(await published.fetch_image(bucket, image, key))
                yield image.key, made


def _put(made: Path, target: Path) -> None:
    """Have a copy that may be changed without changing what is in the bucket."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(made, target)
