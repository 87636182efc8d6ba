"""Artifacts of volumes: a folder or a bucket that speaks S3."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self
from urllib.parse import urlsplit

import obstore

from pagewarden import errors
from pagewarden.files import s3 as s3_files
from pagewarden.files.s3 import faults

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

    from pagewarden import settings as settings_module

__all__ = ["Bucket", "Entry", "open_bucket"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a bucket; size in bytes."""

    key: str
    size: int
    etag: str | None = None


class Bucket(Protocol):
    """Where images and artifacts live; a file appears whole or not at all."""

    @property
    def address(self) -> str:
        """Name it as people do."""
        ...

    async def prepare(self) -> None:
        """Raise what would keep this bucket from being written to."""
        ...

    def list(self, folder: str) -> AsyncGenerator[Entry, None]:
        """Go through the files below a folder."""
        ...

    async def get(self, key: str) -> bytes:
        """Give the content of a file."""
        ...

    async def fetch(self, key: str, target: Path) -> None:
        """Have a copy of a file in the scratch folder."""
        ...

    def scratch(self, owner: str) -> AbstractContextManager[Path]:
        """Have a folder on this machine for what is not published yet."""
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


class Folder:
    """A folder of this machine as a bucket."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def address(self) -> str:
        """Name the folder."""
        return str(self._root)

    async def prepare(self) -> None:
        """Make it."""
        await asyncio.to_thread(self._root.mkdir, parents=True, exist_ok=True)

    async def list(self, folder: str) -> AsyncGenerator[Entry, None]:
        """Go through its files."""
        if not self._root.is_dir():
            raise errors.StoreUnusable(f"there is no folder {self._root}; make it")
        for path in sorted((self._root / folder).rglob("*")):
            key = path.relative_to(self._root)
            if path.is_file() and not any(part.startswith(".") for part in key.parts):
                yield Entry(key.as_posix(), path.stat().st_size)

    async def get(self, key: str) -> bytes:
        """Read a file."""
        try:
            return await asyncio.to_thread((self._root / key).read_bytes)
        except FileNotFoundError as exc:
            raise errors.FileNotThere(f"there is no file {key!r} in {self._root}") from exc

    async def fetch(self, key: str, target: Path) -> None:
        """Copy a file."""
        await asyncio.to_thread(target.write_bytes, await self.get(key))

    @contextlib.contextmanager
    def scratch(self, owner: str) -> Iterator[Path]:
        """Have a folder beside the artifacts."""
        place = self._root / ".unpublished"
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{owner}-", dir=place) as made:
            yield Path(made)

    async def publish(self, made: Path, key: str) -> None:
        """Rename it."""
        await asyncio.to_thread(self._move, made, self._root / key)

    @staticmethod
    def _move(made: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        made.replace(target)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class S3Bucket:
    """A bucket, or what is in it below a prefix."""

    def __init__(self, bucket: s3_files.Bucket) -> None:
        self._bucket = bucket
        self._store = bucket.connect(retries=3, pause=0.1, longest_pause=1)

    @property
    def address(self) -> str:
        """Name bucket and prefix."""
        return "/".join(filter(None, (f"s3://{self._bucket.name}", self._bucket.prefix)))

    async def prepare(self) -> None:
        """List something."""
        async with contextlib.aclosing(self.list("jobs")) as found:
            await anext(found, None)

    async def list(self, folder: str) -> AsyncGenerator[Entry, None]:
        """Go through its objects."""
        with faults.translated(folder):
            async for page in obstore.list(self._store, folder or None):
                for found in page:
                    yield Entry(found["path"], found["size"], found["e_tag"])

    async def get(self, key: str) -> bytes:
        """Get an object."""
        with faults.translated(key):
            result = await obstore.get_async(self._store, key)
            return bytes(await result.bytes_async())

    async def fetch(self, key: str, target: Path) -> None:
        """Download an object."""
        await asyncio.to_thread(target.write_bytes, await self.get(key))

    @contextlib.contextmanager
    def scratch(self, owner: str) -> Iterator[Path]:
        """Have a folder of this machine."""
        with tempfile.TemporaryDirectory(prefix=f"{owner}-") as made:
            yield Path(made)

    async def publish(self, made: Path, key: str) -> None:
        """Upload it."""
        with faults.translated(key, writing=True):
            await obstore.put_async(self._store, key, made)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0.05)


def open_bucket(address: str, settings: settings_module.Settings) -> Bucket:
    """Make the bucket of an address, a folder or `s3://bucket/prefix`; nothing is sent yet."""
    if "://" not in address:
        return Folder(Path(address).expanduser().absolute())
    parts = urlsplit(address)
    if parts.scheme != "s3" or not parts.netloc:
        raise errors.SettingsError(
            f"{address!r} is no bucket; give a folder, or s3://bucket/prefix"
        )
    secret = settings.s3_secret_access_key
    return S3Bucket(
        s3_files.Bucket(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            endpoint=str(settings.s3_endpoint) if settings.s3_endpoint else None,
            region=settings.s3_region,
            access_key_id=settings.s3_access_key_id,
            secret_access_key=secret.get_secret_value() if secret else None,
        )
    )
