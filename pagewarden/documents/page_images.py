"""Page images of stored files, rendered in the sandbox and cached."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pagewarden.ocr import page_image
from pagewarden.storage import file_cache, scratch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pagewarden import concurrency
    from pagewarden.ocr import reader
    from pagewarden.storage.base import FileStore

# Users page through a document: pages share their original, and earlier pages are shown again.
_ORIGINALS_BYTES = 512_000_000
_IMAGES_BYTES = 128_000_000
# Erased documents must soon disappear from the cache, too.
_CACHE_SECONDS = 600.0
_MAX_CONCURRENT = 4


@dataclass(frozen=True, slots=True)
class PageImageRenderer:
    """Renders pages of stored files as JPEG."""

    store: FileStore
    exporter: concurrency.LazyResource[reader.Reader]
    originals: file_cache.FileCache
    images: file_cache.FileCache
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_CONCURRENT))

    async def get(self, path: str, number: int) -> bytes:
        """Return the image of a page of a stored file."""

        async def render(target: Path) -> None:
            await asyncio.to_thread(target.write_bytes, await self._render(path, number))

        async with self.images.get(f"{path}/{number}", render) as file:
            return await asyncio.to_thread(file.read_bytes)

    async def _render(self, path: str, number: int) -> bytes:
        name = path.rpartition("/")[2]
        # Originals are large and are not evicted while in use, so few may be in use at a time.
        async with (
            self.slots,
            self.originals.get(path, lambda target: self.store.fetch(path, target)) as file,
        ):
            return await page_image.draw_page(await self.exporter.get(), file, name, number)


@contextlib.asynccontextmanager
async def open_page_images(
    store: FileStore, exporter: concurrency.LazyResource[reader.Reader]
) -> AsyncIterator[PageImageRenderer]:
    """Open the caches in a private folder, which is removed afterwards."""
    with scratch.open_private_folder() as folder:
        originals, images = folder / "originals", folder / "images"
        originals.mkdir()
        images.mkdir()
        yield PageImageRenderer(
            store,
            exporter,
            file_cache.FileCache(originals, max_bytes=_ORIGINALS_BYTES, seconds=_CACHE_SECONDS),
            file_cache.FileCache(images, max_bytes=_IMAGES_BYTES, seconds=_CACHE_SECONDS),
        )
