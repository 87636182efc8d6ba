"""Stores of each kind, new for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pagewarden import storage
from tests.storage import s3_server, stores
from tests.support import dropbox_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def moto() -> Iterator[s3_server.S3Server]:
    """Run one S3 server for all tests."""
    with s3_server.running() as server:
        yield server


@pytest.fixture
def bucket(moto: s3_server.S3Server) -> stores.BucketBackend:
    """Create a bucket."""
    return stores.make_bucket(moto)


@pytest.fixture
def dropbox() -> Iterator[dropbox_server.DropboxServer]:
    """Run a Dropbox server."""
    with dropbox_server.run_server() as server:
        yield server


@pytest.fixture(params=["folder", "dropbox", "bucket"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[stores.Backend]:
    """Return a backend of each kind."""
    match request.param:
        case "folder":
            with stores.serve_folder(tmp_path / "new" / "files") as served:
                yield served
        case "dropbox":
            yield stores.DropboxBackend(request.getfixturevalue("dropbox"))
        case "bucket":
            yield request.getfixturevalue("bucket")


@pytest.fixture
async def store(backend: stores.Backend) -> AsyncIterator[storage.FileStore]:
    """Open the store of the backend."""
    async with storage.open_store(backend.settings) as opened_store:
        yield opened_store
