"""Places to keep files in, new for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pagewarden import files
from tests.files import places, s3_server
from tests.support import dropbox_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def moto() -> Iterator[s3_server.S3Server]:
    """Run the one S3 of all tests."""
    with s3_server.running() as server:
        yield server


@pytest.fixture
def bucket(moto: s3_server.S3Server) -> places.Bucket:
    """Make a bucket."""
    return places.new_bucket(moto)


@pytest.fixture
def dropbox() -> Iterator[dropbox_server.DropboxServer]:
    """Run a Dropbox."""
    with dropbox_server.running() as server:
        yield server


@pytest.fixture(params=["folder", "dropbox", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[places.Place]:
    """Make a place of each kind."""
    match request.param:
        case "folder":
            with places.folder(tmp_path / "new" / "files") as made:
                yield made
        case "dropbox":
            yield places.Dropbox(request.getfixturevalue("dropbox"))
        case "bucket":
            yield request.getfixturevalue("bucket")


@pytest.fixture
async def store(place: places.Place) -> AsyncIterator[files.FileStore]:
    """Open the store of the place."""
    async with files.open_store(place.settings) as opened:
        yield opened
