"""The FileStore protocol, and what all stores and their callers share.

Input is regrouped into blocks, hashed and limited in size (`HashedInput`); files that do not
become documents are deleted again (`delete_on_failure`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, Self

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType

MAX_URL_SECONDS = 4 * 60 * 60  # the lifetime of a temporary link of Dropbox


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that has just been written: its size in bytes and its SHA-256 in hexadecimal."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a store; `modified` is in UTC."""

    path: str
    size: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class UploadAddress:
    """The request that uploads one file without credentials: its URL, method and headers."""

    url: str
    method: Literal["PUT", "POST"]
    headers: Mapping[str, str]


class FileStore(Protocol):
    """A place for files, which are written once and never change.

    A path looks like `case/document/scan.pdf`; see `paths`. Close a store with `async with`.
    All methods raise FileStoreError; transient failures have been retried by then.
    """

    @property
    def has_public_urls(self) -> bool:
        """Return whether a browser can open the signed URLs of this store.

        A folder has none: its public URL may be known to our own services only.
        """
        ...

    async def write(
        self, path: str, chunks: AsyncIterable[bytes], *, limit: int | None = None
    ) -> WrittenFile:
        """Write a file, which appears when it is complete or not at all.

        Nothing remains of it if the source fails, the caller is cancelled, or the source has
        more than `limit` bytes (FileTooLarge). An existing file is kept (FileExists).
        """
        ...

    def read(self, path: str, *, start: int = 0) -> AsyncGenerator[bytes, None]:
        """Yield the bytes from `start` on; none if `start` is at or after the end."""
        ...

    async def fetch(self, path: str, target: Path) -> None:
        """Copy a file to a local file, which is replaced when the copy is complete."""
        ...

    async def delete(self, path: str) -> bool:
        """Delete a file; return False if it did not exist."""
        ...

    async def stat(self, path: str) -> Entry | None:
        """Return the entry of a file, or None if it does not exist."""
        ...

    def list(self, prefix: str = "") -> AsyncGenerator[Entry, None]:
        """Yield all files below a folder, in no particular order."""
        ...

    async def create_signed_url(self, path: str, seconds: int) -> str | None:
        """Return a URL that is valid for up to MAX_URL_SECONDS; see docs/how-to/files.md.

        None if the store has no such URLs. Whether the file exists is not checked.
        """
        ...

    async def copy(self, source: str, target: str) -> None:
        """Copy a file inside the store.

        An existing target is kept (FileExists). Later changes of the source, which an upload
        address allows, do not affect the copy.
        """
        ...

    async def create_upload_address(
        self, path: str, *, size: int, sha256: str, seconds: int
    ) -> UploadAddress | None:
        """Return an address to which a client uploads this one file; see docs/how-to/files.md.

        None if the store has no such addresses, or not for this size. A store that can binds the
        address to size and content; check both afterwards.
        """
        ...

    async def get_upload_origin(self) -> str | None:
        """Return scheme and host of all upload addresses; None if the store has none."""
        ...

    async def ping(self) -> None:
        """Raise the error that would keep this store from working."""
        ...

    async def remove_unfinished(self, before: datetime) -> int:
        """Delete what crashed writers left before that time; return the number of files."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


def check_url_seconds(seconds: int) -> None:
    """Reject a lifetime that not all stores support."""
    if not 1 <= seconds <= MAX_URL_SECONDS:
        raise ValueError(f"a URL can be valid for 1 to {MAX_URL_SECONDS} seconds, not {seconds}")


async def read_head(store: FileStore, path: str, size: int) -> bytes:
    """Return the first bytes of a file."""
    head = b""
    async with contextlib.aclosing(store.read(path)) as chunks:
        async for chunk in chunks:
            head += chunk[: size - len(head)]
            if len(head) >= size:
                break
    return head


class HashedInput:
    """An input stream that is hashed, counted and limited while it is read once."""

    def __init__(self, chunks: AsyncIterable[bytes], limit: int | None) -> None:
        self._chunks = chunks
        self._limit = limit
        self._sha256 = hashlib.sha256()
        self._size = 0

    async def read_blocks(self, size: int) -> AsyncGenerator[bytes, None]:
        """Yield blocks of exactly this size, then the rest if there is one."""
        pending = bytearray()
        async for chunk in self._chunks:
            self._count(chunk)
            pending += chunk
            while len(pending) >= size:
                block = bytes(memoryview(pending)[:size])
                del pending[:size]
                yield await self._hash(block)
        if pending:
            yield await self._hash(bytes(pending))

    def to_written_file(self, path: str) -> WrittenFile:
        """Describe the file after all blocks have been read."""
        return WrittenFile(path, self._size, self._sha256.hexdigest())

    def _count(self, data: bytes) -> None:
        self._size += len(data)
        if self._limit is not None and self._size > self._limit:
            raise errors.FileTooLarge(
                f"the file has more than {self._limit} bytes; send a smaller one, or split it",
                limit=self._limit,
            )

    async def _hash(self, block: bytes) -> bytes:
        await asyncio.to_thread(self._sha256.update, block)
        return block


@contextlib.asynccontextmanager
async def delete_on_failure(store: FileStore, paths: Iterable[str]) -> AsyncIterator[None]:
    """Delete the files again if they do not become documents.

    They are kept if it is unknown whether the transaction was committed; retention reports files
    without a document.
    """
    try:
        yield
    except Exception as exc:
        if not _is_commit_unknown(exc):
            await delete_files(store, paths)
        raise


async def delete_files(store: FileStore, paths: Iterable[str]) -> None:
    """Delete unneeded files; retention reports those that the store does not delete."""
    for path in paths:
        with contextlib.suppress(errors.FileStoreError):
            await store.delete(path)


def _is_commit_unknown(exc: Exception) -> bool:
    """Return whether the document may exist nevertheless: Postgres did not reject it."""
    return isinstance(exc, errors.DatabaseError) and (exc.outage or exc.sqlstate is None)
