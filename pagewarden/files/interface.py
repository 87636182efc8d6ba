"""What every store can do, and what it hands out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType

MAX_URL_SECONDS = 4 * 60 * 60  # a link of Dropbox lives no longer


@dataclass(frozen=True, slots=True)
class Stored:
    """A file that was written just now; size in bytes, sha256 in hexadecimal digits."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a store; modified is in UTC."""

    path: str
    size: int
    modified: datetime


class FileStore(Protocol):
    """Where bytes live. Files are written once and never change.

    A path looks like `case/document/scan.pdf`; see paths. Leave the store with `async with`.
    Whatever goes wrong is raised as a FileStoreError; what failed in passing was tried again.
    """

    async def write(
        self, path: str, chunks: AsyncIterable[bytes], *, limit: int | None = None
    ) -> Stored:
        """Keep what comes; the file appears when it is complete, or not at all.

        Nothing is left of it when the source fails, the caller is cancelled, or more than limit
        bytes come (FileTooLarge). A file that is there already stays (FileExists).
        """
        ...

    def read(self, path: str, *, start: int = 0) -> AsyncGenerator[bytes, None]:
        """Hand out the bytes from start on; none, if start is at the end or behind it."""
        ...

    async def fetch(self, path: str, target: Path) -> None:
        """Copy to a local file, which is there when it is complete, or stays as it was."""
        ...

    async def delete(self, path: str) -> bool:
        """Remove a file; False when it was not there."""
        ...

    async def stat(self, path: str) -> Entry | None:
        """Look at a file; None when it is not there."""
        ...

    def list(self, prefix: str = "") -> AsyncGenerator[Entry, None]:
        """Go through all files below a folder, in no particular order."""
        ...

    async def signed_url(self, path: str, seconds: int) -> str | None:
        """Make a URL that anybody can GET for so long, at most MAX_URL_SECONDS; see docs/files.md.

        None when the store has no such URLs. Nobody looks whether the file is there.
        """
        ...

    async def ping(self) -> None:
        """Raise what would keep this store from being used."""
        ...

    async def tidy(self, before: datetime) -> int:
        """Remove what writers that were killed left behind before then; tell how many files."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def check_url_seconds(seconds: int) -> None:
    """Refuse what not every store could keep."""
    if not 1 <= seconds <= MAX_URL_SECONDS:
        raise ValueError(f"a URL can be valid for 1 to {MAX_URL_SECONDS} seconds, not {seconds}")
