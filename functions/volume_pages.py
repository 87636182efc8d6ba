"""Pages of volumes for the dashboard: what stages published is fetched, and kept for a while."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from functions import kept
from pagewarden import errors
from pagewarden.files import scratch
from pagewarden.volumes import artifacts, downloads, looking, places
from pagewarden.volumes.artifacts import published

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection
    from pathlib import Path

    from pagewarden.settings import Settings
    from pagewarden.volumes import editions

# Who goes through a volume page by page has its files at hand.
_BYTES = 256_000_000
_SECONDS = 600.0
# Nobody looks at an empty page for longer.
_PATIENCE_SECONDS = 20.0
# Whoever wants a file as a whole has more patience; it is sent when all of it has come.
_DOWNLOAD_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class VolumePages:
    """What is to be seen of volumes in the bucket of artifacts."""

    bucket: artifacts.Bucket
    files: kept.Kept
    patience_seconds: float = _PATIENCE_SECONDS

    async def pages(self, edition: editions.Edition) -> list[looking.Listed]:
        """List the pages of a volume."""
        async with self._fetched(edition) as files:
            return await asyncio.to_thread(looking.pages, files)

    async def figures(
        self, edition: editions.Edition, names: Collection[str]
    ) -> dict[str, looking.Figures]:
        """Count the lines of some pages."""
        async with self._fetched(edition) as files:
            return await asyncio.to_thread(looking.figures, files, names)

    async def page(self, edition: editions.Edition, name: str) -> looking.Page | None:
        """Look at one page; None if the volume has none of this name."""
        async with self._fetched(edition) as files:
            return await asyncio.to_thread(looking.page, files, name)

    async def picture(self, edition: editions.Edition, name: str) -> bytes | None:
        """Give the rotated image of a page as JPEG; None if there is no such page."""
        keys = edition.keys
        async with self._file(edition, keys.line_detection) as detected:
            image = await asyncio.to_thread(
                looking.picture, looking.Files(keys, detected, None, None), name
            )
        if image is None:
            return None
        async with self._patience(self.patience_seconds):
            return await published.fetch_image(self.bucket, image, keys.line_detection)

    async def downloadable(self, edition: editions.Edition) -> list[downloads.Found]:
        """List what can be downloaded of a volume; only what is there."""
        keys = edition.keys
        found = []
        for file in downloads.of_stages(keys):
            # There may be very many pictures beside these; and who looks at pages has them already.
            with contextlib.suppress(errors.FileNotThere):
                async with self._file(edition, file.key) as path:
                    found.append(downloads.Found(file, path.stat().st_size))
        async with self._patience(self.patience_seconds):
            folder = keys.combined.rpartition("/")[0]
            sizes = {entry.key: entry.size async for entry in self.bucket.list(folder)}
        return found + [
            downloads.Found(file, sizes[file.key])
            for file in downloads.of_reduce(keys)
            if file.key in sizes
        ]

    @contextlib.asynccontextmanager
    async def download(self, edition: editions.Edition, name: str) -> AsyncIterator[downloads.Copy]:
        """Have a copy of one of these files; FileNotThere for any other name."""
        file = downloads.find(edition.keys, name)
        if file is None:
            raise errors.FileNotThere("there is no such file of a volume")
        async with self._file(edition, file.key, _DOWNLOAD_SECONDS) as path:
            yield downloads.Copy(path, file.name, file.media_type)

    @contextlib.asynccontextmanager
    async def _fetched(self, edition: editions.Edition) -> AsyncIterator[looking.Files]:
        async with contextlib.AsyncExitStack() as stack:

            async def fetch(key: str) -> Path | None:
                try:
                    return await stack.enter_async_context(self._file(edition, key))
                except errors.FileNotThere:
                    return None

            keys = edition.keys
            detected = await fetch(keys.line_detection)
            if detected is None:
                raise errors.FileNotThere("its pages are not there yet; line_detection makes them")
            lines, texts = await fetch(keys.line_images), await fetch(keys.ocr_results)
            combined = await fetch(keys.combined) if edition.combined else None
            yield looking.Files(keys, detected, lines, texts, combined)

    def _file(
        self, edition: editions.Edition, key: str, patience: float | None = None
    ) -> contextlib.AbstractAsyncContextManager[Path]:
        async def fetch(path: Path) -> None:
            async with self._patience(patience or self.patience_seconds):
                await self.bucket.fetch(key, path)

        return self.files.file(f"{key} {edition.version}", fetch)

    @contextlib.asynccontextmanager
    async def _patience(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as exc:
            raise errors.StoreAway("the bucket does not answer; try again soon") from exc


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[VolumePages]:
    """Look into the bucket of the settings."""
    async with artifacts.open_bucket(places.output_of(settings), settings) as bucket:
        with scratch.folder() as folder:
            files = kept.Kept(folder, max_bytes=_BYTES, seconds=_SECONDS)
            yield VolumePages(bucket, files)
