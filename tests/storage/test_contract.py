"""The contract of all stores."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import httpx
import pytest

from pagewarden import errors, storage
from tests.storage import stores

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

PATH = "case/document/scan.pdf"
MEGABYTE = 1024 * 1024
SMALL = [b"small"]
LARGE = [bytes([number]) * 700_000 for number in range(13)]  # 9 MB, more than any block
NAMES = [
    "Grüße aus Köln.pdf",
    "扫描 文件.tiff",
    "می‌خواهم.jpg",
    "👩‍👩‍👧 famille.png",
    "100% =C3=A9 ~x [a]{b}#c&d'e`^;@+,$!.pdf",
    "x" * 251 + ".pdf",
]


class SourceFailed(Exception):
    """The source failed."""


async def _failing(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    raise SourceFailed


@pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)) * 5000], ids=len)
async def test_written_content_is_read_back(store: storage.FileStore, content: bytes) -> None:
    """With its size and hash."""
    stored = await store.write(PATH, stores.chunks_of(content))

    assert stored == storage.WrittenFile(PATH, len(content), hashlib.sha256(content).hexdigest())
    assert await stores.read_all(store, PATH) == content


async def test_large_file_is_streamed(store: storage.FileStore) -> None:
    """More than 20 MB, in chunks of at most 4 MiB."""
    pieces = [bytes([number]) * 700_000 for number in range(30)]

    stored = await store.write(PATH, stores.chunks_of(*pieces))

    read = hashlib.sha256()
    largest = 0
    async for chunk in store.read(PATH):
        read.update(chunk)
        largest = max(largest, len(chunk))
    assert read.hexdigest() == stored.sha256 == hashlib.sha256(b"".join(pieces)).hexdigest()
    assert stored.size == 21_000_000
    assert largest <= 4 * MEGABYTE


async def test_source_may_have_large_chunks(store: storage.FileStore) -> None:
    """Sources need not know the size of blocks."""
    content = b"".join(LARGE)

    await store.write(PATH, stores.chunks_of(content, b"", b"!"))

    assert await stores.read_all(store, PATH) == content + b"!"


async def test_file_is_visible_only_when_complete(store: storage.FileStore) -> None:
    """Readers never see an incomplete file."""
    seen: list[object] = []

    async def source() -> AsyncIterator[bytes]:
        for chunk in LARGE:
            yield chunk
        seen.append(await store.stat(PATH))
        seen.extend(await stores.list_paths(store))

    await store.write(PATH, source())

    assert seen == [None]
    assert await stores.list_paths(store) == [PATH]


@pytest.mark.parametrize("pieces", [[], SMALL, LARGE], ids=["none", "small", "large"])
async def test_failing_source_leaves_nothing(
    store: storage.FileStore, backend: stores.Backend, pieces: list[bytes]
) -> None:
    """Its error is raised unchanged."""
    with pytest.raises(SourceFailed):
        await store.write(PATH, _failing(*pieces))

    assert backend.list_all() == []


async def test_os_error_of_the_source_is_not_translated(store: storage.FileStore) -> None:
    """A client that disconnects is not a store failure."""

    async def source() -> AsyncIterator[bytes]:
        yield b"x" * 8 * MEGABYTE
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await store.write(PATH, source())


@pytest.mark.parametrize("pieces", [SMALL, LARGE], ids=["small", "large"])
async def test_cancelled_writer_leaves_nothing(
    store: storage.FileStore, backend: stores.Backend, pieces: list[bytes]
) -> None:
    """Also while it waits for the source."""
    reached = asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        for chunk in pieces:
            yield chunk
        reached.set()
        await asyncio.Event().wait()

    writer = asyncio.create_task(store.write(PATH, source()))
    await reached.wait()
    writer.cancel()

    with pytest.raises(asyncio.CancelledError):
        await writer
    assert backend.list_all() == []


@pytest.mark.parametrize("pieces", [SMALL, LARGE], ids=["small", "large"])
async def test_writer_cancelled_after_the_last_chunk_leaves_nothing(
    store: storage.FileStore, backend: stores.Backend, pieces: list[bytes]
) -> None:
    """A file that is already visible is deleted again."""

    async def source() -> AsyncIterator[bytes]:
        for chunk in pieces:
            yield chunk
        asyncio.get_running_loop().call_soon(writer.cancel)

    writer = asyncio.create_task(store.write(PATH, source()))

    with pytest.raises(asyncio.CancelledError):
        await writer
    assert backend.list_all() == []


async def test_file_of_exactly_the_limit_is_allowed(store: storage.FileStore) -> None:
    """One byte more is too large."""
    assert (await store.write(PATH, stores.chunks_of(b"abc"), limit=3)).size == 3
    with pytest.raises(errors.FileTooLarge):
        await store.write("another", stores.chunks_of(b"abc", b"d"), limit=3)


@pytest.mark.parametrize("limit", [3, 15 * MEGABYTE])
async def test_file_above_the_limit_is_refused(
    store: storage.FileStore, backend: stores.Backend, limit: int
) -> None:
    """An endless source is stopped, and nothing is stored."""

    async def source() -> AsyncIterator[bytes]:
        for _ in itertools.count():
            yield b"x" * MEGABYTE

    with pytest.raises(errors.FileTooLarge, match=str(limit)) as caught:
        await store.write(PATH, source(), limit=limit)

    assert caught.value.limit == limit
    assert backend.list_all() == []


@pytest.mark.parametrize("pieces", [[b"second"], [b"first"], LARGE], ids=["other", "same", "large"])
async def test_file_is_never_overwritten(store: storage.FileStore, pieces: list[bytes]) -> None:
    """The second writer gets an error, even with the same content."""
    await store.write(PATH, stores.chunks_of(b"first"))

    with pytest.raises(errors.FileExists, match="scan"):
        await store.write(PATH, stores.chunks_of(*pieces))

    assert await stores.read_all(store, PATH) == b"first"
    assert await stores.list_paths(store) == [PATH]


@pytest.mark.parametrize("size", [10, 7 * MEGABYTE], ids=["small", "large"])
async def test_one_of_concurrent_writers_wins(
    store: storage.FileStore, backend: stores.Backend, size: int
) -> None:
    """Its content is stored, and the others get an error."""
    contents = [bytes([number]) * size for number in range(3)]

    results = await asyncio.gather(
        *(store.write(PATH, stores.chunks_of(content)) for content in contents),
        return_exceptions=True,
    )

    (winner,) = [number for number, r in enumerate(results) if isinstance(r, storage.WrittenFile)]
    assert sum(isinstance(result, errors.FileExists) for result in results) == 2
    assert await stores.read_all(store, PATH) == contents[winner]
    assert len(backend.list_all()) == 1


async def test_list_includes_subfolders(store: storage.FileStore) -> None:
    """A prefix is a folder, not the start of a name."""
    for path in ("a/1", "a/b/2", "ab/3", "c"):
        await store.write(path, stores.chunks_of(b"x"))

    assert await stores.list_paths(store) == ["a/1", "a/b/2", "ab/3", "c"]
    assert (
        await stores.list_paths(store, "a")
        == await stores.list_paths(store, "a/")
        == ["a/1", "a/b/2"]
    )
    assert await stores.list_paths(store, "a/b") == ["a/b/2"]
    assert await stores.list_paths(store, "c") == await stores.list_paths(store, "nowhere") == []


async def test_list_of_an_empty_store_is_empty(store: storage.FileStore) -> None:
    """A new store has no files."""
    assert await stores.list_paths(store) == []


async def test_list_can_be_stopped_early(store: storage.FileStore) -> None:
    """The caller need not read all entries."""
    for number in range(3):
        await store.write(f"a/{number}", stores.chunks_of(b"x"))

    async for entry in store.list():
        assert entry.size == 1
        break


async def test_deleted_file_does_not_exist(
    store: storage.FileStore, backend: stores.Backend
) -> None:
    """A second deletion returns False, and the path can be used again."""
    await store.write(PATH, stores.chunks_of(b"x"))

    assert await store.delete(PATH) is True
    assert await store.delete(PATH) is False
    assert await store.stat(PATH) is None
    assert backend.list_all() == []
    await store.write(PATH, stores.chunks_of(b"y"))


async def test_folder_is_not_deleted(store: storage.FileStore) -> None:
    """Deletion is for files only."""
    await store.write("a/b/c", stores.chunks_of(b"x"))

    assert await store.delete("a/b") is False
    assert await store.stat("a/b") is None
    assert await stores.list_paths(store) == ["a/b/c"]


async def test_stat_returns_size_and_time(store: storage.FileStore) -> None:
    """The time of writing in UTC."""
    await store.write(PATH, stores.chunks_of(b"abc"))

    entry = await store.stat(PATH)

    assert entry is not None
    assert (entry.path, entry.size) == (PATH, 3)
    assert entry.modified.utcoffset() == timedelta(0)
    assert abs(entry.modified - datetime.now(UTC)) < timedelta(minutes=1)
    (only,) = [found async for found in store.list()]
    assert (only.path, only.size) == (PATH, 3)


async def test_reading_can_start_at_any_position(store: storage.FileStore) -> None:
    """At or after the end, nothing is read."""
    await store.write(PATH, stores.chunks_of(b"0123456789"))

    for start in (0, 1, 9, 10, 11):
        assert await stores.read_all(store, PATH, start) == b"0123456789"[start:]


async def test_missing_file_cannot_be_read(store: storage.FileStore) -> None:
    """The error names the path."""
    await store.write("a/b", stores.chunks_of(b"x"))

    for path, start in itertools.product((PATH, "a"), (0, 1)):
        with pytest.raises(errors.FileNotFound, match=path):
            await stores.read_all(store, path, start)


async def test_reader_can_be_closed_early(store: storage.FileStore) -> None:
    """Without a warning, and the store remains usable."""
    await store.write(PATH, stores.chunks_of(*LARGE))

    async with contextlib.aclosing(store.read(PATH)) as chunks:
        assert await anext(chunks)

    assert await stores.read_all(store, PATH, 9_099_999) == b"\x0c"


async def test_fetched_file_is_private_and_complete(
    store: storage.FileStore, tmp_path: Path
) -> None:
    """It replaces the target, and leaves no temporary file."""
    target = tmp_path / "target" / "copy"
    target.parent.mkdir()
    target.write_bytes(b"old")
    await store.write(PATH, stores.chunks_of(*LARGE))

    await store.fetch(PATH, target)

    assert target.read_bytes() == b"".join(LARGE)
    assert target.stat().st_mode & 0o777 == 0o600
    assert list(target.parent.iterdir()) == [target]


async def test_failed_fetch_leaves_the_target(store: storage.FileStore, tmp_path: Path) -> None:
    """And no temporary file."""
    target = tmp_path / "target" / "copy"
    target.parent.mkdir()
    target.write_bytes(b"old")
    await store.write("another", stores.chunks_of(b"x"))

    with pytest.raises(errors.FileNotFound):
        await store.fetch(PATH, target)

    assert target.read_bytes() == b"old"
    assert list(target.parent.iterdir()) == [target]


async def test_signed_url_opens_the_file(store: storage.FileStore) -> None:
    """Without any other credentials."""
    path = "case/doc/Übersicht (2) + 50%.pdf"
    await store.write(path, stores.chunks_of(b"for others"))

    url = await store.create_signed_url(path, 60)

    assert url is not None
    async with httpx.AsyncClient() as client:
        assert (await client.get(url)).content == b"for others"


async def test_signed_url_with_invalid_lifetime_is_refused(store: storage.FileStore) -> None:
    """Not all stores support it."""
    for seconds in (0, -1, storage.MAX_URL_SECONDS + 1):
        with pytest.raises(ValueError, match="seconds"):
            await store.create_signed_url(PATH, seconds)


async def test_copy_is_independent_of_its_source(
    store: storage.FileStore, backend: stores.Backend
) -> None:
    """Nothing else is left; a target is never replaced, and a missing source is an error."""
    for source, target, pieces in (("a/1", PATH, SMALL), ("a/2", "b/2", LARGE)):
        await store.write(source, stores.chunks_of(*pieces))
        await store.copy(source, target)
        await store.delete(source)
        assert await stores.read_all(store, target) == b"".join(pieces)
    assert len(backend.list_all()) == 2

    with pytest.raises(errors.FileExists, match="b/2"):
        await store.copy(PATH, "b/2")
    with pytest.raises(errors.FileNotFound, match="a/1"):
        await store.copy("a/1", "c")
    assert await stores.list_paths(store) == ["b/2", PATH]
    assert await stores.read_all(store, "b/2") == b"".join(LARGE)


async def test_upload_address_takes_one_file(store: storage.FileStore) -> None:
    """Without any other credentials, at exactly this path; a folder has no addresses."""
    content, path = b"from outside", "uploads/50% of Übersicht"
    sha256 = hashlib.sha256(content).hexdigest()

    address = await store.create_upload_address(path, size=len(content), sha256=sha256, seconds=60)

    origin = await store.get_upload_origin()
    assert (address is None) == (origin is None) == (not store.has_public_urls)
    if address is None or origin is None:
        return
    assert address.url.startswith(f"{origin}/")
    async with httpx.AsyncClient() as client:
        response = await client.request(
            address.method, address.url, headers=address.headers, content=content
        )
    assert response.status_code == 200, response.text
    assert await stores.list_paths(store) == [path]
    assert await stores.read_all(store, path) == content


async def test_names_are_kept(store: storage.FileStore) -> None:
    """In every script, and with characters that some stores do not allow."""
    paths = sorted(f"{name}/{storage.make_safe_name(name)}" for name in NAMES)
    assert paths == sorted(f"{name}/{name}" for name in NAMES)

    for path in paths:
        await store.write(path, stores.chunks_of(path.encode()))

    assert await stores.list_paths(store) == paths
    for path in paths:
        assert await stores.list_paths(store, path.partition("/")[0]) == [path]
        assert await stores.read_all(store, path) == path.encode()
        assert await store.delete(path)


async def test_unsafe_path_is_refused_by_every_method(
    store: storage.FileStore, tmp_path: Path
) -> None:
    """Before anything is read or written."""
    calls: list[Callable[[str], Awaitable[object]]] = [
        lambda path: store.write(path, stores.chunks_of(b"x")),
        lambda path: store.fetch(path, tmp_path / "target"),
        lambda path: store.create_signed_url(path, 60),
        lambda path: store.copy(path, "target"),
        lambda path: store.copy("source", path),
        lambda path: stores.read_all(store, path),
        store.delete,
        store.stat,
    ]
    for path in ("../x", "/etc/passwd", "a//b", "a/../b", "a\\b", "a\0b", "", ".", ".incoming/x"):
        for call in calls:
            with pytest.raises(errors.UnsafePath):
                await call(path)


async def test_unsafe_prefix_is_refused(store: storage.FileStore) -> None:
    """Only the empty prefix means the whole store."""
    for prefix in ("..", "/", "a/../..", "a//b", ".incoming"):
        with pytest.raises(errors.UnsafePath):
            await stores.list_paths(store, prefix)


async def test_ping_of_a_working_store_raises_nothing(
    store: storage.FileStore, backend: stores.Backend
) -> None:
    """And leaves nothing."""
    await store.ping()

    assert backend.list_all() == []


async def test_finished_files_are_not_removed_as_unfinished(store: storage.FileStore) -> None:
    """Whatever their age."""
    await store.write(PATH, stores.chunks_of(b"x"))

    assert await store.remove_unfinished(datetime.now(UTC) + timedelta(hours=1)) == 0
    assert await store.stat(PATH)
