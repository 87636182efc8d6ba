"""A bucket as a store: what goes wrong on the way there, and there."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors, files, retry
from pagewarden.files import s3
from pagewarden.files.s3 import keys
from tests.files import places, s3_server
from tests.files.naps import Naps
from tests.files.s3_server import Fault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PATH = "case/document/scan.pdf"
MEBIBYTE = 1024 * 1024
SMALL = b"small"
LARGE = b"".join(bytes([number]) * 1_000_000 for number in range(13))  # three parts
PAUSES = (0.001, 0.002, 0.003)  # the library itself sleeps some of them

PUT = r"^PUT .*scan\.pdf\?$"
PART = r"^PUT .*\.incoming/\w+\?.*partNumber=2"
LAST_PART = r"^PUT .*\.incoming/\w+\?.*partNumber=3"
COMPLETE = r"^POST .*\.incoming/\w+\?uploadId"
COPY = r"^PUT .*scan\.pdf\?.*partNumber=1"
APPEAR = r"^POST .*scan\.pdf\?uploadId"


@pytest.fixture
def naps() -> Naps:
    """Note what is slept."""
    return Naps()


@pytest.fixture
def store(bucket: places.Bucket, naps: Naps) -> s3.S3Files:
    """Open a store that sleeps in no time."""
    return _store(bucket, naps)


def _store(bucket: places.Bucket, sleep: Callable[[float], Awaitable[None]]) -> s3.S3Files:
    described = s3.Bucket(
        bucket.name,
        prefix="some/prefix",
        endpoint=bucket.server.url,
        region=s3_server.REGION,
        access_key_id=s3_server.ACCESS_KEY,
        secret_access_key=s3_server.SECRET_KEY,
    )
    return s3.S3Files(described, retry.RetryPolicy(PAUSES, sleep))


async def test_small_file_is_one_request_and_a_large_one_comes_in_parts(
    store: s3.S3Files, bucket: places.Bucket
) -> None:
    """Each after a look whether there is one, in the style that has the bucket in the path."""
    await store.write("small", places.of(LARGE[: 6 * MEBIBYTE]))
    requests = bucket.server.requests
    assert [request.split(" ")[0] for request in requests] == ["HEAD", "PUT"]
    assert requests[1] == f"PUT /{bucket.name}/some/prefix/small?"
    requests.clear()

    await store.write("large", places.of(LARGE))

    methods = [request.split(" ")[0] for request in requests]
    assert methods == ["HEAD", "POST", "PUT", "PUT", "PUT", "POST", "POST", "PUT", "POST", "DELETE"]
    assert bucket.leftovers() == ["some/prefix/large", "some/prefix/small"]


async def test_what_fails_in_passing_is_tried_again(
    store: s3.S3Files, bucket: places.Bucket
) -> None:
    """Nobody notices."""
    for pattern in ("^HEAD", "^POST .*uploads", PART, LAST_PART, COMPLETE, APPEAR, "^DELETE"):
        bucket.server.faults += [Fault(pattern, 503, 1), Fault(pattern, "hang up", 1)]

    await store.write(PATH, places.of(LARGE))

    assert await places.contents(store, PATH) == LARGE


@pytest.mark.parametrize("pattern", [PART, LAST_PART, COMPLETE, COPY, APPEAR])
async def test_large_file_that_fails_for_good_leaves_nothing(
    store: s3.S3Files, bucket: places.Bucket, pattern: str
) -> None:
    """Uploads in parts are aborted, and what was uploaded is removed."""
    bucket.server.faults.append(Fault(pattern, 503))

    with pytest.raises(errors.StoreAway, match="503"):
        await store.write(PATH, places.of(LARGE))

    assert bucket.leftovers() == []


@pytest.mark.parametrize("pattern", [PART, LAST_PART, APPEAR])
async def test_large_file_that_may_not_be_written_leaves_nothing(
    store: s3.S3Files, bucket: places.Bucket, pattern: str
) -> None:
    """The key is told to be wrong, wherever that turns out."""
    bucket.server.faults.append(Fault(pattern, 403))

    with pytest.raises(errors.StoreKeyRefused, match="PAGEWARDEN_S3_ACCESS_KEY_ID"):
        await store.write(PATH, places.of(LARGE))

    assert bucket.leftovers() == []


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.StoreUnusable),
        (401, errors.StoreKeyRefused),
        (403, errors.StoreKeyRefused),
        (413, errors.FileTooLarge),
        (501, errors.StoreUnusable),
        (507, errors.StoreFull),
    ],
)
async def test_refusal_is_told_apart(
    store: s3.S3Files, bucket: places.Bucket, status: int, kind: type[errors.FileStoreError]
) -> None:
    """By its status, which the library has no class for; it is not tried again."""
    bucket.server.faults.append(Fault(PUT, status))

    with pytest.raises(kind, match=str(status)):
        await store.write(PATH, places.of(SMALL))

    assert sum(request.startswith("PUT") for request in bucket.server.requests) == 1


async def test_archived_object_is_not_a_refused_key(
    store: s3.S3Files, bucket: places.Bucket
) -> None:
    """An object in Glacier is the trouble of its document; others are read."""
    bucket.server.put(f"/{bucket.name}/some/prefix/{PATH}", {"x-amz-storage-class": "GLACIER"})

    with pytest.raises(errors.FileAccessDenied, match=f"{PATH}.*restore") as denied:
        await places.contents(store, PATH)

    assert not denied.value.outage


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_what_may_pass_is_tried_again_before_it_is_an_outage(
    store: s3.S3Files, bucket: places.Bucket, naps: Naps, status: int
) -> None:
    """A few times, further and further apart."""
    bucket.server.faults.append(Fault(PUT, status))

    with pytest.raises(errors.StoreAway, match=str(status)):
        await store.write(PATH, places.of(SMALL))

    assert sum(request.startswith("PUT") for request in bucket.server.requests) == 4
    assert naps.seconds == [pytest.approx(pause, rel=0.25) for pause in PAUSES]


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
async def test_lost_answer_does_no_harm(
    store: s3.S3Files, bucket: places.Bucket, content: bytes
) -> None:
    """The file in the way of the second try is our own."""
    bucket.server.faults.append(
        Fault(PUT if content == SMALL else APPEAR, "lose the answer", times=1)
    )

    await store.write(PATH, places.of(content))

    assert await places.contents(store, PATH) == content
    assert bucket.leftovers() == [f"some/prefix/{PATH}"]


@pytest.mark.parametrize(
    ("content", "theirs"),
    [(SMALL, b"theirs"), (SMALL, SMALL[::-1]), (LARGE, b"theirs")],
    ids=["small", "of one size", "large"],
)
async def test_file_of_another_is_not_taken_for_ours(
    bucket: places.Bucket, content: bytes, theirs: bytes
) -> None:
    """Somebody was quicker while our connection was down."""
    other = _store(bucket, asyncio.sleep)

    async def somebody_writes(_seconds: float) -> None:
        await other.write(PATH, places.of(theirs))

    store = _store(bucket, somebody_writes)
    bucket.server.faults.append(Fault(PUT if content == SMALL else APPEAR, "hang up", times=1))

    with pytest.raises(errors.FileExists):
        await store.write(PATH, places.of(content))

    assert await places.contents(store, PATH) == theirs


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
async def test_conflict_without_a_file_is_tried_again(
    store: s3.S3Files, bucket: places.Bucket, naps: Naps, content: bytes
) -> None:
    """S3 says 409 when somebody else deletes the file at that moment."""
    bucket.server.faults.append(Fault(PUT if content == SMALL else APPEAR, 409, times=1))

    await store.write(PATH, places.of(content))

    assert await places.contents(store, PATH) == content
    assert len(naps.seconds) == 1


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
async def test_store_without_conditions_is_asked_beforehand(
    store: s3.S3Files, bucket: places.Bucket, content: bytes
) -> None:
    """Supabase Storage would write over what is there."""
    bucket.server.ignores_conditions = True
    await store.write(PATH, places.of(content))

    with pytest.raises(errors.FileExists):
        await store.write(PATH, places.of(b"second"))

    assert await places.contents(store, PATH) == content


async def test_missing_bucket_is_not_a_missing_file(
    store: s3.S3Files, bucket: places.Bucket
) -> None:
    """No document is given up for it."""
    await store.ping()
    missing = _store(places.Bucket(bucket.server, "missing-bucket"), Naps())

    for call in (
        missing.ping(),
        missing.write(PATH, places.of(SMALL)),
        missing.write(PATH, places.of(LARGE)),
        places.contents(missing, PATH),
        places.contents(missing, PATH, 1),
        places.listed(missing),
    ):
        with pytest.raises(errors.StoreUnusable):
            await call


async def test_unreachable_bucket_is_away(naps: Naps) -> None:
    """Nobody listens there."""
    store = _store(places.Bucket(s3_server.S3Server("http://127.0.0.1:9"), "bucket"), naps)

    for call in (store.ping(), store.stat(PATH), places.contents(store, PATH)):
        with pytest.raises(errors.StoreAway, match="cannot be reached"):
            await call


async def test_broken_download_is_taken_up_where_it_broke(
    store: s3.S3Files, bucket: places.Bucket
) -> None:
    """Each byte comes once, however often it breaks."""
    await store.write(PATH, places.of(LARGE))
    bucket.server.faults.append(Fault("^GET", "break off", times=6))

    assert await places.contents(store, PATH) == LARGE


async def test_download_that_never_gets_on_is_an_outage(
    store: s3.S3Files, bucket: places.Bucket, naps: Naps
) -> None:
    """After a few tries without one byte."""
    await store.write(PATH, places.of(SMALL))
    bucket.server.faults.append(Fault("^GET", "hang up"))

    with pytest.raises(errors.StoreAway):
        await places.contents(store, PATH)

    assert len(naps.seconds) == len(PAUSES)


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
async def test_writer_cancelled_while_its_file_appears_leaves_nothing(
    store: s3.S3Files, bucket: places.Bucket, content: bytes
) -> None:
    """What the bucket was already told is taken back."""
    bucket.server.faults.append(Fault(PUT if content == SMALL else APPEAR, "wait", times=1))
    writer = asyncio.create_task(store.write(PATH, places.of(content)))
    assert await asyncio.to_thread(bucket.server.reached.wait, 10)
    writer.cancel()
    bucket.server.go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await writer
    assert f"DELETE /{bucket.name}/some/prefix/{PATH}?" in bucket.server.requests
    assert bucket.leftovers() == []


async def test_writer_cancelled_in_the_middle_of_a_part_leaves_nothing(
    store: s3.S3Files, bucket: places.Bucket
) -> None:
    """The upload is aborted."""
    bucket.server.faults.append(Fault(PART, "wait", times=1))
    writer = asyncio.create_task(store.write(PATH, places.of(LARGE)))
    assert await asyncio.to_thread(bucket.server.reached.wait, 10)
    writer.cancel()
    bucket.server.go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await writer
    assert bucket.leftovers() == []


async def test_writer_cancelled_while_its_upload_ends_leaves_nothing(
    store: s3.S3Files, bucket: places.Bucket
) -> None:
    """It cleans up when the upload has come to its end, not before."""
    bucket.server.faults.append(Fault(COMPLETE, "wait", times=1))
    writer = asyncio.create_task(store.write(PATH, places.of(LARGE)))
    assert await asyncio.to_thread(bucket.server.reached.wait, 10)
    writer.cancel()
    ended, _ = await asyncio.wait([writer], timeout=0.2)
    assert not ended
    bucket.server.go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await writer
    assert bucket.leftovers() == []


async def test_what_a_killed_writer_left_is_tidied(
    store: s3.S3Files, bucket: places.Bucket
) -> None:
    """Only after a while: somebody may still be about to copy it."""
    bucket.server.put(f"/{bucket.name}/some/prefix/.incoming/abandoned")
    now = datetime.now(UTC)

    assert await places.listed(store) == []
    assert await store.tidy(now - timedelta(hours=1)) == 0
    assert await store.tidy(now + timedelta(hours=1)) == 1
    assert bucket.leftovers() == []


async def test_keys_are_plain(store: s3.S3Files, bucket: places.Bucket) -> None:
    """Supabase Storage takes only some of ASCII; what others put there is not listed."""
    await store.write("Fall (1)/Größe=~é.pdf", places.of(SMALL))
    for foreign in ("some/prefix/a=zz", "some/prefix/.hidden", "elsewhere/x"):
        bucket.server.put(f"/{bucket.name}/{foreign}")

    assert "some/prefix/Fall (1)/Gr=C3=B6=C3=9Fe=3D=7E=C3=A9.pdf" in bucket.leftovers()
    assert await places.listed(store) == ["Fall (1)/Größe=~é.pdf"]


def test_key_that_grows_too_long_is_refused() -> None:
    """Before anything is sent."""
    path = "/".join(["é" * 120] * 3)
    assert files.is_path(path)

    with pytest.raises(errors.UnsafePath, match="too long"):
        keys.of_path(path, "prefix")


async def test_own_key_is_not_mixed_with_that_of_the_machine(
    bucket: places.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Lambda the environment has a token, which belongs to another key."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-machine")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-machine")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-of-the-machine")

    await files.open_store(bucket.settings).ping()
    without = bucket.settings.model_copy(
        update={"s3_access_key_id": None, "s3_secret_access_key": None}
    )
    await files.open_store(without).ping()

    assert bucket.server.askers == [
        (s3_server.ACCESS_KEY, None),
        ("of-the-machine", "token-of-the-machine"),
    ]


def test_secret_is_not_shown() -> None:
    """Not even in a traceback with values."""
    assert "hidden" not in repr(s3.Bucket("bucket", secret_access_key="hidden"))
