"""Buckets: a folder and one that speaks S3, all the same to a stage."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors
from pagewarden.settings import Settings
from pagewarden.volumes import artifacts
from tests.storage import s3_server
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Place:
    """Where a bucket is, or could be."""

    address: str
    missing: str
    settings: Settings


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Make a place of each kind."""
    if request.param == "folder":
        return Place(str(tmp_path / "bucket"), str(tmp_path / "nowhere"), Settings())
    moto = request.getfixturevalue("moto")
    moto.reset()
    name = f"bucket-{uuid.uuid4().hex}"
    moto.make_bucket(name)
    return Place(f"s3://{name}/some/prefix", f"s3://{uuid.uuid4().hex}", books.of_s3(moto))


async def put(bucket: artifacts.Bucket, key: str, data: bytes) -> None:
    """Publish a file."""
    with bucket.scratch("me") as scratch:
        made = scratch / "made"
        made.write_bytes(data)
        await bucket.publish(made, key)
        assert not made.exists()


async def keys(bucket: artifacts.Bucket, folder: str = "") -> list[str]:
    """List the keys."""
    return sorted([entry.key async for entry in bucket.list(folder)])


async def test_what_is_published_can_be_found_and_got(place: Place, tmp_path: Path) -> None:
    """By its key, with its size."""
    async with artifacts.open_bucket(place.address, place.settings) as bucket:
        await bucket.prepare()
        await put(bucket, "a/b/c.jpg", b"one")
        await put(bucket, "a/ü 2.jpg", b"three")
        assert await keys(bucket) == ["a/b/c.jpg", "a/ü 2.jpg"]
        assert await keys(bucket, "a/b") == ["a/b/c.jpg"]
        assert await keys(bucket, "nothing") == []
        assert {entry.size async for entry in bucket.list("a")} == {3, 5}
        assert await bucket.get("a/ü 2.jpg") == b"three"
        await bucket.fetch("a/b/c.jpg", tmp_path / "fetched")
        assert (tmp_path / "fetched").read_bytes() == b"one"
        assert await bucket.digest("a/b/c.jpg") == hashlib.sha256(b"one").hexdigest()


async def test_publishing_replaces_and_what_was_fetched_before_stays(
    place: Place, tmp_path: Path
) -> None:
    """A reader is not disturbed by whoever publishes."""
    async with artifacts.open_bucket(place.address, place.settings) as bucket:
        await put(bucket, "a/f", b"old")
        await bucket.fetch("a/f", tmp_path / "fetched")
        await put(bucket, "a/f", b"new")
        assert await bucket.get("a/f") == b"new"
        assert (tmp_path / "fetched").read_bytes() == b"old"


async def test_nothing_unpublished_is_seen_or_left_behind(place: Place) -> None:
    """Scratch folders are nobody else's business."""
    async with artifacts.open_bucket(place.address, place.settings) as bucket:
        with bucket.scratch("me") as scratch:
            (scratch / "half").write_bytes(b"half")
            assert await keys(bucket) == []
        assert not scratch.exists()


async def test_scratch_folders_of_two_owners_are_apart(place: Place) -> None:
    """Even if they have the same token."""
    async with artifacts.open_bucket(place.address, place.settings) as bucket:
        with bucket.scratch("me") as one, bucket.scratch("me") as other:
            assert one != other


async def test_a_file_that_is_not_there_is_named(place: Place, tmp_path: Path) -> None:
    """And it is the file that is missing, not the bucket."""
    async with artifacts.open_bucket(place.address, place.settings) as bucket:
        await put(bucket, "a/f", b"something")
        for call in (bucket.get("a/g"), bucket.fetch("a/g", tmp_path / "g")):
            with pytest.raises(errors.FileNotFound, match="a/g"):
                await call
        assert not (tmp_path / "g").exists()


@pytest.mark.parametrize("key", ["a", "a/f/g"], ids=["a folder", "below a file"])
async def test_what_is_no_file_is_not_there(place: Place, tmp_path: Path, key: str) -> None:
    """It is no outage, which would be waited for."""
    async with artifacts.open_bucket(place.address, place.settings) as bucket:
        await put(bucket, "a/f", b"something")
        for call in (bucket.get(key), bucket.fetch(key, tmp_path / "g"), bucket.digest(key)):
            with pytest.raises(errors.FileNotFound):
                await call


async def test_a_file_can_be_fetched_again(place: Place, tmp_path: Path) -> None:
    """The copy is replaced."""
    async with artifacts.open_bucket(place.address, place.settings) as bucket:
        for data in (b"old", b"new"):
            await put(bucket, "a/f", data)
            await bucket.fetch("a/f", tmp_path / "fetched")
            assert (tmp_path / "fetched").read_bytes() == data


async def test_a_bucket_that_does_not_exist_is_an_outage_of_configuration(place: Place) -> None:
    """No volume is to blame for it."""
    async with artifacts.open_bucket(place.missing, place.settings) as bucket:
        for call in (keys(bucket), keys(bucket, "W1-I1"), bucket.get("a/f")):
            with pytest.raises(errors.StoreMisconfigured) as caught:
                await call
            assert caught.value.outage
            assert caught.value.category is errors.Category.CONFIGURATION
            assert "PAGEWARDEN_FILES" not in str(caught.value)


async def test_an_s3_bucket_that_does_not_exist_is_noticed_before_any_work(
    moto: s3_server.S3Server,
) -> None:
    """Artifacts of hours of work would have no place."""
    async with artifacts.open_bucket("s3://nowhere", books.of_s3(moto)) as bucket:
        with pytest.raises(errors.StoreMisconfigured, match="s3://nowhere"):
            await bucket.prepare()


async def test_a_folder_that_cannot_be_made_is_noticed_before_any_work(tmp_path: Path) -> None:
    """Here a file is in the way."""
    (tmp_path / "file").touch()
    bucket = artifacts.open_bucket(str(tmp_path / "file" / "bucket"), Settings())
    with pytest.raises(errors.StoreMisconfigured, match="specify another bucket"):
        await bucket.prepare()


async def test_what_fails_in_passing_is_tried_again(moto: s3_server.S3Server) -> None:
    """A bucket has its moments."""
    moto.reset()
    moto.make_bucket("moments")
    moto.faults.append(s3_server.Fault("GET /moments/f", 503, times=2))
    async with artifacts.open_bucket("s3://moments", books.of_s3(moto)) as bucket:
        await put(bucket, "f", b"data")
        assert await bucket.get("f") == b"data"


async def test_a_folder_keeps_to_itself(tmp_path: Path) -> None:
    """No key leads out of it."""
    (tmp_path / "secret").write_bytes(b"secret")
    bucket = artifacts.open_bucket(str(tmp_path / "bucket"), Settings())
    await bucket.prepare()
    with pytest.raises(errors.UnsafePath):
        await bucket.get("../secret")


@pytest.mark.parametrize("address", ["", "http://somewhere", "s3://", "s3:///prefix", "gs://b"])
def test_what_is_no_address_is_refused(address: str) -> None:
    """With what would be one."""
    with pytest.raises(errors.SettingsError, match="use a folder, or s3://bucket/prefix"):
        artifacts.open_bucket(address, Settings())
