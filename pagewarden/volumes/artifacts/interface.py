"""What a bucket can do: a folder or one that speaks S3, all the same to a stage."""

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
    """A file in a bucket; size in bytes. etag changes with the content, where there is one."""

    key: str
    size: int
    etag: str | None = None


class Bucket(Protocol):
    """Where images and artifacts live; keys are paths with strokes, without one at the beginning.

    A file appears whole or not at all. Whatever goes wrong is raised as a FileStoreError; what
    failed in passing was tried again. Leave it with `async with`, or with the process.
    """

    @property
    def address(self) -> str:
        """Name it as people do."""
        ...

    async def prepare(self) -> None:
        """Raise what would keep this bucket from being written to."""
        ...

    def list(self, folder: str) -> AsyncGenerator[Entry, None]:
        """Go through the files below a folder, in no particular order, but for hidden ones."""
        ...

    async def get(self, key: str) -> bytes:
        """Give the content of a file."""
        ...

    async def digest(self, key: str) -> str:
        """Name the content of a file by its SHA-256, however large it is."""
        ...

    async def fetch(self, key: str, target: Path) -> None:
        """Have a copy of a file in the scratch folder, which stays as it is now."""
        ...

    def scratch(self, owner: str) -> AbstractContextManager[Path]:
        """Have a folder on this machine for what is not published yet, which goes in the end."""
        ...

    async def publish(self, made: Path, key: str) -> None:
        """Take a file out of the scratch folder into the bucket, over what is there."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
