"""The local store: private files, atomic writes, no way out of the folder."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import stat
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors
from pagewarden.storage import local_disk, scratch, signed_urls
from tests.storage import stores

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = "case/document/scan.pdf"
MEGABYTE = 1024 * 1024
_NOBODY = 65_534


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the folder of the store, which does not exist yet."""
    return tmp_path / "files"


@pytest.fixture
def store(root: Path) -> local_disk.LocalFileStore:
    """Open a store."""
    return local_disk.LocalFileStore(root)


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Limit files to three megabytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 * MEGABYTE, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _files(root: Path) -> list[str]:
    return stores.FolderBackend(root, "").list_all()


async def test_only_the_owner_has_access(store: local_disk.LocalFileStore, root: Path) -> None:
    """Files are 0600 and folders 0700, for any umask."""
    before = os.umask(0)
    try:
        await store.write(PATH, stores.chunks_of(b"x"))
    finally:
        os.umask(before)

    folders = [root, root / ".incoming", root / "case", root / "case" / "document"]
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}
    assert (root / PATH).stat().st_mode & 0o777 == 0o600


async def test_file_is_flushed_before_it_is_visible(
    store: local_disk.LocalFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut leaves no empty file in the store."""
    steps: list[str] = []
    real_fsync, real_link = os.fsync, os.link

    def fsync(number: int) -> None:
        found = os.fstat(number)
        steps.append("fsync folder" if stat.S_ISDIR(found.st_mode) else f"fsync {found.st_size}")
        real_fsync(number)

    def link(*args: object, **kwargs: object) -> None:
        steps.append("link")
        real_link(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)
    await store.write("scan.pdf", stores.chunks_of(b"12345"))

    assert steps == ["fsync 5", "link", "fsync folder"]


async def test_link_to_a_folder_is_not_followed(
    store: local_disk.LocalFileStore, root: Path, tmp_path: Path
) -> None:
    """Files behind it are neither read, listed, written nor deleted."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    await store.write("a/b", stores.chunks_of(b"x"))
    (root / "link").symlink_to(outside)

    with pytest.raises(errors.FileNotFound):
        await stores.read_all(store, "link/secret")
    with pytest.raises(errors.FileExists):
        await store.write("link/new", stores.chunks_of(b"x"))
    assert await store.stat("link/secret") is None
    assert await store.delete("link/secret") is False
    assert await stores.list_paths(store) == ["a/b"]
    assert await stores.list_paths(store, "link") == []
    assert [path.name for path in outside.iterdir()] == ["secret"]


async def test_link_to_a_file_is_not_followed(
    store: local_disk.LocalFileStore, root: Path, tmp_path: Path
) -> None:
    """And a named pipe does not block."""
    (tmp_path / "secret").write_bytes(b"secret")
    await store.write("a/b", stores.chunks_of(b"x"))
    (root / "a" / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(root / "a" / "pipe")

    for path in ("a/link", "a/pipe"):
        with pytest.raises(errors.FileNotFound):
            await stores.read_all(store, path)
        with pytest.raises(errors.FileExists):
            await store.write(path, stores.chunks_of(b"x"))
        assert await store.stat(path) is None
        assert await store.delete(path) is False
    assert await stores.list_paths(store) == ["a/b"]
    assert (tmp_path / "secret").read_bytes() == b"secret"


@pytest.mark.usefixtures("small_disk")
async def test_full_disk_leaves_nothing(store: local_disk.LocalFileStore, root: Path) -> None:
    """The error says what to do."""
    with pytest.raises(errors.StoreFull, match="free up space"):
        await store.write(PATH, stores.chunks_of(*[b"x" * MEGABYTE] * 4))

    assert _files(root) == []


@pytest.mark.usefixtures("small_disk")
async def test_copy_to_a_full_disk_leaves_the_target(tmp_path: Path) -> None:
    """The target is only replaced by a complete copy."""
    target = tmp_path / "target"
    target.write_bytes(b"old")

    with pytest.raises(errors.StoreFull):
        await scratch.write_file(stores.chunks_of(*[b"x" * MEGABYTE] * 4), target)

    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["target"]  # noqa: PTH208  # no Path may block here


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, errors.StoreFull),
        (errno.EDQUOT, errors.StoreFull),
        (errno.EACCES, errors.StoreMisconfigured),
        (errno.EROFS, errors.StoreMisconfigured),
        (errno.EIO, errors.StoreUnavailable),
        (errno.ESTALE, errors.StoreUnavailable),
    ],
)
def test_error_depends_on_the_errno(
    root: Path, number: int, kind: type[errors.FileStoreError]
) -> None:
    """Full, inaccessible, or broken."""
    with pytest.raises(kind, match=str(root)), scratch.translate_os_errors(root):
        raise OSError(number, os.strerror(number))


async def test_file_instead_of_the_folder_is_an_error(tmp_path: Path) -> None:
    """The message names the setting."""
    (tmp_path / "file").touch()
    store = local_disk.LocalFileStore(tmp_path / "file")

    with pytest.raises(errors.StoreMisconfigured, match="PAGEWARDEN_FILES"):
        await store.ping()
    with pytest.raises(errors.StoreMisconfigured, match="PAGEWARDEN_FILES"):
        await store.write(PATH, stores.chunks_of(b"x"))


async def test_missing_disk_is_not_a_missing_file(tmp_path: Path) -> None:
    """An unmounted disk is an outage, not a failure of documents."""
    for folder in (tmp_path / "missing", tmp_path):
        with pytest.raises(errors.StoreMisconfigured, match="disk"):
            await stores.read_all(local_disk.LocalFileStore(folder), PATH)


def _set_mode(path: Path, mode: int) -> None:
    path.chmod(mode)


@contextlib.contextmanager
def _ordinary_user(root: Path) -> Iterator[None]:
    """Run as an ordinary user who owns the store, because root can read every file."""
    if os.geteuid() != 0:
        yield
        return
    for path in (root, *root.rglob("*")):
        os.chown(path, _NOBODY, _NOBODY)
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_unreadable_file_is_not_an_inaccessible_store() -> None:
    """The message names the file and what to do; an inaccessible folder is an outage."""
    with tempfile.TemporaryDirectory() as folder:  # its parents are accessible to others
        root = Path(folder)
        store = local_disk.LocalFileStore(root)
        for path in (PATH, "other"):
            await store.write(path, stores.chunks_of(b"x"))
        _set_mode(root / PATH, 0)
        with _ordinary_user(root):
            assert await stores.read_all(store, "other") == b"x"
            with pytest.raises(errors.FileAccessDenied, match=f"{PATH}.*chmod") as denied:
                await stores.read_all(store, PATH)
            _set_mode(root, 0o100)
            with pytest.raises(errors.StoreMisconfigured):
                await stores.read_all(store, PATH)
            _set_mode(root, 0o700)
    assert not denied.value.outage


async def test_empty_folders_are_deleted_with_their_last_file(
    store: local_disk.LocalFileStore, root: Path
) -> None:
    """Other folders remain."""
    await store.write("a/b/c/1", stores.chunks_of(b"x"))
    await store.write("a/2", stores.chunks_of(b"x"))

    await store.delete("a/b/c/1")

    assert [path.name for path in (root / "a").iterdir()] == ["2"]


async def test_writer_survives_concurrent_deletion_of_its_folder(
    store: local_disk.LocalFileStore,
) -> None:
    """A deletion of the last file removes the folder of another writer."""

    async def come_and_go(name: str) -> None:
        for _ in range(25):
            await store.write(f"a/b/{name}", stores.chunks_of(b"x"))
            await store.delete(f"a/b/{name}")

    await asyncio.gather(*(come_and_go(name) for name in "123"))

    assert await stores.list_paths(store) == []


async def test_writer_cancelled_at_any_point_leaves_all_or_nothing(
    store: local_disk.LocalFileStore, root: Path
) -> None:
    """A cancelled write leaves nothing; a finished one is complete."""
    for turns in range(60):
        writer = asyncio.create_task(store.write(PATH, stores.chunks_of(b"x" * 1000, b"y" * 1000)))
        for _ in range(turns * 4):
            await asyncio.sleep(0)
        writer.cancel()
        (result,) = await asyncio.gather(writer, return_exceptions=True)
        if isinstance(result, asyncio.CancelledError):
            assert _files(root) == []
        else:
            assert await store.delete(PATH)


async def test_writer_cancelled_after_publication_deletes_its_file(
    store: local_disk.LocalFileStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the file would have no document."""
    reached, cancelled = threading.Event(), threading.Event()
    discard = local_disk.PartialFile.discard

    def wait_and_discard(part: local_disk.PartialFile) -> None:
        reached.set()
        cancelled.wait(20)
        discard(part)

    monkeypatch.setattr(local_disk.PartialFile, "discard", wait_and_discard)
    writer = asyncio.create_task(store.write(PATH, stores.chunks_of(b"x")))
    await asyncio.to_thread(reached.wait, 20)
    writer.cancel()
    await asyncio.sleep(0)
    cancelled.set()
    with pytest.raises(asyncio.CancelledError):
        await writer
    assert _files(root) == []


async def test_files_of_killed_writers_are_removed(
    store: local_disk.LocalFileStore, root: Path
) -> None:
    """Only after a while: the writer may still be running."""
    abandoned = local_disk.PartialFile.create(root)
    abandoned.file.close()
    now = datetime.now(UTC)

    assert await stores.list_paths(store) == []
    assert await store.remove_unfinished(now - timedelta(hours=1)) == 0
    assert await store.remove_unfinished(now + timedelta(hours=1)) == 1
    assert _files(root) == []


async def test_new_store_has_no_unfinished_files(store: local_disk.LocalFileStore) -> None:
    """The folder need not exist."""
    assert await store.remove_unfinished(datetime.now(UTC)) == 0


async def test_foreign_files_are_not_listed(store: local_disk.LocalFileStore, root: Path) -> None:
    """Files whose names are invalid paths could not be deleted either."""
    await store.write("a/b", stores.chunks_of(b"x"))
    (root / "a" / ".DS_Store").write_bytes(b"")
    (root / "a" / "line\nbreak").write_bytes(b"")
    (root / "a" / os.fsdecode(b"\xff\xfe")).write_bytes(b"")

    assert await stores.list_paths(store) == ["a/b"]


async def test_many_files_are_listed(store: local_disk.LocalFileStore, root: Path) -> None:
    """More than one batch."""
    await store.write("a/0", stores.chunks_of(b"x"))
    for number in range(1, 600):
        (root / "a" / str(number)).touch()

    assert len(await stores.list_paths(store)) == 600


async def test_no_signed_url_without_a_signer(root: Path) -> None:
    """The settings must name a public URL."""
    assert await local_disk.LocalFileStore(root).create_signed_url(PATH, 60) is None
    signed = local_disk.LocalFileStore(
        root, signed_urls.UrlSigner("https://files.example.org", "key")
    )
    assert await signed.create_signed_url(PATH, 60)
