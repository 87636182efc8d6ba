"""A folder as a store: private, complete, and without a way out of it."""

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
from pagewarden.files import disk, local, signing, tree
from tests.files import places

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = "case/document/scan.pdf"
MEGABYTE = 1024 * 1024
_NOBODY = 65_534


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Name the folder of the store; it is not there yet."""
    return tmp_path / "files"


@pytest.fixture
def store(root: Path) -> local.LocalFiles:
    """Open a store."""
    return local.LocalFiles(root)


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Let no file grow beyond three megabytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 * MEGABYTE, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _files(root: Path) -> list[str]:
    return places.Folder(root, "").leftovers()


async def test_only_the_owner_gets_in(store: local.LocalFiles, root: Path) -> None:
    """Files are 0600 and folders 0700, whatever the umask."""
    before = os.umask(0)
    try:
        await store.write(PATH, places.of(b"x"))
    finally:
        os.umask(before)

    folders = [root, root / ".incoming", root / "case", root / "case" / "document"]
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}
    assert (root / PATH).stat().st_mode & 0o777 == 0o600


async def test_file_is_on_the_disk_before_it_appears(
    store: local.LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut there is no empty file under a good name."""
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
    await store.write("scan.pdf", places.of(b"12345"))

    assert steps == ["fsync 5", "link", "fsync folder"]


async def test_link_to_a_folder_leads_nowhere(
    store: local.LocalFiles, root: Path, tmp_path: Path
) -> None:
    """What lies behind it is neither read, listed, written nor removed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    await store.write("a/b", places.of(b"x"))
    (root / "link").symlink_to(outside)

    with pytest.raises(errors.FileNotThere):
        await places.contents(store, "link/secret")
    with pytest.raises(errors.FileExists):
        await store.write("link/new", places.of(b"x"))
    assert await store.stat("link/secret") is None
    assert await store.delete("link/secret") is False
    assert await places.listed(store) == ["a/b"]
    assert await places.listed(store, "link") == []
    assert [path.name for path in outside.iterdir()] == ["secret"]


async def test_link_to_a_file_is_no_file(
    store: local.LocalFiles, root: Path, tmp_path: Path
) -> None:
    """Nor is a pipe, which nobody waits for."""
    (tmp_path / "secret").write_bytes(b"secret")
    await store.write("a/b", places.of(b"x"))
    (root / "a" / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(root / "a" / "pipe")

    for path in ("a/link", "a/pipe"):
        with pytest.raises(errors.FileNotThere):
            await places.contents(store, path)
        with pytest.raises(errors.FileExists):
            await store.write(path, places.of(b"x"))
        assert await store.stat(path) is None
        assert await store.delete(path) is False
    assert await places.listed(store) == ["a/b"]
    assert (tmp_path / "secret").read_bytes() == b"secret"


@pytest.mark.usefixtures("small_disk")
async def test_full_disk_leaves_nothing(store: local.LocalFiles, root: Path) -> None:
    """The operator is told, and no part of the file stays."""
    with pytest.raises(errors.StoreFull, match="make room"):
        await store.write(PATH, places.of(*[b"x" * MEGABYTE] * 4))

    assert _files(root) == []


@pytest.mark.usefixtures("small_disk")
async def test_copy_to_a_full_disk_leaves_the_target(tmp_path: Path) -> None:
    """Half a copy is none."""
    target = tmp_path / "target"
    target.write_bytes(b"old")

    with pytest.raises(errors.StoreFull):
        await disk.save(places.of(*[b"x" * MEGABYTE] * 4), target)

    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["target"]  # noqa: PTH208  # no Path may block here


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, errors.StoreFull),
        (errno.EDQUOT, errors.StoreFull),
        (errno.EACCES, errors.StoreUnusable),
        (errno.EROFS, errors.StoreUnusable),
        (errno.EIO, errors.StoreAway),
        (errno.ESTALE, errors.StoreAway),
    ],
)
def test_trouble_of_the_disk_is_told_apart(
    root: Path, number: int, kind: type[errors.FileStoreError]
) -> None:
    """Full, closed, or broken."""
    with pytest.raises(kind, match=str(root)), disk.translated(root):
        raise OSError(number, os.strerror(number))


async def test_file_in_place_of_the_folder_is_unusable(tmp_path: Path) -> None:
    """The message names the setting."""
    (tmp_path / "file").touch()
    store = local.LocalFiles(tmp_path / "file")

    with pytest.raises(errors.StoreUnusable, match="PAGEWARDEN_FILES"):
        await store.ping()
    with pytest.raises(errors.StoreUnusable, match="PAGEWARDEN_FILES"):
        await store.write(PATH, places.of(b"x"))


async def test_missing_disk_is_not_a_missing_file(tmp_path: Path) -> None:
    """While its disk is not mounted, no document is given up."""
    for folder in (tmp_path / "missing", tmp_path):
        with pytest.raises(errors.StoreUnusable, match="disk"):
            await places.contents(local.LocalFiles(folder), PATH)


def _set_mode(path: Path, mode: int) -> None:
    path.chmod(mode)


@contextlib.contextmanager
def _ordinary_user(root: Path) -> Iterator[None]:
    """Give the store to an ordinary user and act as one: root may read every file."""
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


async def test_file_that_may_not_be_read_is_not_a_closed_store() -> None:
    """The message names the file and what to do; a folder that is closed is an outage."""
    with tempfile.TemporaryDirectory() as folder:  # others may pass through its parents
        root = Path(folder)
        store = local.LocalFiles(root)
        for path in (PATH, "other"):
            await store.write(path, places.of(b"x"))
        _set_mode(root / PATH, 0)
        with _ordinary_user(root):
            assert await places.contents(store, "other") == b"x"
            with pytest.raises(errors.FileAccessDenied, match=f"{PATH}.*chmod") as denied:
                await places.contents(store, PATH)
            _set_mode(root, 0o100)
            with pytest.raises(errors.StoreUnusable):
                await places.contents(store, PATH)
            _set_mode(root, 0o700)
    assert not denied.value.outage


async def test_empty_folders_go_with_their_last_file(store: local.LocalFiles, root: Path) -> None:
    """Deleting a case leaves no skeleton, and nobody else's folders are touched."""
    await store.write("a/b/c/1", places.of(b"x"))
    await store.write("a/2", places.of(b"x"))

    await store.delete("a/b/c/1")

    assert [path.name for path in (root / "a").iterdir()] == ["2"]


async def test_writer_copes_with_folders_that_vanish(store: local.LocalFiles) -> None:
    """One deletes the last file of a folder while another writes into it."""

    async def come_and_go(name: str) -> None:
        for _ in range(25):
            await store.write(f"a/b/{name}", places.of(b"x"))
            await store.delete(f"a/b/{name}")

    await asyncio.gather(*(come_and_go(name) for name in "123"))

    assert await places.listed(store) == []


async def test_writer_stopped_at_any_moment_leaves_all_or_nothing(
    store: local.LocalFiles, root: Path
) -> None:
    """A cancelled write left nothing; one that was too late to cancel is complete."""
    for turns in range(60):
        writer = asyncio.create_task(store.write(PATH, places.of(b"x" * 1000, b"y" * 1000)))
        for _ in range(turns * 4):
            await asyncio.sleep(0)
        writer.cancel()
        (result,) = await asyncio.gather(writer, return_exceptions=True)
        if isinstance(result, asyncio.CancelledError):
            assert _files(root) == []
        else:
            assert await store.delete(PATH)


async def test_writer_cancelled_after_its_file_appeared_takes_it_back(
    store: local.LocalFiles, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller records no document, so a file that stayed would belong to none."""
    reached, cancelled = threading.Event(), threading.Event()
    discard = tree.Part.discard

    def wait_and_discard(part: tree.Part) -> None:
        reached.set()
        cancelled.wait(20)
        discard(part)

    monkeypatch.setattr(tree.Part, "discard", wait_and_discard)
    writer = asyncio.create_task(store.write(PATH, places.of(b"x")))
    await asyncio.to_thread(reached.wait, 20)
    writer.cancel()
    await asyncio.sleep(0)
    cancelled.set()
    with pytest.raises(asyncio.CancelledError):
        await writer
    assert _files(root) == []


async def test_what_a_killed_writer_left_is_tidied(store: local.LocalFiles, root: Path) -> None:
    """Only after a while: somebody may still be writing."""
    abandoned = tree.Part.create(root)
    abandoned.file.close()
    now = datetime.now(UTC)

    assert await places.listed(store) == []
    assert await store.tidy(now - timedelta(hours=1)) == 0
    assert await store.tidy(now + timedelta(hours=1)) == 1
    assert _files(root) == []


async def test_nothing_is_tidied_where_nothing_is(store: local.LocalFiles) -> None:
    """A new store has no rubbish."""
    assert await store.tidy(datetime.now(UTC)) == 0


async def test_files_of_others_are_not_listed(store: local.LocalFiles, root: Path) -> None:
    """What has no path in our sense could not be deleted either."""
    await store.write("a/b", places.of(b"x"))
    (root / "a" / ".DS_Store").write_bytes(b"")
    (root / "a" / "line\nbreak").write_bytes(b"")
    (root / "a" / os.fsdecode(b"\xff\xfe")).write_bytes(b"")

    assert await places.listed(store) == ["a/b"]


async def test_many_files_are_listed(store: local.LocalFiles, root: Path) -> None:
    """More than are looked at in one go."""
    await store.write("a/0", places.of(b"x"))
    for number in range(1, 600):
        (root / "a" / str(number)).touch()

    assert len(await places.listed(store)) == 600


async def test_there_is_no_url_without_a_server(root: Path) -> None:
    """Somebody must serve it."""
    assert await local.LocalFiles(root).signed_url(PATH, 60) is None
    signed = local.LocalFiles(root, signing.Signer("https://files.example.org", "key"))
    assert await signed.signed_url(PATH, 60)
