"""Files in a folder of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from typing import TYPE_CHECKING, Self

from pagewarden import concurrency, errors
from pagewarden.files import disk, intake, interface, paths, tree

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType

    from pagewarden.files import signing

_WRITTEN = 1024 * 1024  # bytes at once
_READ = 256 * 1024
_LISTED = 500


class LocalFiles:
    """A folder; it is made when the first file comes."""

    def __init__(self, root: Path, signer: signing.Signer | None = None) -> None:
        self._root = root
        self._signer = signer

    async def write(
        self, path: str, chunks: AsyncIterable[bytes], *, limit: int | None = None
    ) -> interface.Stored:
        """Keep what comes."""
        parts = paths.check_path(path)
        taken = intake.Intake(chunks, limit)
        part = await self._begin()
        try:
            async with contextlib.aclosing(taken.blocks(_WRITTEN)) as blocks:
                async for block in blocks:
                    with disk.translated(self._root):
                        await concurrency.run_in_thread(disk.write_all, part.file, block)
            await self._publish(part, parts)
        except BaseException:
            await concurrency.run_in_thread(part.discard)
            raise
        return taken.stored(path)

    async def read(self, path: str, *, start: int = 0) -> AsyncGenerator[bytes, None]:
        """Hand out the bytes from start on."""
        parts = paths.check_path(path)
        with disk.translated(self._root):
            try:
                number = await concurrency.finish_or_undo(
                    asyncio.to_thread(tree.open_file, self._root, parts, start),
                    undo=lambda number: asyncio.to_thread(os.close, number),
                )
            except tree.ABSENT as exc:
                raise await self._absence(path) from exc
            except PermissionError as exc:
                # Of a store that is closed to us as a whole, this is what is raised.
                await concurrency.run_in_thread(tree.require_store, self._root)
                raise errors.FileAccessDenied(
                    f"the file {path!r} in {self._root} may not be read ({exc.strerror}); correct "
                    "its owner and mode (chown, chmod), then requeue the document"
                ) from exc
        try:
            while chunk := await self._next(number):
                yield chunk
        finally:
            os.close(number)

    async def fetch(self, path: str, target: Path) -> None:
        """Copy to another file."""
        async with contextlib.aclosing(self.read(path)) as chunks:
            await disk.save(chunks, target)

    async def delete(self, path: str) -> bool:
        """Remove a file."""
        parts = paths.check_path(path)
        with disk.translated(self._root):
            try:
                await concurrency.run_in_thread(tree.remove, self._root, parts)
            except tree.ABSENT:
                return False
        return True

    async def stat(self, path: str) -> interface.Entry | None:
        """Look at a file."""
        parts = paths.check_path(path)
        with disk.translated(self._root):
            try:
                return await concurrency.run_in_thread(tree.look, self._root, parts)
            except tree.ABSENT:
                return None

    async def list(self, prefix: str = "") -> AsyncGenerator[interface.Entry, None]:
        """Go through all files below a folder."""
        found = tree.walk(self._root, paths.check_prefix(prefix))
        with contextlib.closing(found):
            while True:
                with disk.translated(self._root):
                    batch = await concurrency.run_in_thread(tuple, itertools.islice(found, _LISTED))
                if not batch:
                    return
                for entry in batch:
                    yield entry

    async def signed_url(self, path: str, seconds: int) -> str | None:
        """Make a URL, if somebody serves it."""
        return self._signer.url(path, seconds) if self._signer else None

    async def ping(self) -> None:
        """Write a file and drop it."""
        part = await self._begin()
        try:
            with disk.translated(self._root):
                await concurrency.run_in_thread(disk.write_all, part.file, b"ping")
        finally:
            await concurrency.run_in_thread(part.discard)

    async def tidy(self, before: datetime) -> int:
        """Remove unfinished files that nobody wrote to since."""
        with disk.translated(self._root):
            return await concurrency.run_in_thread(tree.tidy, self._root, before)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """There is nothing to close."""

    async def _begin(self) -> tree.Part:
        with disk.translated(self._root):
            return await concurrency.finish_or_undo(
                asyncio.to_thread(tree.Part.create, self._root),
                undo=lambda part: asyncio.to_thread(part.discard),
            )

    async def _publish(self, part: tree.Part, parts: tuple[str, ...]) -> None:
        with disk.translated(self._root):
            try:
                await concurrency.finish_or_undo(
                    asyncio.to_thread(part.publish, parts),
                    undo=lambda _: asyncio.to_thread(tree.remove, self._root, parts),
                )
            except (FileExistsError, NotADirectoryError) as exc:
                raise errors.FileExists(
                    f"there is a file at {'/'.join(parts)!r} or above it already; choose another "
                    "path"
                ) from exc

    async def _absence(self, path: str) -> errors.FileStoreError:
        if await concurrency.run_in_thread(tree.is_store, self._root):
            return errors.FileNotThere(f"there is no file {path!r}")
        return errors.StoreUnusable(
            f"no file was ever kept in {self._root}; is its disk there, and PAGEWARDEN_FILES right?"
        )

    async def _next(self, number: int) -> bytes:
        with disk.translated(self._root):
            return await concurrency.run_in_thread(os.read, number, _READ)
