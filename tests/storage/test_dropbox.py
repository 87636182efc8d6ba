"""The Dropbox store: requests, retries and failures."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import pytest
from dropbox import files as library  # type: ignore[import-untyped]  # has no types

from pagewarden import errors, retry
from pagewarden.storage.dropbox import Credentials, DropboxApi, DropboxFileStore
from pagewarden.storage.dropbox.store import ContentHash
from tests.storage import stores
from tests.storage.fake_sleep import FakeSleep
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
def sleep_log() -> FakeSleep:
    """Record sleeps."""
    return FakeSleep()


@pytest.fixture
async def store(dropbox: DropboxServer, sleep_log: FakeSleep) -> AsyncIterator[DropboxFileStore]:
    """Open a store with fake sleep."""
    async with _store(dropbox, sleep_log) as opened:
        yield opened


def _store(
    dropbox: DropboxServer,
    sleep: Callable[[float], Awaitable[None]],
    secret: str = dropbox_server.APP_SECRET,
) -> DropboxFileStore:
    credentials = Credentials(dropbox_server.APP_KEY, secret, dropbox_server.REFRESH_TOKEN)
    api = DropboxApi(dropbox.url, dropbox.url, credentials)
    return DropboxFileStore(api, "Files", retry.RetryPolicy(sleep=sleep))


def _contents(dropbox: DropboxServer) -> dict[str, bytes]:
    return {path: file.content for path, file in dropbox.files.items()}


async def test_large_file_is_sent_in_a_session_and_small_file_in_one_request(
    store: DropboxFileStore, dropbox: DropboxServer
) -> None:
    """Blocks have 8 MiB."""
    await store.write("small", stores.chunks_of(LARGE[: 8 * MEBIBYTE]))
    assert dropbox.requests == ["oauth2/token", "upload"]
    dropbox.requests.clear()

    await store.write("large", stores.chunks_of(LARGE))

    assert dropbox.requests == ["upload_session/start", APPEND, APPEND, FINISH]
    assert _contents(dropbox) == {"/files/small": LARGE[: 8 * MEBIBYTE], "/files/large": LARGE}


async def test_expired_token_is_renewed(
    store: DropboxFileStore, dropbox: DropboxServer, sleep_log: FakeSleep
) -> None:
    """Also during an upload; concurrent calls renew it once."""
    await store.ping()
    dropbox.expire_token()
    await store.write(PATH, stores.chunks_of(LARGE))
    dropbox.expire_token()
    dropbox.requests.clear()

    assert all(await asyncio.gather(*(store.stat(PATH) for _ in range(5))))

    assert dropbox.requests.count("oauth2/token") == 1
    assert sleep_log.seconds == []


async def test_token_is_renewed_before_it_expires(
    store: DropboxFileStore, dropbox: DropboxServer
) -> None:
    """A large upload must not fail at its end."""
    dropbox.lifetime = 200
    await store.ping()
    await store.ping()

    assert dropbox.requests.count("oauth2/token") == 2


async def test_rejected_refresh_token_error_names_the_setting(
    store: DropboxFileStore, dropbox: DropboxServer, sleep_log: FakeSleep
) -> None:
    """And has no secret."""
    dropbox.refresh_token = "another"

    with pytest.raises(errors.StoreCredentialsRejected, match="DROPBOX_REFRESH_TOKEN") as caught:
        await store.ping()

    assert dropbox_server.REFRESH_TOKEN not in str(caught.value)
    assert sleep_log.seconds == []


async def test_app_without_secret_sends_none(dropbox: DropboxServer, sleep_log: FakeSleep) -> None:
    """As with PKCE; the app of this test requires one."""
    async with _store(dropbox, sleep_log, secret="") as store:
        with pytest.raises(errors.StoreCredentialsRejected):
            await store.ping()


async def test_missing_permission_error_names_it(
    store: DropboxFileStore, dropbox: DropboxServer
) -> None:
    """After one attempt with a new token."""
    missing = {"error": {".tag": "missing_scope", "required_scope": "files.content.write"}}
    refused = dropbox_server.Fault(status=401, body=missing)
    dropbox.faults["upload"] = [refused, refused]

    with pytest.raises(errors.StoreCredentialsRejected, match=r"files\.content\.write"):
        await store.write(PATH, stores.chunks_of(b"x"))


async def test_retry_after_is_respected(
    store: DropboxFileStore, dropbox: DropboxServer, sleep_log: FakeSleep
) -> None:
    """If it is longer than our own pause."""
    unavailable = dropbox_server.Fault(status=503, headers={"Retry-After": "9"})
    dropbox.faults["upload"] = [
        dropbox_server.rate_limit_fault(7),
        unavailable,
        dropbox_server.rate_limit_fault(0),
    ]

    await store.write(PATH, stores.chunks_of(b"x"))

    assert sleep_log.seconds == [7, 9, pytest.approx(1, rel=0.25)]


async def test_long_retry_after_is_an_outage(
    store: DropboxFileStore, dropbox: DropboxServer, sleep_log: FakeSleep
) -> None:
    """A call does not wait for minutes; the error has the time."""
    dropbox.faults["upload"] = [dropbox_server.rate_limit_fault(300)]

    with pytest.raises(errors.StoreUnavailable) as caught:
        await store.write(PATH, stores.chunks_of(b"x"))

    assert caught.value.retry_after == 300
    assert sleep_log.seconds == []


@pytest.mark.parametrize(
    "fault", [BROKEN, HANG_UP, dropbox_server.Fault(status=200, body="<html>")]
)
@pytest.mark.parametrize("route", ["get_metadata", "oauth2/token"])
async def test_transient_failure_is_retried(
    store: DropboxFileStore, dropbox: DropboxServer, sleep_log: FakeSleep, fault: Fault, route: str
) -> None:
    """Five times with a growing pause; then it is an outage."""
    dropbox.faults[route] = [fault] * 5
    assert await store.stat(PATH) is None
    pauses = [pytest.approx(seconds, rel=0.25) for seconds in retry.PAUSE_SECONDS]
    assert sleep_log.seconds == pauses

    dropbox.expire_token()
    dropbox.faults[route] = [fault] * 6
    with pytest.raises(errors.StoreUnavailable, match="Dropbox"):
        await store.stat(PATH)
    assert sleep_log.seconds == [*pauses, *pauses]


async def test_unreachable_dropbox_is_an_outage(
    dropbox: DropboxServer, sleep_log: FakeSleep
) -> None:
    """No server listens on the port."""
    dropbox.url = "http://127.0.0.1:9"
    async with _store(dropbox, sleep_log) as store:
        with pytest.raises(errors.StoreUnavailable, match="cannot be reached"):
            await store.ping()


@pytest.mark.parametrize("fault", [HANG_UP, LOSE_ANSWER, BROKEN], ids=lambda fault: fault.kind)
async def test_session_survives_a_dropped_connection(
    store: DropboxFileStore, dropbox: DropboxServer, fault: Fault
) -> None:
    """Every byte is stored once, whether the request succeeded or not."""
    for route in ("upload_session/start", APPEND, FINISH):
        dropbox.faults[route] = [fault, fault]

    stored = await store.write(PATH, stores.chunks_of(LARGE))

    assert _contents(dropbox) == {f"/files/{PATH}": LARGE}
    assert stored.sha256 == hashlib.sha256(LARGE).hexdigest()


async def test_small_file_survives_a_lost_response(
    store: DropboxFileStore, dropbox: DropboxServer
) -> None:
    """The second attempt finds its own file."""
    dropbox.faults["upload"] = [LOSE_ANSWER]

    await store.write(PATH, stores.chunks_of(b"x"))

    assert _contents(dropbox) == {f"/files/{PATH}": b"x"}


async def test_file_of_another_writer_is_not_mistaken_for_ours(dropbox: DropboxServer) -> None:
    """Another writer was faster while our connection was lost."""

    async def write_theirs(_seconds: float) -> None:
        place = f"/Files/{PATH}"
        dropbox.files[place.lower()] = dropbox_server.File(place, b"theirs")

    dropbox.faults["upload"] = [HANG_UP]
    async with _store(dropbox, write_theirs) as store:
        with pytest.raises(errors.FileExists):
            await store.write(PATH, stores.chunks_of(b"ours"))

    assert _contents(dropbox) == {f"/files/{PATH}": b"theirs"}


async def test_lost_session_is_an_outage(store: DropboxFileStore, dropbox: DropboxServer) -> None:
    """It is not a missing file: the caller can send it again."""

    async def source() -> AsyncIterator[bytes]:
        for start in range(0, len(LARGE), MEBIBYTE):
            yield LARGE[start : start + MEBIBYTE]
            if start > 15 * MEBIBYTE:
                dropbox.sessions.clear()

    with pytest.raises(errors.StoreUnavailable, match="unfinished"):
        await store.write(PATH, source())

    assert _contents(dropbox) == {}


@pytest.mark.parametrize("content", [b"x" * 100, LARGE], ids=["small", "large"])
async def test_full_dropbox_is_not_retried(
    store: DropboxFileStore, dropbox: DropboxServer, sleep_log: FakeSleep, content: bytes
) -> None:
    """Nothing is stored."""
    dropbox.capacity = 99

    with pytest.raises(errors.StoreFull, match="insufficient_space"):
        await store.write(PATH, stores.chunks_of(content))

    assert _contents(dropbox) == {}
    assert sleep_log.seconds == []


def _write_failed(reason: Any) -> Callable[[], Fault]:
    failed = library.UploadWriteFailed(reason=reason, upload_session_id="unused")
    return lambda: dropbox_server.error_fault(library.upload, library.UploadError.path(failed))


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (library.WriteError.disallowed_name, errors.UnsafePath),
        (library.WriteError.no_write_permission, errors.StoreMisconfigured),
        (library.WriteError.upload_traffic_limit_reached, errors.StoreFull),
        (library.WriteError.conflict(library.WriteConflictError.file_ancestor), errors.FileExists),
    ],
    ids=str,
)
async def test_error_depends_on_the_tags_of_the_refusal(
    store: DropboxFileStore,
    dropbox: DropboxServer,
    sleep_log: FakeSleep,
    reason: Any,
    kind: type[errors.FileStoreError],
) -> None:
    """Without a retry."""
    dropbox.faults["upload"] = [_write_failed(reason)()]

    with pytest.raises(kind):
        await store.write(PATH, stores.chunks_of(b"x"))
    assert sleep_log.seconds == []


async def test_transient_refusal_is_retried(
    store: DropboxFileStore, dropbox: DropboxServer, sleep_log: FakeSleep
) -> None:
    """Too many concurrent writers, or damaged content."""
    damaged = library.UploadError.content_hash_mismatch
    dropbox.faults["upload"] = [
        _write_failed(library.WriteError.too_many_write_operations)(),
        dropbox_server.error_fault(library.upload, damaged),
    ]

    await store.write(PATH, stores.chunks_of(b"x"))

    assert len(sleep_log.seconds) == 2


async def test_bad_request_error_quotes_the_response(
    store: DropboxFileStore, dropbox: DropboxServer
) -> None:
    """The URL is not that of Dropbox, or the API has changed."""
    dropbox.faults["get_metadata"] = [dropbox_server.Fault(status=400, body="Error in call")]

    with pytest.raises(errors.StoreMisconfigured, match="Error in call"):
        await store.stat(PATH)


async def test_interrupted_download_is_resumed(
    store: DropboxFileStore, dropbox: DropboxServer
) -> None:
    """Each byte is received once, after any number of interruptions."""
    await store.write(PATH, stores.chunks_of(LARGE))
    dropbox.faults["download"] = [BREAK_OFF] * 8
    dropbox.requests.clear()

    assert await stores.read_all(store, PATH) == LARGE
    assert dropbox.requests == ["download"] * 9


async def test_damaged_download_is_an_error(
    store: DropboxFileStore, dropbox: DropboxServer, tmp_path: Path
) -> None:
    """The hash of the whole file differs."""
    await store.write(PATH, stores.chunks_of(b"right"))
    dropbox.faults["download"] = [CORRUPT]

    with pytest.raises(errors.StoreUnavailable, match="does not match its hash"):
        await store.fetch(PATH, tmp_path / "target")

    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240  # a folder of this test


async def test_long_list_is_read_in_pages(store: DropboxFileStore, dropbox: DropboxServer) -> None:
    """Up to the last one."""
    dropbox.page_size = 2
    for number in range(5):
        await store.write(f"a/{number}", stores.chunks_of(b"x"))

    assert await stores.list_paths(store) == [f"a/{number}" for number in range(5)]
    assert dropbox.requests.count("list_folder/continue") >= 2


async def test_names_are_not_case_sensitive(store: DropboxFileStore) -> None:
    """Two names that differ only in case are the same file."""
    await store.write("a/Scan.pdf", stores.chunks_of(b"x"))

    with pytest.raises(errors.FileExists):
        await store.write("a/scan.PDF", stores.chunks_of(b"x"))


async def test_delete_with_a_lost_response_succeeds(
    store: DropboxFileStore, dropbox: DropboxServer
) -> None:
    """The second attempt finds nothing, because the first one succeeded."""
    await store.write(PATH, stores.chunks_of(b"x"))
    dropbox.faults["delete_v2"] = [LOSE_ANSWER]

    assert await store.delete(PATH) is True


@pytest.mark.parametrize("content", [b"x", LARGE], ids=["small", "large"])
async def test_writer_cancelled_during_commit_leaves_nothing(
    store: DropboxFileStore, dropbox: DropboxServer, content: bytes
) -> None:
    """The committed file is deleted again."""
    dropbox.faults["upload" if content == b"x" else FINISH] = [WAIT]
    writer = asyncio.create_task(store.write(PATH, stores.chunks_of(content)))
    assert await asyncio.to_thread(dropbox.reached.wait, 10)
    writer.cancel()
    dropbox.go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await writer
    assert dropbox.requests[-1] == "delete_v2"
    assert _contents(dropbox) == {}


async def test_hung_call_can_be_cancelled(store: DropboxFileStore, dropbox: DropboxServer) -> None:
    """Without waiting for Dropbox; other calls do not wait for it either."""
    dropbox.faults["get_metadata"] = [WAIT]
    call = asyncio.create_task(store.stat(PATH))
    assert await asyncio.to_thread(dropbox.reached.wait, 10)

    await store.ping()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    # A call that goes on is repeated, because the server ends it after 10 seconds.
    assert dropbox.requests.count("get_metadata") == 1
    dropbox.go_on.set()


@pytest.mark.parametrize("size", [0, 1, 4 * MEBIBYTE - 1, 4 * MEBIBYTE, 4 * MEBIBYTE + 1])
@pytest.mark.parametrize("step", [1_000_003, 9 * MEBIBYTE])
def test_content_hash_equals_that_of_dropbox(size: int, step: int) -> None:
    """For any size of chunks."""
    content = (b"0123456" * 700_000)[:size]
    ours = ContentHash()
    for start in range(0, size, step):
        ours.update(content[start : start + step])

    assert ours.hexdigest() == dropbox_server.content_hash(content)
    assert ContentHash(content).hexdigest() == ours.hexdigest()


def test_secrets_are_not_shown() -> None:
    """Neither secret is in the repr."""
    shown = repr(Credentials("key", "hidden", "hidden"))

    assert "hidden" not in shown
