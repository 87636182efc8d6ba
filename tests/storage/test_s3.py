"""The S3 store: requests, retries and failures."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors, retry, storage
from pagewarden.storage import s3
from tests.storage import s3_server, stores
from tests.storage.fake_sleep import FakeSleep
from tests.storage.s3_server import Fault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PATH = "case/document/scan.pdf"
MEBIBYTE = 1024 * 1024
SMALL = b"small"
LARGE = b"".join(bytes([number]) * 1_000_000 for number in range(13))  # three parts
PAUSES = (0.001, 0.002, 0.003)  # the library itself really sleeps some of them

PUT = r"^PUT .*scan\.pdf\?$"
PART = r"^PUT .*\.incoming/\w+\?.*partNumber=2"
LAST_PART = r"^PUT .*\.incoming/\w+\?.*partNumber=3"
COMPLETE = r"^POST .*\.incoming/\w+\?uploadId"
COPY = r"^PUT .*scan\.pdf\?.*partNumber=1"
APPEAR = r"^POST .*scan\.pdf\?uploadId"


@pytest.fixture
def sleep_log() -> FakeSleep:
    """Record sleeps."""
    return FakeSleep()


@pytest.fixture
def store(bucket: stores.BucketBackend, sleep_log: FakeSleep) -> s3.S3FileStore:
    """Open a store with fake sleep."""
    return _store(bucket, sleep_log)


def _store(
    bucket: stores.BucketBackend, sleep: Callable[[float], Awaitable[None]]
) -> s3.S3FileStore:
    settings = s3.BucketConfig(
        bucket.name,
        prefix="some/prefix",
        endpoint=bucket.server.url,
        region=s3_server.REGION,
        access_key_id=s3_server.ACCESS_KEY,
        secret_access_key=s3_server.SECRET_KEY,
    )
    return s3.S3FileStore(settings, retry.RetryPolicy(PAUSES, sleep))


async def test_small_file_is_one_request_and_large_file_is_uploaded_in_parts(
    store: s3.S3FileStore, bucket: stores.BucketBackend
) -> None:
    """Each after a check whether the file exists; the bucket is in the path of the URL."""
    await store.write("small", stores.chunks_of(LARGE[: 6 * MEBIBYTE]))
    requests = bucket.server.requests
    assert [request.split(" ")[0] for request in requests] == ["HEAD", "PUT"]
    assert requests[1] == f"PUT /{bucket.name}/some/prefix/small?"
    requests.clear()

    await store.write("large", stores.chunks_of(LARGE))

    methods = [request.split(" ")[0] for request in requests]
    assert methods == ["HEAD", "POST", "PUT", "PUT", "PUT", "POST", "POST", "PUT", "POST", "DELETE"]
    assert bucket.list_all() == ["some/prefix/large", "some/prefix/small"]


async def test_transient_failure_is_retried(
    store: s3.S3FileStore, bucket: stores.BucketBackend
) -> None:
    """The caller sees no error."""
    for pattern in ("^HEAD", "^POST .*uploads", PART, LAST_PART, COMPLETE, APPEAR, "^DELETE"):
        bucket.server.faults += [Fault(pattern, 503, 1), Fault(pattern, "hang up", 1)]

    await store.write(PATH, stores.chunks_of(LARGE))

    assert await stores.read_all(store, PATH) == LARGE


@pytest.mark.parametrize("pattern", [PART, LAST_PART, COMPLETE, COPY, APPEAR])
async def test_failed_upload_in_parts_leaves_nothing(
    store: s3.S3FileStore, bucket: stores.BucketBackend, pattern: str
) -> None:
    """The upload is aborted, and its parts are deleted."""
    bucket.server.faults.append(Fault(pattern, 503))

    with pytest.raises(errors.StoreUnavailable, match="503"):
        await store.write(PATH, stores.chunks_of(LARGE))

    assert bucket.list_all() == []


@pytest.mark.parametrize("pattern", [PART, LAST_PART, APPEAR])
async def test_forbidden_upload_in_parts_leaves_nothing(
    store: s3.S3FileStore, bucket: stores.BucketBackend, pattern: str
) -> None:
    """The error names the key, whichever request fails."""
    bucket.server.faults.append(Fault(pattern, 403))

    with pytest.raises(errors.StoreCredentialsRejected, match="PAGEWARDEN_S3_ACCESS_KEY_ID"):
        await store.write(PATH, stores.chunks_of(LARGE))

    assert bucket.list_all() == []


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.StoreMisconfigured),
        (401, errors.StoreCredentialsRejected),
        (403, errors.StoreCredentialsRejected),
        (413, errors.FileTooLarge),
        (501, errors.StoreMisconfigured),
        (507, errors.StoreFull),
    ],
)
async def test_error_depends_on_the_status(
    store: s3.S3FileStore,
    bucket: stores.BucketBackend,
    status: int,
    kind: type[errors.FileStoreError],
) -> None:
    """The library has no classes for them; they are not retried."""
    bucket.server.faults.append(Fault(PUT, status))

    with pytest.raises(kind, match=str(status)):
        await store.write(PATH, stores.chunks_of(SMALL))

    assert sum(request.startswith("PUT") for request in bucket.server.requests) == 1


async def test_archived_object_is_not_an_outage(
    store: s3.S3FileStore, bucket: stores.BucketBackend
) -> None:
    """An object in Glacier affects only its document."""
    bucket.server.put(f"/{bucket.name}/some/prefix/{PATH}", {"x-amz-storage-class": "GLACIER"})

    with pytest.raises(errors.FileAccessDenied, match=f"{PATH}.*restore") as denied:
        await stores.read_all(store, PATH)

    assert not denied.value.outage


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_transient_status_is_an_outage_after_retries(
    store: s3.S3FileStore, bucket: stores.BucketBackend, sleep_log: FakeSleep, status: int
) -> None:
    """With a growing pause."""
    bucket.server.faults.append(Fault(PUT, status))

    with pytest.raises(errors.StoreUnavailable, match=str(status)):
        await store.write(PATH, stores.chunks_of(SMALL))

    assert sum(request.startswith("PUT") for request in bucket.server.requests) == 4
    assert sleep_log.seconds == [pytest.approx(pause, rel=0.25) for pause in PAUSES]


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
async def test_lost_response_is_not_an_error(
    store: s3.S3FileStore, bucket: stores.BucketBackend, content: bytes
) -> None:
    """The second attempt finds its own file."""
    bucket.server.faults.append(
        Fault(PUT if content == SMALL else APPEAR, "lose the response", times=1)
    )

    await store.write(PATH, stores.chunks_of(content))

    assert await stores.read_all(store, PATH) == content
    assert bucket.list_all() == [f"some/prefix/{PATH}"]


@pytest.mark.parametrize(
    ("content", "theirs"),
    [(SMALL, b"theirs"), (SMALL, SMALL[::-1]), (LARGE, b"theirs")],
    ids=["small", "of one size", "large"],
)
async def test_file_of_another_writer_is_not_mistaken_for_ours(
    bucket: stores.BucketBackend, content: bytes, theirs: bytes
) -> None:
    """Another writer was faster while our connection was lost."""
    other = _store(bucket, asyncio.sleep)

    async def write_theirs(_seconds: float) -> None:
        await other.write(PATH, stores.chunks_of(theirs))

    store = _store(bucket, write_theirs)
    bucket.server.faults.append(Fault(PUT if content == SMALL else APPEAR, "hang up", times=1))

    with pytest.raises(errors.FileExists):
        await store.write(PATH, stores.chunks_of(content))

    assert await stores.read_all(store, PATH) == theirs


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
async def test_conflict_without_a_file_is_retried(
    store: s3.S3FileStore, bucket: stores.BucketBackend, sleep_log: FakeSleep, content: bytes
) -> None:
    """S3 responds with 409 if the file is deleted concurrently."""
    bucket.server.faults.append(Fault(PUT if content == SMALL else APPEAR, 409, times=1))

    await store.write(PATH, stores.chunks_of(content))

    assert await stores.read_all(store, PATH) == content
    assert len(sleep_log.seconds) == 1


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
async def test_existing_file_is_kept_if_the_server_ignores_conditions(
    store: s3.S3FileStore, bucket: stores.BucketBackend, content: bytes
) -> None:
    """Supabase Storage would overwrite it."""
    bucket.server.ignores_conditions = True
    await store.write(PATH, stores.chunks_of(content))

    with pytest.raises(errors.FileExists):
        await store.write(PATH, stores.chunks_of(b"second"))

    assert await stores.read_all(store, PATH) == content


async def test_missing_bucket_is_not_a_missing_file(
    store: s3.S3FileStore, bucket: stores.BucketBackend
) -> None:
    """It is an outage, not a failure of documents."""
    await store.ping()
    missing = _store(stores.BucketBackend(bucket.server, "missing-bucket"), FakeSleep())

    for call in (
        missing.ping(),
        missing.write(PATH, stores.chunks_of(SMALL)),
        missing.write(PATH, stores.chunks_of(LARGE)),
        stores.read_all(missing, PATH),
        stores.read_all(missing, PATH, 1),
        stores.list_paths(missing),
    ):
        with pytest.raises(errors.StoreMisconfigured):
            await call


async def test_unreachable_bucket_is_an_outage(sleep_log: FakeSleep) -> None:
    """No server listens on the port."""
    store = _store(
        stores.BucketBackend(s3_server.S3Server("http://127.0.0.1:9"), "bucket"), sleep_log
    )

    for call in (store.ping(), store.stat(PATH), stores.read_all(store, PATH)):
        with pytest.raises(errors.StoreUnavailable, match="cannot be reached"):
            await call


async def test_interrupted_download_is_resumed(
    store: s3.S3FileStore, bucket: stores.BucketBackend
) -> None:
    """Each byte is received once, after any number of interruptions."""
    await store.write(PATH, stores.chunks_of(LARGE))
    bucket.server.faults.append(Fault("^GET", "break off", times=6))

    assert await stores.read_all(store, PATH) == LARGE


async def test_download_without_progress_is_an_outage(
    store: s3.S3FileStore, bucket: stores.BucketBackend, sleep_log: FakeSleep
) -> None:
    """After a few attempts without a byte."""
    await store.write(PATH, stores.chunks_of(SMALL))
    bucket.server.faults.append(Fault("^GET", "hang up"))

    with pytest.raises(errors.StoreUnavailable):
        await stores.read_all(store, PATH)

    assert len(sleep_log.seconds) == len(PAUSES)


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
async def test_writer_cancelled_during_publication_leaves_nothing(
    store: s3.S3FileStore, bucket: stores.BucketBackend, content: bytes
) -> None:
    """The published file is deleted again."""
    bucket.server.faults.append(Fault(PUT if content == SMALL else APPEAR, "wait", times=1))
    writer = asyncio.create_task(store.write(PATH, stores.chunks_of(content)))
    assert await asyncio.to_thread(bucket.server.reached.wait, 10)
    writer.cancel()
    bucket.server.go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await writer
    assert f"DELETE /{bucket.name}/some/prefix/{PATH}?" in bucket.server.requests
    assert bucket.list_all() == []


async def test_writer_cancelled_during_a_part_leaves_nothing(
    store: s3.S3FileStore, bucket: stores.BucketBackend
) -> None:
    """The upload is aborted."""
    bucket.server.faults.append(Fault(PART, "wait", times=1))
    writer = asyncio.create_task(store.write(PATH, stores.chunks_of(LARGE)))
    assert await asyncio.to_thread(bucket.server.reached.wait, 10)
    writer.cancel()
    bucket.server.go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await writer
    assert bucket.list_all() == []


async def test_writer_cancelled_during_completion_leaves_nothing(
    store: s3.S3FileStore, bucket: stores.BucketBackend
) -> None:
    """It cleans up after the upload has ended, not before."""
    bucket.server.faults.append(Fault(COMPLETE, "wait", times=1))
    writer = asyncio.create_task(store.write(PATH, stores.chunks_of(LARGE)))
    assert await asyncio.to_thread(bucket.server.reached.wait, 10)
    writer.cancel()
    ended, _ = await asyncio.wait([writer], timeout=0.2)
    assert not ended
    bucket.server.go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await writer
    assert bucket.list_all() == []


async def test_files_of_killed_writers_are_removed(
    store: s3.S3FileStore, bucket: stores.BucketBackend
) -> None:
    """Only after a while: a running writer may still copy its file."""
    bucket.server.put(f"/{bucket.name}/some/prefix/.incoming/abandoned")
    now = datetime.now(UTC)

    assert await stores.list_paths(store) == []
    assert await store.remove_unfinished(now - timedelta(hours=1)) == 0
    assert await store.remove_unfinished(now + timedelta(hours=1)) == 1
    assert bucket.list_all() == []


async def test_keys_are_plain(store: s3.S3FileStore, bucket: stores.BucketBackend) -> None:
    """Supabase Storage allows only some ASCII characters; foreign keys are not listed."""
    await store.write("Fall (1)/Größe=~é.pdf", stores.chunks_of(SMALL))
    for foreign in ("some/prefix/a=zz", "some/prefix/.hidden", "elsewhere/x"):
        bucket.server.put(f"/{bucket.name}/{foreign}")

    assert "some/prefix/Fall (1)/Gr=C3=B6=C3=9Fe=3D=7E=C3=A9.pdf" in bucket.list_all()
    assert await stores.list_paths(store) == ["Fall (1)/Größe=~é.pdf"]


def test_path_with_a_too_long_key_is_refused() -> None:
    """Before anything is sent."""
    path = "/".join(["é" * 120] * 3)
    assert storage.is_path(path)

    with pytest.raises(errors.UnsafePath, match="too long"):
        s3.encode_path(path, "prefix")


async def test_configured_key_is_not_mixed_with_that_of_the_machine(
    bucket: stores.BucketBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Lambda, the session token of the environment belongs to another key."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-machine")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-machine")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-of-the-machine")

    await storage.open_store(bucket.settings).ping()
    without = bucket.settings.model_copy(
        update={"s3_access_key_id": None, "s3_secret_access_key": None}
    )
    await storage.open_store(without).ping()

    assert bucket.server.callers == [
        (s3_server.ACCESS_KEY, None),
        ("of-the-machine", "token-of-the-machine"),
    ]


def test_secret_is_not_shown() -> None:
    """Not even in its repr."""
    assert "hidden" not in repr(s3.BucketConfig("bucket", secret_access_key="hidden"))
