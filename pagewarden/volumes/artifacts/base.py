"""The Bucket protocol, which stages use for folders and S3-compatible buckets alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import TracebackType


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a bucket; size in bytes. etag changes with the content; folders have none."""

    key: str
    size: int
    etag: str | None = None


class Bucket(Protocol):
    """Storage of images and artifacts; keys are relative paths separated by slashes.

    Files are written atomically. Errors are FileStoreErrors; transient ones are retried first.
    Close a bucket with `async with`, or by ending the process.
    """

    @property
    def address(self) -> str:
        """Return the address, as in settings and messages."""
        ...

    async def prepare(self) -> None:
        """Create the bucket if possible; raise the error that prevents writing to it."""
        ...

    def list(self, folder: str) -> AsyncGenerator[Entry, None]:
        """Iterate over the files below a folder, in any order, without hidden files."""
        ...

    async def get(self, key: str) -> bytes:
        """Return the content of a file."""
        ...

    async def digest(self, key: str) -> str:
        """Return the SHA-256 of a file of any size."""
        ...

    async def fetch(self, key: str, target: Path) -> None:
        """Copy a file into the scratch folder; later changes of the file do not affect it."""
        ...

    def scratch(self, owner: str) -> AbstractContextManager[Path]:
        """Create a local folder for unpublished files; it is removed at the end."""
        ...

    async def publish(self, path: Path, key: str) -> None:
        """Move a file from the scratch folder into the bucket; replace an existing file."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
