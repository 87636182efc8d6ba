"""What every store promises, wherever it keeps its files."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import httpx
import pytest

from pagewarden import errors, files
from tests.files import places

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
    """The source of the bytes broke."""


async def _failing(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    raise SourceFailed


@pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)) * 5000], ids=len)
async def test_what_is_written_is_read(store: files.FileStore, content: bytes) -> None:
    """The bytes come back, and size and hash are theirs."""
    stored = await store.write(PATH, places.of(content))

    assert stored == files.Stored(PATH, len(content), hashlib.sha256(content).hexdigest())
    assert await places.contents(store, PATH) == content


async def test_large_file_is_written_and_read_in_pieces(store: files.FileStore) -> None:
    """A file of more than 20 MB comes back as it was."""
    pieces = [bytes([number]) * 700_000 for number in range(30)]

    stored = await store.write(PATH, places.of(*pieces))

    read = hashlib.sha256()
    largest = 0
    async for chunk in store.read(PATH):
        read.update(chunk)
        largest = max(largest, len(chunk))
    assert read.hexdigest() == stored.sha256 == hashlib.sha256(b"".join(pieces)).hexdigest()
    assert stored.size == 21_000_000
    assert largest <= 4 * MEGABYTE


async def test_one_large_chunk_is_taken_too(store: files.FileStore) -> None:
    """Sources need not know how large our blocks are."""
    content = b"".join(LARGE)

    await store.write(PATH, places.of(content, b"", b"!"))

    assert await places.contents(store, PATH) == content + b"!"


async def test_file_appears_only_when_it_is_complete(store: files.FileStore) -> None:
    """Nobody sees half a file."""
    seen: list[object] = []

    async def source() -> AsyncIterator[bytes]:
        for chunk in LARGE:
            yield chunk
        seen.append(await store.stat(PATH))
        seen.extend(await places.listed(store))

    await store.write(PATH, source())

    assert seen == [None]
    assert await places.listed(store) == [PATH]


@pytest.mark.parametrize("pieces", [[], SMALL, LARGE], ids=["none", "small", "large"])
async def test_failing_source_leaves_nothing(
    store: files.FileStore, place: places.Place, pieces: list[bytes]
) -> None:
    """The error of the source comes out as it is, and no file is there."""
    with pytest.raises(SourceFailed):
        await store.write(PATH, _failing(*pieces))

    assert place.leftovers() == []


async def test_os_error_of_the_source_is_not_ours(store: files.FileStore) -> None:
    """A client that hangs up is not a broken store."""

    async def source() -> AsyncIterator[bytes]:
        yield b"x" * 8 * MEGABYTE
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await store.write(PATH, source())


@pytest.mark.parametrize("pieces", [SMALL, LARGE], ids=["small", "large"])
async def test_cancelled_writer_leaves_nothing(
    store: files.FileStore, place: places.Place, pieces: list[bytes]
) -> None:
    """Whoever waits for the source in vain is stopped without a trace."""
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
    assert place.leftovers() == []


@pytest.mark.parametrize("pieces", [SMALL, LARGE], ids=["small", "large"])
async def test_writer_cancelled_at_the_end_leaves_nothing(
    store: files.FileStore, place: places.Place, pieces: list[bytes]
) -> None:
    """Even when everything was handed over: what was already kept is taken back."""

    async def source() -> AsyncIterator[bytes]:
        for chunk in pieces:
            yield chunk
        asyncio.get_running_loop().call_soon(writer.cancel)

    writer = asyncio.create_task(store.write(PATH, source()))

    with pytest.raises(asyncio.CancelledError):
        await writer
    assert place.leftovers() == []


async def test_limit_itself_is_allowed(store: files.FileStore) -> None:
    """A file of exactly the limit is kept, and one byte more is too much."""
    assert (await store.write(PATH, places.of(b"abc"), limit=3)).size == 3
    with pytest.raises(errors.FileTooLarge):
        await store.write("another", places.of(b"abc", b"d"), limit=3)


@pytest.mark.parametrize("limit", [3, 15 * MEGABYTE])
async def test_more_than_the_limit_is_refused(
    store: files.FileStore, place: places.Place, limit: int
) -> None:
    """A source that never ends is stopped, and nothing of it is kept."""

    async def source() -> AsyncIterator[bytes]:
        for _ in itertools.count():
            yield b"x" * MEGABYTE

    with pytest.raises(errors.FileTooLarge, match=str(limit)) as caught:
        await store.write(PATH, source(), limit=limit)

    assert caught.value.limit == limit
    assert place.leftovers() == []


@pytest.mark.parametrize("pieces", [[b"second"], [b"first"], LARGE], ids=["other", "same", "large"])
async def test_file_is_never_overwritten(store: files.FileStore, pieces: list[bytes]) -> None:
    """The second writer is told, even with the same bytes, and the first file stays."""
    await store.write(PATH, places.of(b"first"))

    with pytest.raises(errors.FileExists, match="scan"):
        await store.write(PATH, places.of(*pieces))

    assert await places.contents(store, PATH) == b"first"
    assert await places.listed(store) == [PATH]


@pytest.mark.parametrize("size", [10, 7 * MEGABYTE], ids=["small", "large"])
async def test_one_of_many_writers_wins(
    store: files.FileStore, place: places.Place, size: int
) -> None:
    """Writers that start together get one winner, whose bytes are there."""
    contents = [bytes([number]) * size for number in range(3)]

    results = await asyncio.gather(
        *(store.write(PATH, places.of(content)) for content in contents), return_exceptions=True
    )

    (winner,) = [number for number, r in enumerate(results) if isinstance(r, files.Stored)]
    assert sum(isinstance(result, errors.FileExists) for result in results) == 2
    assert await places.contents(store, PATH) == contents[winner]
    assert len(place.leftovers()) == 1


async def test_list_goes_below_a_folder(store: files.FileStore) -> None:
    """A prefix is a folder, not the beginning of a name."""
    for path in ("a/1", "a/b/2", "ab/3", "c"):
        await store.write(path, places.of(b"x"))

    assert await places.listed(store) == ["a/1", "a/b/2", "ab/3", "c"]
    assert await places.listed(store, "a") == await places.listed(store, "a/") == ["a/1", "a/b/2"]
    assert await places.listed(store, "a/b") == ["a/b/2"]
    assert await places.listed(store, "c") == await places.listed(store, "nowhere") == []


async def test_list_of_an_empty_store_is_empty(store: files.FileStore) -> None:
    """A store that nobody wrote to has no files."""
    assert await places.listed(store) == []


async def test_list_may_be_left_early(store: files.FileStore) -> None:
    """Whoever found what they looked for can stop."""
    for number in range(3):
        await store.write(f"a/{number}", places.of(b"x"))

    async for entry in store.list():
        assert entry.size == 1
        break


async def test_deleted_file_is_gone(store: files.FileStore, place: places.Place) -> None:
    """The second time there is nothing to delete, and the path can be used again."""
    await store.write(PATH, places.of(b"x"))

    assert await store.delete(PATH) is True
    assert await store.delete(PATH) is False
    assert await store.stat(PATH) is None
    assert place.leftovers() == []
    await store.write(PATH, places.of(b"y"))


async def test_folder_is_not_deleted(store: files.FileStore) -> None:
    """Only files are."""
    await store.write("a/b/c", places.of(b"x"))

    assert await store.delete("a/b") is False
    assert await store.stat("a/b") is None
    assert await places.listed(store) == ["a/b/c"]


async def test_stat_tells_size_and_time(store: files.FileStore) -> None:
    """The time is in UTC, and that of the writing."""
    await store.write(PATH, places.of(b"abc"))

    entry = await store.stat(PATH)

    assert entry is not None
    assert (entry.path, entry.size) == (PATH, 3)
    assert entry.modified.utcoffset() == timedelta(0)
    assert abs(entry.modified - datetime.now(UTC)) < timedelta(minutes=1)
    (only,) = [found async for found in store.list()]
    assert (only.path, only.size) == (PATH, 3)


async def test_reading_can_start_anywhere(store: files.FileStore) -> None:
    """At the end and behind it there is nothing."""
    await store.write(PATH, places.of(b"0123456789"))

    for start in (0, 1, 9, 10, 11):
        assert await places.contents(store, PATH, start) == b"0123456789"[start:]


async def test_missing_file_cannot_be_read(store: files.FileStore) -> None:
    """The error names it."""
    await store.write("a/b", places.of(b"x"))

    for path, start in itertools.product((PATH, "a"), (0, 1)):
        with pytest.raises(errors.FileNotThere, match=path):
            await places.contents(store, path, start)


async def test_reader_may_leave_early(store: files.FileStore) -> None:
    """Nothing warns of it, and the store can be used further."""
    await store.write(PATH, places.of(*LARGE))

    async with contextlib.aclosing(store.read(PATH)) as chunks:
        assert await anext(chunks)

    assert await places.contents(store, PATH, 9_099_999) == b"\x0c"


async def test_fetched_file_is_private_and_complete(store: files.FileStore, tmp_path: Path) -> None:
    """What was there is replaced, and nothing lies beside it."""
    target = tmp_path / "target" / "copy"
    target.parent.mkdir()
    target.write_bytes(b"old")
    await store.write(PATH, places.of(*LARGE))

    await store.fetch(PATH, target)

    assert target.read_bytes() == b"".join(LARGE)
    assert target.stat().st_mode & 0o777 == 0o600
    assert list(target.parent.iterdir()) == [target]


async def test_file_that_cannot_be_fetched_leaves_the_target(
    store: files.FileStore, tmp_path: Path
) -> None:
    """Half a copy is none."""
    target = tmp_path / "target" / "copy"
    target.parent.mkdir()
    target.write_bytes(b"old")
    await store.write("another", places.of(b"x"))

    with pytest.raises(errors.FileNotThere):
        await store.fetch(PATH, target)

    assert target.read_bytes() == b"old"
    assert list(target.parent.iterdir()) == [target]


async def test_signed_url_opens_the_file(store: files.FileStore) -> None:
    """Anybody can get it, without a key."""
    path = "case/doc/Übersicht (2) + 50%.pdf"
    await store.write(path, places.of(b"for others"))

    url = await store.signed_url(path, 60)

    assert url is not None
    async with httpx.AsyncClient() as client:
        assert (await client.get(url)).content == b"for others"


async def test_signed_url_for_too_long_is_refused(store: files.FileStore) -> None:
    """No store could keep the promise."""
    for seconds in (0, -1, files.MAX_URL_SECONDS + 1):
        with pytest.raises(ValueError, match="seconds"):
            await store.signed_url(PATH, seconds)


async def test_names_are_kept(store: files.FileStore) -> None:
    """Every script, and what some stores do not like."""
    paths = sorted(f"{name}/{files.safe_name(name)}" for name in NAMES)
    assert paths == sorted(f"{name}/{name}" for name in NAMES)

    for path in paths:
        await store.write(path, places.of(path.encode()))

    assert await places.listed(store) == paths
    for path in paths:
        assert await places.listed(store, path.partition("/")[0]) == [path]
        assert await places.contents(store, path) == path.encode()
        assert await store.delete(path)


async def test_path_with_a_trick_is_refused(store: files.FileStore, tmp_path: Path) -> None:
    """Whatever is wanted with it."""
    calls: list[Callable[[str], Awaitable[object]]] = [
        lambda path: store.write(path, places.of(b"x")),
        lambda path: store.fetch(path, tmp_path / "target"),
        lambda path: store.signed_url(path, 60),
        lambda path: places.contents(store, path),
        store.delete,
        store.stat,
    ]
    for path in ("../x", "/etc/passwd", "a//b", "a/../b", "a\\b", "a\0b", "", ".", ".incoming/x"):
        for call in calls:
            with pytest.raises(errors.UnsafePath):
                await call(path)


async def test_prefix_with_a_trick_is_refused(store: files.FileStore) -> None:
    """The whole store is the empty one."""
    for prefix in ("..", "/", "a/../..", "a//b", ".incoming"):
        with pytest.raises(errors.UnsafePath):
            await places.listed(store, prefix)


async def test_ping_of_a_store_that_works_says_nothing(
    store: files.FileStore, place: places.Place
) -> None:
    """Nor does it leave anything."""
    await store.ping()

    assert place.leftovers() == []


async def test_there_is_nothing_to_tidy(store: files.FileStore) -> None:
    """Files are no rubbish."""
    await store.write(PATH, places.of(b"x"))

    assert await store.tidy(datetime.now(UTC) + timedelta(hours=1)) == 0
    assert await store.stat(PATH)
