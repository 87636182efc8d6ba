"""A bucket that speaks S3, as others may have filled it: keys are taken as they are."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from typing import TYPE_CHECKING, Self

import obstore

from pagewarden import concurrency, errors, retry
from pagewarden.files import disk
from pagewarden.files import s3 as s3_files
from pagewarden.files import scratch as scratch_folders
from pagewarden.files.s3 import faults
from pagewarden.files.s3 import store as s3_store
from pagewarden.volumes.artifacts import interface

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from pathlib import Path

_LISTED = 1000
_READ = 1 << 20


class S3Bucket:
    """A bucket, or what is in it below a prefix."""

    def __init__(
        self, bucket: s3_files.Bucket, retry_policy: retry.RetryPolicy | None = None
    ) -> None:
        pauses = (retry_policy or retry.RetryPolicy()).pauses
        self._bucket = bucket
        # Nothing here goes wrong by being done twice, so the library itself may try again.
        self._store = bucket.connect(retries=len(pauses), pause=pauses[0], longest_pause=pauses[-1])

    @property
    def address(self) -> str:
        """Name bucket and prefix."""
        return "/".join(filter(None, (f"s3://{self._bucket.name}", self._bucket.prefix)))

    async def prepare(self) -> None:
        """List something."""
        async with contextlib.aclosing(self.list("jobs")) as found:
            await anext(found, None)

    async def list(self, folder: str) -> AsyncGenerator[interface.Entry, None]:
        """Go through its objects."""
        pages = obstore.list(self._store, folder or None, chunk_size=_LISTED)
        while True:
            with self._translated(folder):
                page = await anext(pages, None)
            if page is None:
                return
            for found in page:
                if not any(part.startswith(".") for part in found["path"].split("/")):
                    yield interface.Entry(found["path"], found["size"], found["e_tag"])

    async def get(self, key: str) -> bytes:
        """Get an object."""
        return b"".join([chunk async for chunk in self._read(key)])

    async def digest(self, key: str) -> str:
        """Go through an object."""
        whole = hashlib.sha256()
        async for chunk in self._read(key):
            whole.update(chunk)
        return whole.hexdigest()

    async def fetch(self, key: str, target: Path) -> None:
        """Download an object."""
        async with contextlib.aclosing(self._read(key)) as chunks:
            await disk.save(chunks, target)

    @contextlib.contextmanager
    def scratch(self, owner: str) -> Iterator[Path]:
        """Have a folder of this machine: nothing is uploaded before it is complete."""
        del owner
        with scratch_folders.folder() as place:
            yield place

    async def publish(self, made: Path, key: str) -> None:
        """Upload it; an object appears when all of it is there."""
        with self._translated(key, writing=True):
            await concurrency.finish_or_undo(obstore.put_async(self._store, key, made))
        await asyncio.to_thread(made.unlink)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Give the library's threads a moment, see pagewarden.files.s3."""
        await asyncio.sleep(s3_store.SETTLE_SECONDS)

    async def _read(self, key: str) -> AsyncGenerator[bytes, None]:
        try:
            with self._translated(key):
                result = await obstore.get_async(self._store, key)
                async for chunk in result.stream(_READ):
                    yield bytes(chunk)
        except errors.FileNotThere:
            await self.prepare()  # or is it the bucket that is not there?
            raise

    def _translated(
        self, key: str, *, writing: bool = False
    ) -> contextlib.AbstractContextManager[None]:
        return faults.translated(key, writing=writing, named_by=self.address)
