"""S3Bucket: an S3-compatible bucket; other programs may have filled it, so any key is valid."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from typing import TYPE_CHECKING, Self

import obstore

from pagewarden import concurrency, errors, retry
from pagewarden.storage import s3, scratch
from pagewarden.volumes.artifacts import base

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from pathlib import Path

_LIST_PAGE_SIZE = 1000
_CHUNK_BYTES = 1 << 20


class S3Bucket:
    """A bucket, or the objects below a prefix in it."""

    def __init__(
        self, bucket: s3.BucketConfig, retry_policy: retry.RetryPolicy | None = None
    ) -> None:
        pauses = (retry_policy or retry.RetryPolicy()).pauses
        self._bucket = bucket
        # All calls are idempotent, so the library itself may retry them.
        self._store = bucket.connect(
            retries=len(pauses), backoff_seconds=pauses[0], max_backoff_seconds=pauses[-1]
        )

    @property
    def address(self) -> str:
        """Return the bucket and prefix as a URL."""
        return "/".join(filter(None, (f"s3://{self._bucket.name}", self._bucket.prefix)))

    async def prepare(self) -> None:
        """Raise an error if the bucket cannot be listed."""
        async with contextlib.aclosing(self.list("jobs")) as entries:
            await anext(entries, None)

    async def list(self, folder: str) -> AsyncGenerator[base.Entry, None]:
        """Iterate over the objects below a folder."""
        pages = obstore.list(self._store, folder or None, chunk_size=_LIST_PAGE_SIZE)
        while True:
            with self._translate_errors(folder):
                page = await anext(pages, None)
            if page is None:
                return
            for item in page:
                if not any(part.startswith(".") for part in item["path"].split("/")):
                    yield base.Entry(item["path"], item["size"], item["e_tag"])

    async def get(self, key: str) -> bytes:
        """Return the content of an object."""
        return b"".join([chunk async for chunk in self._read(key)])

    async def digest(self, key: str) -> str:
        """Download an object and return its SHA-256."""
        digest = hashlib.sha256()
        async for chunk in self._read(key):
            digest.update(chunk)
        return digest.hexdigest()

    async def fetch(self, key: str, target: Path) -> None:
        """Download an object."""
        async with contextlib.aclosing(self._read(key)) as chunks:
            await scratch.write_file(chunks, target)

    @contextlib.contextmanager
    def scratch(self, owner: str) -> Iterator[Path]:
        """Create a temporary folder; only complete files are uploaded."""
        del owner
        with scratch.open_private_folder() as path:
            yield path

    async def publish(self, path: Path, key: str) -> None:
        """Upload a file; the object appears when the upload is complete."""
        with self._translate_errors(key, writing=True):
            await concurrency.finish_or_undo(obstore.put_async(self._store, key, path))
        await asyncio.to_thread(path.unlink)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Wait for the threads of the library to end, see pagewarden.storage.s3."""
        await asyncio.sleep(s3.SETTLE_SECONDS)

    async def _read(self, key: str) -> AsyncGenerator[bytes, None]:
        try:
            with self._translate_errors(key):
                result = await obstore.get_async(self._store, key)
                async for chunk in result.stream(_CHUNK_BYTES):
                    yield bytes(chunk)
        except errors.FileNotFound:
            await self.prepare()  # raises another error if the bucket itself is missing
            raise

    def _translate_errors(
        self, key: str, *, writing: bool = False
    ) -> contextlib.AbstractContextManager[None]:
        return s3.translate_errors(key, is_write=writing, setting=self.address)
