"""The store itself.

A small file is one request that succeeds only if there is none yet. A large one is uploaded in
parts under another name and then copied on the same condition, which the library knows for
copies but not for uploads in parts. Supabase Storage ignores the condition, so whether there is a
file is asked beforehand, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Self

import obstore

from pagewarden import concurrency, errors, retry
from pagewarden.files import disk, intake, interface, paths
from pagewarden.files.s3 import faults, keys

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType

    from obstore import GetOptions, ObjectMeta

    from pagewarden.files.s3 import bucket as bucket_module

SETTLE_SECONDS = 0.05
INCOMING = ".incoming"  # paths.check_path lets no file have this name

_PART = 6 * 1024 * 1024  # bytes of one request
_PARTS_AT_ONCE = 2
_READ = 256 * 1024
_LISTED = 1000


class S3Files:
    """A bucket, or what is in it below a prefix."""

    def __init__(
        self, bucket: bucket_module.Bucket, retry_policy: retry.RetryPolicy | None = None
    ) -> None:
        self._bucket = bucket
        self._retry = retry_policy or retry.RetryPolicy()
        pauses = self._retry.pauses
        # We try again ourselves, but for requests that the library makes several of.
        self._once = bucket.connect(retries=0, pause=pauses[0], longest_pause=pauses[-1])
        self._steady = bucket.connect(
            retries=len(pauses), pause=pauses[0], longest_pause=pauses[-1]
        )

    async def write(
        self, path: str, chunks: AsyncIterable[bytes], *, limit: int | None = None
    ) -> interface.Stored:
        """Keep what comes."""
        if await self.stat(path):
            raise errors.FileExists(f"there is a file at {path!r} already; choose another path")
        taken = intake.Intake(chunks, limit)
        async with contextlib.aclosing(taken.blocks(_PART)) as blocks:
            first = await anext(blocks, b"")
            second = await anext(blocks, None)
            if second is None:
                return await self._put(taken.stored(path), first)
            return await self._put_in_parts(path, taken, _chain(first, second, blocks))

    def read(self, path: str, *, start: int = 0) -> AsyncGenerator[bytes, None]:
        """Hand out the bytes from start on."""
        return self._retry.resume(functools.partial(self._read_once, path), start)

    async def fetch(self, path: str, target: Path) -> None:
        """Copy to a local file."""
        async with contextlib.aclosing(self.read(path)) as chunks:
            await disk.save(chunks, target)

    async def delete(self, path: str) -> bool:
        """Remove a file."""
        if not await self.stat(path):
            return False
        await self._drop(self._key(path))
        return True

    async def stat(self, path: str) -> interface.Entry | None:
        """Look at a file."""
        try:
            return await self._retry.call(functools.partial(self._look_once, path))
        except errors.FileNotThere:
            return None

    async def list(self, prefix: str = "") -> AsyncGenerator[interface.Entry, None]:
        """Go through all files below a folder."""
        parts = paths.check_prefix(prefix)
        key = keys.of_path("/".join(parts), self._bucket.prefix)
        async for found in self._objects(key):
            path = keys.to_path(found["path"])
            if paths.is_path(path) and keys.of_path(path, self._bucket.prefix) == found["path"]:
                yield _entry(path, found)

    async def signed_url(self, path: str, seconds: int) -> str | None:
        """Make a URL."""
        interface.check_url_seconds(seconds)
        lifetime = timedelta(seconds=seconds)
        with faults.translated(path):
            return await obstore.sign_async(self._once, "GET", self._key(path), lifetime)

    async def ping(self) -> None:
        """List something."""
        async with contextlib.aclosing(self._objects(INCOMING)) as found:
            await anext(found, None)

    async def tidy(self, before: datetime) -> int:
        """Remove large files that were uploaded before then and never copied."""
        removed = 0
        async for found in self._objects(INCOMING):
            if found["last_modified"] < before:
                await self._drop(found["path"])
                removed += 1
        return removed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the library's threads a moment to let go of what they hold of Python's.

        The interpreter aborts when it ends under them. Connections they close by themselves.
        """
        await asyncio.sleep(SETTLE_SECONDS)

    def _key(self, path: str) -> str:
        paths.check_path(path)
        return keys.of_path(path, self._bucket.prefix)

    async def _put(self, stored: interface.Stored, data: bytes) -> interface.Stored:
        key = self._key(stored.path)
        return await self._appear(
            stored, lambda: obstore.put_async(self._once, key, data, mode="create")
        )

    async def _put_in_parts(
        self, path: str, taken: intake.Intake, blocks: AsyncGenerator[bytes, None]
    ) -> interface.Stored:
        key, part = self._key(path), f"{INCOMING}/{uuid.uuid4().hex}"
        try:
            await self._upload(path, part, blocks)
            return await self._appear(
                taken.stored(path),
                lambda: obstore.copy_async(self._once, part, key, overwrite=False),
                part,
            )
        except BaseException:
            await concurrency.finish_or_undo(self._discard(part))
            raise

    async def _discard(self, part: str) -> None:
        with contextlib.suppress(errors.FileStoreError):  # then it is left to tidy()
            await self._drop(part)

    async def _upload(self, path: str, key: str, blocks: AsyncGenerator[bytes, None]) -> None:
        async with contextlib.AsyncExitStack() as stack:  # left with an error, it aborts the upload
            writer = await stack.enter_async_context(
                obstore.open_writer_async(
                    self._steady, key, buffer_size=_PART, max_concurrency=_PARTS_AT_ONCE
                )
            )
            async for block in blocks:
                with faults.translated(path, writing=True):
                    await concurrency.finish_or_undo(writer.write(block))
            with faults.translated(path, writing=True):
                await concurrency.finish_or_undo(stack.aclose())

    async def _appear(
        self,
        stored: interface.Stored,
        step: Callable[[], Awaitable[object]],
        part: str | None = None,
    ) -> interface.Stored:
        """Take the step that lets a file appear, and discard the part; a cancellation undoes it."""
        tries = 0

        async def attempt() -> None:
            nonlocal tries
            tries += 1
            try:
                with faults.translated(stored.path, writing=True):
                    await step()
            except errors.FileExists:
                if not await self._is_ours(stored, tries):
                    raise

        async def publish() -> None:
            await self._retry.call(attempt)
            if part is not None:
                await self._discard(part)

        await concurrency.finish_or_undo(publish(), undo=lambda _: self.delete(stored.path))
        return stored

    async def _is_ours(self, stored: interface.Stored, tries: int) -> bool:
        """Tell whether an earlier try got through, and only its answer was lost."""
        found = await self.stat(stored.path)
        if found is None:
            raise errors.StoreAway(f"{stored.path!r} was written and deleted at once; try again")
        if tries == 1 or found.size != stored.size:
            return False
        sha256 = hashlib.sha256()
        async for chunk in self.read(stored.path):
            sha256.update(chunk)
        return sha256.hexdigest() == stored.sha256

    async def _look_once(self, path: str) -> interface.Entry:
        key = self._key(path)
        with faults.translated(path):
            return _entry(path, await obstore.head_async(self._once, key))

    async def _read_once(self, path: str, start: int) -> AsyncGenerator[bytes, None]:
        key = self._key(path)
        options: GetOptions | None = {"range": {"offset": start}} if start else None
        try:
            # A server would not answer kindly to a range that begins at the end.
            if start and (await self._look_once(path)).size <= start:
                return
            with faults.translated(path):
                result = await obstore.get_async(self._once, key, options=options)
                async for chunk in result.stream(_READ):
                    yield chunk
        except errors.FileNotThere:
            await self.ping()  # or is it the bucket that is not there?
            raise

    async def _objects(self, key: str) -> AsyncGenerator[ObjectMeta, None]:
        pages = obstore.list(self._steady, key or None, chunk_size=_LISTED)
        while True:
            with faults.translated(key):
                page = await anext(pages, None)
            if page is None:
                return
            for found in page:
                yield found

    async def _drop(self, key: str) -> None:
        async def attempt() -> None:
            with faults.translated(key):
                await obstore.delete_async(self._once, key)

        await self._retry.call(attempt)


async def _chain(
    first: bytes, second: bytes, rest: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    yield first
    yield second
    async for block in rest:
        yield block


def _entry(path: str, found: ObjectMeta) -> interface.Entry:
    return interface.Entry(path, found["size"], found["last_modified"])
