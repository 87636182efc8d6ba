"""A Dropbox as a store: what goes wrong on the way there, and there."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import pytest
from dropbox import files as library  # type: ignore[import-untyped]  # has no types

from pagewarden import errors, retry
from pagewarden.files import dropbox as dropbox_module
from pagewarden.files.dropbox import hashing
from tests.files import places
from tests.files.naps import Naps
from tests.support import dropbox_server
from tests.support.dropbox_server import BREAK_OFF, BROKEN, CORRUPT, HANG_UP, LOSE_ANSWER, WAIT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from tests.support.dropbox_server import DropboxServer, Fault

PATH = "case/document/scan.pdf"
MEBIBYTE = 1024 * 1024
LARGE = b"".join(bytes([number]) * 1_000_000 for number in range(17))  # three blocks

NO_JSON = dropbox_server.Fault(status=200, body="<html>")
APPEND = "upload_session/append_v2"
FINISH = "upload_session/finish"


@pytest.fixture
def naps() -> Naps:
    """Note what is slept."""
    return Naps()


@pytest.fixture
async def store(dropbox: DropboxServer, naps: Naps) -> AsyncIterator[dropbox_module.DropboxFiles]:
    """Open a store that sleeps in no time."""
    async with _store(dropbox, naps) as opened:
        yield opened


def _store(
    dropbox: DropboxServer,
    sleep: Callable[[float], Awaitable[None]],
    secret: str = dropbox_server.APP_SECRET,
) -> dropbox_module.DropboxFiles:
    credentials = dropbox_module.Credentials(
        dropbox_server.APP_KEY, secret, dropbox_server.REFRESH_TOKEN
    )
    api = dropbox_module.Api(dropbox.url, dropbox.url, credentials)
    return dropbox_module.DropboxFiles(api, "Files", retry.RetryPolicy(sleep=sleep))


def _kept(dropbox: DropboxServer) -> dict[str, bytes]:
    return {path: file.content for path, file in dropbox.files.items()}


async def test_large_file_goes_in_a_session_and_a_small_one_in_one_request(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer
) -> None:
    """Blocks are of 8 MiB."""
    await store.write("small", places.of(LARGE[: 8 * MEBIBYTE]))
    assert dropbox.requests == ["oauth2/token", "upload"]
    dropbox.requests.clear()

    await store.write("large", places.of(LARGE))

    assert dropbox.requests == ["upload_session/start", APPEND, APPEND, FINISH]
    assert _kept(dropbox) == {"/files/small": LARGE[: 8 * MEBIBYTE], "/files/large": LARGE}


async def test_expired_token_is_replaced(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer, naps: Naps
) -> None:
    """In the middle of an upload nobody notices, and many who meet it fetch one token."""
    await store.ping()
    dropbox.expire_token()
    await store.write(PATH, places.of(LARGE))
    dropbox.expire_token()
    dropbox.requests.clear()

    assert all(await asyncio.gather(*(store.stat(PATH) for _ in range(5))))

    assert dropbox.requests.count("oauth2/token") == 1
    assert naps.seconds == []


async def test_token_is_replaced_before_its_end(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer
) -> None:
    """A large upload should not fail for a minute."""
    dropbox.lifetime = 200
    await store.ping()
    await store.ping()

    assert dropbox.requests.count("oauth2/token") == 2


async def test_refused_refresh_token_is_told(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer, naps: Naps
) -> None:
    """The operator learns what to do, and the log learns no secret."""
    dropbox.refresh_token = "another"

    with pytest.raises(errors.StoreKeyRefused, match="DROPBOX_REFRESH_TOKEN") as caught:
        await store.ping()

    assert dropbox_server.REFRESH_TOKEN not in str(caught.value)
    assert naps.seconds == []


async def test_app_without_its_secret_sends_none(dropbox: DropboxServer, naps: Naps) -> None:
    """As PKCE has it; this app needs one."""
    async with _store(dropbox, naps, secret="") as store:
        with pytest.raises(errors.StoreKeyRefused):
            await store.ping()


async def test_missing_permission_is_told(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer
) -> None:
    """A new token would not help, and one more is tried."""
    missing = {"error": {".tag": "missing_scope", "required_scope": "files.content.write"}}
    refused = dropbox_server.Fault(status=401, body=missing)
    dropbox.faults["upload"] = [refused, refused]

    with pytest.raises(errors.StoreKeyRefused, match=r"files\.content\.write"):
        await store.write(PATH, places.of(b"x"))


async def test_busy_dropbox_is_given_the_time_it_wants(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer, naps: Naps
) -> None:
    """Retry-After counts, when it is longer than our own pause."""
    dropbox.faults["upload"] = [dropbox_server.busy(7), dropbox_server.busy(0)]

    await store.write(PATH, places.of(b"x"))

    assert naps.seconds == [7, pytest.approx(0.5, rel=0.25)]


async def test_dropbox_that_wants_long_is_away(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer, naps: Naps
) -> None:
    """Nobody waits for minutes inside a call; the caller is told how long."""
    dropbox.faults["upload"] = [dropbox_server.busy(300)]

    with pytest.raises(errors.StoreAway) as caught:
        await store.write(PATH, places.of(b"x"))

    assert caught.value.retry_after == 300
    assert naps.seconds == []


@pytest.mark.parametrize(
    "fault", [BROKEN, HANG_UP, dropbox_server.Fault(status=200, body="<html>")]
)
@pytest.mark.parametrize("route", ["get_metadata", "oauth2/token"])
async def test_what_fails_in_passing_is_tried_again(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer, naps: Naps, fault: Fault, route: str
) -> None:
    """Five times, further and further apart; then the store is away."""
    dropbox.faults[route] = [fault] * 5
    assert await store.stat(PATH) is None
    pauses = [pytest.approx(seconds, rel=0.25) for seconds in retry.PAUSE_SECONDS]
    assert naps.seconds == pauses

    dropbox.expire_token()
    dropbox.faults[route] = [fault] * 6
    with pytest.raises(errors.StoreAway, match="Dropbox"):
        await store.stat(PATH)
    assert naps.seconds == [*pauses, *pauses]


async def test_unreachable_dropbox_is_away(dropbox: DropboxServer, naps: Naps) -> None:
    """Nobody listens there."""
    dropbox.url = "http://127.0.0.1:9"
    async with _store(dropbox, naps) as store:
        with pytest.raises(errors.StoreAway, match="cannot be reached"):
            await store.ping()


@pytest.mark.parametrize("fault", [HANG_UP, LOSE_ANSWER, BROKEN], ids=lambda fault: fault.way)
async def test_session_survives_a_dropped_connection(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer, fault: Fault
) -> None:
    """Whether the request got through or not, every byte is there once."""
    for route in ("upload_session/start", APPEND, FINISH):
        dropbox.faults[route] = [fault, fault]

    stored = await store.write(PATH, places.of(LARGE))

    assert _kept(dropbox) == {f"/files/{PATH}": LARGE}
    assert stored.sha256 == hashlib.sha256(LARGE).hexdigest()


async def test_small_file_survives_a_lost_answer(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer
) -> None:
    """The file in the way of the second try is our own."""
    dropbox.faults["upload"] = [LOSE_ANSWER]

    await store.write(PATH, places.of(b"x"))

    assert _kept(dropbox) == {f"/files/{PATH}": b"x"}


async def test_file_of_another_is_not_taken_for_ours(dropbox: DropboxServer) -> None:
    """Somebody was quicker while our connection was down."""

    async def somebody_writes(_seconds: float) -> None:
        place = f"/Files/{PATH}"
        dropbox.files[place.lower()] = dropbox_server.File(place, b"theirs")

    dropbox.faults["upload"] = [HANG_UP]
    async with _store(dropbox, somebody_writes) as store:
        with pytest.raises(errors.FileExists):
            await store.write(PATH, places.of(b"ours"))

    assert _kept(dropbox) == {f"/files/{PATH}": b"theirs"}


async def test_lost_session_is_an_outage(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer
) -> None:
    """The caller can send the file again; it is not a file that is missing."""

    async def source() -> AsyncIterator[bytes]:
        for start in range(0, len(LARGE), MEBIBYTE):
            yield LARGE[start : start + MEBIBYTE]
            if start > 15 * MEBIBYTE:
                dropbox.sessions.clear()

    with pytest.raises(errors.StoreAway, match="half-way"):
        await store.write(PATH, source())

    assert _kept(dropbox) == {}


@pytest.mark.parametrize("content", [b"x" * 100, LARGE], ids=["small", "large"])
async def test_full_dropbox_is_told(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer, naps: Naps, content: bytes
) -> None:
    """It is not tried again, and nothing is kept."""
    dropbox.capacity = 99

    with pytest.raises(errors.StoreFull, match="insufficient_space"):
        await store.write(PATH, places.of(content))

    assert _kept(dropbox) == {}
    assert naps.seconds == []


def _write_failed(reason: Any) -> Callable[[], Fault]:
    failed = library.UploadWriteFailed(reason=reason, upload_session_id="unused")
    return lambda: dropbox_server.refusal(library.upload, library.UploadError.path(failed))


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (library.WriteError.disallowed_name, errors.UnsafePath),
        (library.WriteError.no_write_permission, errors.StoreUnusable),
        (library.WriteError.upload_traffic_limit_reached, errors.StoreFull),
        (library.WriteError.conflict(library.WriteConflictError.file_ancestor), errors.FileExists),
    ],
    ids=str,
)
async def test_refusal_is_told_apart(
    store: dropbox_module.DropboxFiles,
    dropbox: DropboxServer,
    naps: Naps,
    reason: Any,
    kind: type[errors.FileStoreError],
) -> None:
    """By the words of Dropbox, at once."""
    dropbox.faults["upload"] = [_write_failed(reason)()]

    with pytest.raises(kind):
        await store.write(PATH, places.of(b"x"))
    assert naps.seconds == []


async def test_refusal_that_passes_is_tried_again(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer, naps: Naps
) -> None:
    """Too many writers in one Dropbox, or bytes that were damaged on the way."""
    damaged = library.UploadError.content_hash_mismatch
    dropbox.faults["upload"] = [
        _write_failed(library.WriteError.too_many_write_operations)(),
        dropbox_server.refusal(library.upload, damaged),
    ]

    await store.write(PATH, places.of(b"x"))

    assert len(naps.seconds) == 2


async def test_call_that_is_not_understood_is_told(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer
) -> None:
    """Something else than Dropbox listens there, or its API has changed."""
    dropbox.faults["get_metadata"] = [dropbox_server.Fault(status=400, body="Error in call")]

    with pytest.raises(errors.StoreUnusable, match="Error in call"):
        await store.stat(PATH)


async def test_broken_download_is_taken_up_where_it_broke(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer
) -> None:
    """Each byte comes once, however often it breaks."""
    await store.write(PATH, places.of(LARGE))
    dropbox.faults["download"] = [BREAK_OFF] * 8
    dropbox.requests.clear()

    assert await places.contents(store, PATH) == LARGE
    assert dropbox.requests == ["download"] * 9


async def test_damaged_download_is_no_file(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer, tmp_path: Path
) -> None:
    """The hash of the whole tells."""
    await store.write(PATH, places.of(b"right"))
    dropbox.faults["download"] = [CORRUPT]

    with pytest.raises(errors.StoreAway, match="not what was stored"):
        await store.fetch(PATH, tmp_path / "target")

    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240  # a folder of this test


async def test_long_list_comes_in_pages(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer
) -> None:
    """All of them are read."""
    dropbox.page_size = 2
    for number in range(5):
        await store.write(f"a/{number}", places.of(b"x"))

    assert await places.listed(store) == [f"a/{number}" for number in range(5)]
    assert dropbox.requests.count("list_folder/continue") >= 2


async def test_case_makes_no_difference(store: dropbox_module.DropboxFiles) -> None:
    """Two names that differ in case only are one file, and the second is refused."""
    await store.write("a/Scan.pdf", places.of(b"x"))

    with pytest.raises(errors.FileExists):
        await store.write("a/scan.PDF", places.of(b"x"))


async def test_delete_with_a_lost_answer_has_deleted(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer
) -> None:
    """The second try finds nothing, because the first got through."""
    await store.write(PATH, places.of(b"x"))
    dropbox.faults["delete_v2"] = [LOSE_ANSWER]

    assert await store.delete(PATH) is True


@pytest.mark.parametrize("content", [b"x", LARGE], ids=["small", "large"])
async def test_writer_cancelled_while_it_commits_leaves_nothing(
    store: dropbox_module.DropboxFiles, dropbox: DropboxServer, content: bytes
) -> None:
    """What Dropbox was already told is taken back."""
    dropbox.faults["upload" if content == b"x" else FINISH] = [WAIT]
    writer = asyncio.create_task(store.write(PATH, places.of(content)))
    assert await asyncio.to_thread(dropbox.reached.wait, 10)
    writer.cancel()
    dropbox.go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await writer
    assert dropbox.requests[-1] == "delete_v2"
    assert _kept(dropbox) == {}


@pytest.mark.parametrize("size", [0, 1, 4 * MEBIBYTE - 1, 4 * MEBIBYTE, 4 * MEBIBYTE + 1])
@pytest.mark.parametrize("step", [1_000_003, 9 * MEBIBYTE])
def test_content_hash_is_that_of_dropbox(size: int, step: int) -> None:
    """Whatever the pieces in which the content comes."""
    content = (b"0123456" * 700_000)[:size]
    ours = hashing.ContentHash()
    for start in range(0, size, step):
        ours.update(content[start : start + step])

    assert ours.hexdigest() == dropbox_server.content_hash(content)
    assert hashing.ContentHash(content).hexdigest() == ours.hexdigest()


def test_secrets_are_not_shown() -> None:
    """Neither of the two."""
    shown = repr(dropbox_module.Credentials("key", "hidden", "hidden"))

    assert "hidden" not in shown
