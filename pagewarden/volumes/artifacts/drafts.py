"""What a stage makes, until it is complete: then it is published, the Parquet file last.

Images are named by the Parquet file with the digest of each, so nobody takes images of one run for
those of another. While images are replaced, the old Parquet file does not fit them; whoever is
stopped then leaves nothing that looks whole, and the next run replaces all of it.
"""

from __future__ import annotations

import hashlib
import itertools
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar

from pagewarden import concurrency
from pagewarden.volumes.artifacts import parquet, rows

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from pathlib import Path

    from pagewarden.volumes.artifacts import interface

R = TypeVar("R", bound=rows.Row)

AT_ONCE = 256
"""How many images are published between two questions whether the task is still ours."""

_AHEAD = 16  # images on their way into the bucket
_NO_IMAGES: Mapping[str, bytes] = MappingProxyType({})


class Draft(Generic[R]):
    """A Parquet file and the images it names, in a scratch folder of their bucket."""

    def __init__(self, scratch: Path, table: parquet.Table[R], stamp: parquet.Stamp) -> None:
        self._scratch = scratch
        self._path = scratch / table.name
        self._writer = parquet.Writer(self._path, table, stamp)
        # On disk, as there are tens of images for each page.
        self._keys = scratch / "keys"
        self._keys.touch()
        self._images = 0

    async def add(self, found: Iterable[R], images: Mapping[str, bytes] = _NO_IMAGES) -> None:
        """Take rows, and images by the keys under which they are to be published."""
        await concurrency.run_in_thread(self._add, found, images)

    async def publish(
        self, bucket: interface.Bucket, key: str, allowed: Callable[[], Awaitable[None]]
    ) -> None:
        """Let the images appear, and then the file; allowed raises when it is not ours any more."""
        await concurrency.run_in_thread(self._writer.close)
        with self._keys.open(encoding="utf-8") as file:
            images = enumerate(line.removesuffix("\n") for line in file)
            while some := list(itertools.islice(images, AT_ONCE)):
                await allowed()
                moves = (bucket.publish(self._image(number), its) for number, its in some)
                async for _ in concurrency.map_in_order(moves, ahead=_AHEAD):
                    pass
        await allowed()
        await bucket.publish(self._path, key)

    def _add(self, found: Iterable[R], images: Mapping[str, bytes]) -> None:
        with self._keys.open("a", encoding="utf-8") as keys:
            for key, data in images.items():
                self._image(self._images).write_bytes(data)
                keys.write(f"{key}\n")
                self._images += 1
        for row in found:
            self._writer.add(row)

    def _image(self, number: int) -> Path:
        return self._scratch / f"{number}.jpg"


def digest(data: bytes) -> str:
    """Name a file by its SHA-256."""
    return hashlib.sha256(data).hexdigest()
