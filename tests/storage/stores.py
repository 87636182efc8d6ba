"""The backends of the three kinds of stores, with access to everything that they hold."""

from __future__ import annotations

import contextlib
import http.server
import threading
import urllib.parse
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pydantic

from pagewarden import settings, storage
from pagewarden.storage import signed_urls
from tests.storage import s3_server
from tests.support import dropbox_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

SIGNING_KEY = "bkVx0UGM5xyfXx6nNxWDo7dVv8uJ1a2b"


class Backend(Protocol):
    """Where a store keeps its files."""

    @property
    def settings(self) -> settings.Settings:
        """Return settings for a store in this backend."""
        ...

    def list_all(self) -> list[str]:
        """List all files, finished or not."""
        ...


@dataclass(frozen=True, slots=True)
class FolderBackend:
    """A folder, with a server for its signed URLs."""

    root: Path
    url: str

    @property
    def settings(self) -> settings.Settings:
        """Return settings for a store in this backend."""
        return settings.Settings(
            files=str(self.root),
            files_public_url=pydantic.HttpUrl(self.url),
            files_signing_key=pydantic.SecretStr(SIGNING_KEY),
        )

    def list_all(self) -> list[str]:
        """List all files."""
        return sorted(str(path) for path in self.root.rglob("*") if not path.is_dir())


@dataclass(frozen=True, slots=True)
class DropboxBackend:
    """A folder of a Dropbox."""

    server: dropbox_server.DropboxServer

    @property
    def settings(self) -> settings.Settings:
        """Return settings for a store in this backend."""
        return settings.Settings(
            files="dropbox:///Team/page warden",
            dropbox_app_key=dropbox_server.APP_KEY,
            dropbox_app_secret=pydantic.SecretStr(dropbox_server.APP_SECRET),
            dropbox_refresh_token=pydantic.SecretStr(dropbox_server.REFRESH_TOKEN),
            dropbox_api_url=pydantic.HttpUrl(self.server.url),
            dropbox_content_url=pydantic.HttpUrl(self.server.url),
        )

    def list_all(self) -> list[str]:
        """List all files; Dropbox itself deletes unfinished sessions."""
        return sorted(self.server.files)


@dataclass(frozen=True, slots=True)
class BucketBackend:
    """A bucket below a prefix."""

    server: s3_server.S3Server
    name: str

    @property
    def settings(self) -> settings.Settings:
        """Return settings for a store in this backend."""
        return settings.Settings(
            files=f"s3://{self.name}/some/prefix",
            s3_endpoint=pydantic.HttpUrl(self.server.url),
            s3_region=s3_server.REGION,
            s3_access_key_id=s3_server.ACCESS_KEY,
            s3_secret_access_key=pydantic.SecretStr(s3_server.SECRET_KEY),
        )

    def list_all(self) -> list[str]:
        """List all objects, and uploads in parts."""
        return self.server.keys(self.name) + self.server.unfinished(self.name)


def make_bucket(server: s3_server.S3Server) -> BucketBackend:
    """Create a bucket for one test."""
    bucket = BucketBackend(server, f"bucket-{uuid.uuid4().hex}")
    server.make_bucket(bucket.name)
    server.reset()
    return bucket


@contextlib.contextmanager
def serve_folder(root: Path) -> Iterator[FolderBackend]:
    """Serve a folder to requests with a signed URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Send a file if its signature is valid."""
            parts = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(parts.query))
            path = urllib.parse.unquote(parts.path).removeprefix("/open/")
            signer = signed_urls.UrlSigner("unused", SIGNING_KEY)
            is_valid = signer.verify(path, query["expires"], query["signature"])
            self.send_response(200 if is_valid else 403)
            self.end_headers()
            if is_valid:
                self.wfile.write((root / path).read_bytes())

        def log_message(self, *args: Any) -> None:
            """Do not log."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield FolderBackend(root, f"http://127.0.0.1:{server.server_port}/open")
        finally:
            server.shutdown()
            thread.join()


async def chunks_of(*chunks: bytes) -> AsyncIterator[bytes]:
    """Yield chunks."""
    for chunk in chunks:
        yield chunk


async def read_all(store: storage.FileStore, path: str, start: int = 0) -> bytes:
    """Return the content of a small file."""
    return b"".join([chunk async for chunk in store.read(path, start=start)])


async def list_paths(store: storage.FileStore, prefix: str = "") -> list[str]:
    """Return all paths in order."""
    return sorted([entry.path async for entry in store.list(prefix)])
