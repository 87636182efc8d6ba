"""Files below a folder of this machine: `LocalFileStore`, and the functions it runs in threads.

Links are never followed, so no path leads out of the folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
import stat
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from pagewarden import concurrency, errors
from pagewarden.storage import base, paths, scratch

if TYPE_CHECKING:
    import io
    from collections.abc import (
        AsyncGenerator,
        AsyncIterable,
        Callable,
        Generator,
        Iterator,
        Sequence,
    )
    from pathlib import Path
    from types import TracebackType

    from pagewarden.storage import signed_urls

INCOMING = ".incoming"  # paths.check_path rejects this name

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a named pipe would block.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_WRITE_BYTES = 1024 * 1024
_READ_BYTES = 256 * 1024
_LIST_BATCH = 500
_MAX_LINK_ATTEMPTS = 100

# The errors of the system for a path that does not exist, or has a file where a folder should be.
ABSENT = (FileNotFoundError, NotADirectoryError)


class LocalFileStore:
    """A folder, created with its first file."""

    has_public_urls = False

    def __init__(self, root: Path, signer: signed_urls.UrlSigner | None = None) -> None:
        self._root = root
        self._signer = signer

    async def write(
        self, path: str, chunks: AsyncIterable[bytes], *, limit: int | None = None
    ) -> base.WrittenFile:
        """Write a file."""
        parts = paths.check_path(path)
        source = base.HashedInput(chunks, limit)
        part = await self._create_part()
        try:
            async with contextlib.aclosing(source.read_blocks(_WRITE_BYTES)) as blocks:
                async for block in blocks:
                    with scratch.translate_os_errors(self._root):
                        await concurrency.run_in_thread(scratch.write_all, part.file, block)
            await self._make_visible(part.publish, parts)
        except BaseException:
            await concurrency.run_in_thread(part.discard)
            raise
        return source.to_written_file(path)

    async def read(self, path: str, *, start: int = 0) -> AsyncGenerator[bytes, None]:
        """Yield the bytes from `start` on."""
        parts = paths.check_path(path)
        with scratch.translate_os_errors(self._root):
            try:
                descriptor = await concurrency.finish_or_undo(
                    asyncio.to_thread(open_file, self._root, parts, start),
                    undo=lambda descriptor: asyncio.to_thread(os.close, descriptor),
                )
            except ABSENT as exc:
                raise await self._make_absence_error(path) from exc
            except PermissionError as exc:
                # Raises StoreMisconfigured if the store as a whole is inaccessible.
                await concurrency.run_in_thread(require_store, self._root)
                raise errors.FileAccessDenied(
                    f"the file {path!r} in {self._root} cannot be read ({exc.strerror}); fix its "
                    "owner and permissions (chown, chmod), then requeue the document"
                ) from exc
        try:
            while chunk := await self._read_chunk(descriptor):
                yield chunk
        finally:
            os.close(descriptor)

    async def fetch(self, path: str, target: Path) -> None:
        """Copy a file to a local file."""
        async with contextlib.aclosing(self.read(path)) as chunks:
            await scratch.write_file(chunks, target)

    async def delete(self, path: str) -> bool:
        """Delete a file."""
        parts = paths.check_path(path)
        with scratch.translate_os_errors(self._root):
            try:
                await concurrency.run_in_thread(remove_file, self._root, parts)
            except ABSENT:
                return False
        return True

    async def stat(self, path: str) -> base.Entry | None:
        """Return the entry of a file."""
        parts = paths.check_path(path)
        with scratch.translate_os_errors(self._root):
            try:
                return await concurrency.run_in_thread(stat_file, self._root, parts)
            except ABSENT:
                return None

    async def list(self, prefix: str = "") -> AsyncGenerator[base.Entry, None]:
        """Yield all files below a folder."""
        entries = walk_files(self._root, paths.check_prefix(prefix))
        with contextlib.closing(entries):
            while True:
                with scratch.translate_os_errors(self._root):
                    batch = await concurrency.run_in_thread(
                        tuple, itertools.islice(entries, _LIST_BATCH)
                    )
                if not batch:
                    return
                for entry in batch:
                    yield entry

    async def create_signed_url(self, path: str, seconds: int) -> str | None:
        """Return a URL if the files are served at a public URL."""
        return self._signer.make_url(path, seconds) if self._signer else None

    async def copy(self, source: str, target: str) -> None:
        """Link a file, which never changes, to a second path."""
        source_parts, parts = paths.check_path(source), paths.check_path(target)
        absence = errors.FileNotFound(f"there is no file {source!r}; check the path")
        if await self.stat(source) is None:
            raise absence
        try:
            await self._make_visible(functools.partial(link_file, self._root, source_parts), parts)
        except errors.FileStoreError as exc:
            if await self.stat(source) is None:  # it was deleted in the meantime
                raise absence from exc
            raise

    async def create_upload_address(
        self, path: str, *, size: int, sha256: str, seconds: int
    ) -> base.UploadAddress | None:
        """Return None: the server that uses this store receives uploads itself."""
        del path, size, sha256, seconds
        return None

    async def get_upload_origin(self) -> str | None:
        """Return None: a folder has no upload addresses."""
        return None

    async def ping(self) -> None:
        """Write a temporary file and delete it."""
        part = await self._create_part()
        try:
            with scratch.translate_os_errors(self._root):
                await concurrency.run_in_thread(scratch.write_all, part.file, b"ping")
        finally:
            await concurrency.run_in_thread(part.discard)

    async def remove_unfinished(self, before: datetime) -> int:
        """Delete unfinished files that were not written to since that time."""
        with scratch.translate_os_errors(self._root):
            return await concurrency.run_in_thread(remove_unfinished, self._root, before)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to close."""

    async def _create_part(self) -> PartialFile:
        with scratch.translate_os_errors(self._root):
            return await concurrency.finish_or_undo(
                asyncio.to_thread(PartialFile.create, self._root),
                undo=lambda part: asyncio.to_thread(part.discard),
            )

    async def _make_visible(
        self, publish: Callable[[tuple[str, ...]], None], parts: tuple[str, ...]
    ) -> None:
        """Run the step that gives a file its path; undo it if cancelled."""
        with scratch.translate_os_errors(self._root):
            try:
                await concurrency.finish_or_undo(
                    asyncio.to_thread(publish, parts),
                    undo=lambda _: asyncio.to_thread(remove_file, self._root, parts),
                )
            except (FileExistsError, NotADirectoryError) as exc:
                raise errors.FileExists(
                    f"a file already exists at {'/'.join(parts)!r}, or at a parent of this path; "
                    "choose another path"
                ) from exc

    async def _make_absence_error(self, path: str) -> errors.FileStoreError:
        if await concurrency.run_in_thread(is_store, self._root):
            return errors.FileNotFound(f"there is no file {path!r}; check the path")
        return errors.StoreMisconfigured(
            f"{self._root} is not a file store: no file has ever been stored in it; mount its "
            "disk, or correct PAGEWARDEN_FILES"
        )

    async def _read_chunk(self, descriptor: int) -> bytes:
        with scratch.translate_os_errors(self._root):
            return await concurrency.run_in_thread(os.read, descriptor, _READ_BYTES)


@contextlib.contextmanager
def open_folder(root: Path, folders: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """Open a folder below root as a file descriptor; raise ABSENT if it does not exist."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in folders:
            if create:
                _create_folder(name, descriptor)
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _create_folder(name: str, parent: int) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, mode=0o700, dir_fd=parent)
        os.fsync(parent)


def create_root(root: Path) -> None:
    """Create the folder and the one for unfinished files if they do not exist."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (root / INCOMING).mkdir(mode=0o700)


def is_store(root: Path) -> bool:
    """Return whether files were ever stored here; an unmounted disk looks like an empty folder."""
    return (root / INCOMING).is_dir()


def require_store(root: Path) -> None:
    """Raise OSError if the store as a whole is inaccessible."""
    with open_folder(root, [INCOMING]):
        pass


@dataclass(frozen=True, slots=True)
class PartialFile:
    """A file that is being written, not yet visible in the store."""

    root: Path
    name: str
    file: io.FileIO

    @classmethod
    def create(cls, root: Path) -> PartialFile:
        """Create an empty file."""
        create_root(root)
        name = uuid.uuid4().hex
        with open_folder(root, [INCOMING]) as incoming:
            descriptor = os.open(name, _NEW_FILE_FLAGS, mode=0o600, dir_fd=incoming)
        return cls(root, name, os.fdopen(descriptor, "wb", buffering=0))

    def publish(self, parts: Sequence[str]) -> None:
        """Flush the file to disk, make it visible at its path, and discard the partial file.

        One step for the caller: a cancellation between two steps would leave the file behind.
        Raises FileExistsError, or NotADirectoryError if a parent folder is a file.
        """
        os.fsync(self.file.fileno())
        link_file(self.root, (INCOMING, self.name), parts)
        with contextlib.suppress(OSError):  # remove_unfinished() deletes it later
            self.discard()

    def discard(self) -> None:
        """Delete the partial file; the published file remains."""
        self.file.close()
        with contextlib.suppress(FileNotFoundError), open_folder(self.root, [INCOMING]) as incoming:
            os.unlink(self.name, dir_fd=incoming)


def link_file(root: Path, source: Sequence[str], target: Sequence[str]) -> None:
    """Give a file a second path; raise FileExistsError rather than replace a file."""
    for _ in range(_MAX_LINK_ATTEMPTS - 1):
        # A concurrent deletion of the last file in the folder may have removed the folder.
        with contextlib.suppress(FileNotFoundError):
            return _link_once(root, source, target)
    return _link_once(root, source, target)


def _link_once(root: Path, source: Sequence[str], target: Sequence[str]) -> None:
    *source_folders, source_name = source
    *folders, name = target
    with (
        open_folder(root, source_folders) as source_folder,
        open_folder(root, folders, create=True) as folder,
    ):
        # Unlike a rename, a link never replaces an existing file.
        os.link(
            *(source_name, name),
            src_dir_fd=source_folder,
            dst_dir_fd=folder,
            follow_symlinks=False,
        )
        try:
            os.fsync(folder)
        except OSError:
            os.unlink(name, dir_fd=folder)
            raise


def open_file(root: Path, parts: Sequence[str], start: int) -> int:
    """Open a file for reading at `start`; raise ABSENT if it does not exist."""
    *folders, name = parts
    with open_folder(root, folders) as folder:
        _stat(name, folder)
        descriptor = os.open(name, _FILE_FLAGS, dir_fd=folder)
    os.lseek(descriptor, start, os.SEEK_SET)
    return descriptor


def stat_file(root: Path, parts: Sequence[str]) -> base.Entry:
    """Return the entry of a file; raise ABSENT if it does not exist."""
    *folders, name = parts
    with open_folder(root, folders) as folder:
        return _make_entry("/".join(parts), _stat(name, folder))


def remove_file(root: Path, parts: Sequence[str]) -> None:
    """Delete a file and the folders that become empty; raise ABSENT if it does not exist."""
    *folders, name = parts
    with open_folder(root, folders) as folder:
        _stat(name, folder)
        os.unlink(name, dir_fd=folder)
        os.fsync(folder)
    with contextlib.suppress(OSError):  # not empty, or already removed
        while folders:
            last = folders.pop()
            with open_folder(root, folders) as outer:
                os.rmdir(last, dir_fd=outer)


def walk_files(root: Path, folders: Sequence[str]) -> Generator[base.Entry, None, None]:
    """Yield the files below a folder; names that check_path rejects are skipped."""
    with contextlib.suppress(*ABSENT), open_folder(root, folders) as top:
        for below, _, names, folder in os.fwalk(".", dir_fd=top, onerror=_reraise):
            outer = [*folders, *below.split("/")[1:]]
            for name in names:
                path = "/".join([*outer, name])
                if paths.is_path(path):
                    with contextlib.suppress(*ABSENT):
                        yield _make_entry(path, _stat(name, folder))


def remove_unfinished(root: Path, before: datetime) -> int:
    """Delete unfinished files that were not written to since that time."""
    removed = 0
    with contextlib.suppress(*ABSENT), open_folder(root, [INCOMING]) as incoming:
        with os.scandir(incoming) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            with contextlib.suppress(*ABSENT):
                if _make_entry(name, _stat(name, incoming)).modified < before:
                    os.unlink(name, dir_fd=incoming)
                    removed += 1
    return removed


def _reraise(exc: OSError) -> None:
    if not isinstance(exc, ABSENT):  # ABSENT: removed during the walk
        raise exc


def _stat(name: str, folder: int) -> os.stat_result:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError(name)
    return status


def _make_entry(path: str, status: os.stat_result) -> base.Entry:
    return base.Entry(path, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))
