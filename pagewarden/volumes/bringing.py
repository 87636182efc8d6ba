"""Page images into the bucket in which workers look for them, and artifacts out of theirs."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pagewarden.volumes import artifacts
    from pagewarden.volumes.jobs import Name

_IMAGES = frozenset({".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".heic", ".bmp", ".gif"})
# Of these there are as many as lines; nobody wants them who does not ask.
_PICTURES = ("line_detection/rotated_images/", "line_extraction/lines/")


def images_of(folder: Path) -> Sequence[Path]:
    """List the page images of a folder; one without any is refused."""
    found = sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in _IMAGES and not path.name.startswith(".")
    )
    if not found:
        raise errors.LocalFileError(f"{folder} has no images; a volume has one for each page")
    return found


async def bring(folder: Path, bucket: artifacts.Bucket, name: Name) -> int:
    """Copy the images of a folder to where workers find those of a volume; count them."""
    images = await asyncio.to_thread(images_of, folder)
    await bucket.prepare()
    with bucket.scratch(str(name)) as scratch:
        for image in images:
            made = scratch / image.name
            await asyncio.to_thread(shutil.copyfile, image, made)
            await bucket.publish(made, f"{name}/{image.name}")
    return len(images)


async def export(
    bucket: artifacts.Bucket, job_key: str, name: Name, folder: Path, *, pictures: bool
) -> int:
    """Copy the artifacts of a volume into a folder of this machine; count the files."""
    root = f"jobs/{job_key}/volumes/{name}/"
    count = 0
    async for entry in bucket.list(root.rstrip("/")):
        inner = entry.key.removeprefix(root)
        if inner.startswith(_PICTURES) and not pictures:
            continue
        target = folder / str(name) / inner
        await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(target.write_bytes, await bucket.get(entry.key))
        count += 1
    return count
