"""The page images of a volume, in the order of their names."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.volumes import layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pagewarden.volumes import artifacts
    from pagewarden.volumes.stages import interface


@dataclass(frozen=True, slots=True)
class Original:
    """A page: what it is called in all artifacts, and the file it is in."""

    image_name: str
    entry: artifacts.Entry


async def find(work: interface.Work) -> list[Original]:
    """Look for the pages of the volume; FileNotThere if it has none."""
    folder = layout.originals(work.w_id, work.i_id)
    entries = [entry async for entry in work.input.list(folder) if layout.is_image(entry.key)]
    if not entries:
        raise errors.FileNotThere(
            f"there are no images of the volume in {work.input.address}/{folder}; put them there, "
            "or see to the ids of the volume"
        )
    named = _named(PurePosixPath(entry.key).relative_to(folder) for entry in entries)
    found = [Original(name, entry) for name, entry in zip(named, entries, strict=True)]
    return sorted(found, key=lambda original: layout.page_order(original.image_name))


async def digest(work: interface.Work, originals: Sequence[Original]) -> str:
    """Name what is in all of them; where the bucket has no ETags each is read for it."""
    whole = hashlib.sha256()
    for original in originals:
        version = await version_of(work.input, original.entry)
        whole.update(f"{original.image_name}\0{original.entry.key}\0{version}\n".encode())
    return whole.hexdigest()


async def version_of(bucket: artifacts.Bucket, entry: artifacts.Entry) -> str:
    """Name what is in a file, by its ETag or its digest; nothing, if it cannot be had."""
    if entry.etag is not None:
        return entry.etag.strip('"')
    try:
        return await bucket.digest(entry.key)
    except (errors.FileNotThere, errors.UnsafePath):  # its page will tell
        return ""


def _named(paths: Iterable[PurePosixPath]) -> list[str]:
    """Leave out the suffixes, but where a name would then be that of another page, too."""
    whole = [path.as_posix() for path in paths]
    bare = [name.removesuffix(PurePosixPath(name).suffix) for name in whole]
    taken = Counter([*whole, *bare])
    return [full if taken[short] > 1 else short for full, short in zip(whole, bare, strict=True)]
