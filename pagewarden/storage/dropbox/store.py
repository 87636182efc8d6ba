"""The Dropbox store: uploads in one request or a session, checked by Dropbox's content hash."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from pagewarden import concurrency, errors, retry
from pagewarden.storage import base, paths, scratch
from pagewarden.storage.dropbox.api import DropboxError, translate_dropbox_errors

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from pagewarden.storage.dropbox.api import DropboxApi

_HASH_BLOCK_BYTES = 4 * 1024 * 1024  # fixed by Dropbox
_REQUEST_BYTES = 8 * 1024 * 1024
_LIST_LIMIT = 2000
# Of a temporary upload link, which Dropbox treats as an upload in one request.
_MAX_LINK_BYTES = 150 * 1024 * 1024
_MIN_LINK_SECONDS = 60


class DropboxFileStore:
    """The files of a Dropbox folder; by default of the whole Dropbox, or of the app's folder.

    Names are not case-sensitive in Dropbox.
    """

    has_public_urls = True

    def __init__(
        self,
        api: DropboxApi,
        folder: str = "",
        retry_policy: retry.RetryPolicy | None = None,
    ) -> None:
        self._api = api
        self._root = "".join(f"/{part}" for part in paths.check_prefix(folder))
        self._retry = retry_policy or retry.RetryPolicy()

    async def write(
        self, path: str, chunks: AsyncIterable[bytes], *, limit: int | None = None
    ) -> base.WrittenFile:
        """Write a file."""
        dropbox_path = self._to_dropbox_path(path)
        source = base.HashedInput(chunks, limit)
        upload = UploadSession(self._api, self._retry, dropbox_path)
        with translate_dropbox_errors(path):
            async with contextlib.aclosing(source.read_blocks(_REQUEST_BYTES)) as blocks:
                commit = await upload.send(blocks)
            await concurrency.finish_or_undo(
                upload.commit(commit), undo=lambda _: self.delete(path)
            )
        return source.to_written_file(path)

    async def read(self, path: str, *, start: int = 0) -> AsyncGenerator[bytes, None]:
        """Yield the bytes from `start` on; check the hash of a whole file."""
        dropbox_path, expected, actual = self._to_dropbox_path(path), "", ContentHash()

        async def read_from(position: int) -> AsyncGenerator[bytes, None]:
            nonlocal expected
            with translate_dropbox_errors(path):
                async with self._api.receive(dropbox_path, position) as content:
                    expected = content.content_hash
                    async for chunk in content.chunks:
                        yield chunk

        async with contextlib.aclosing(self._retry.resume(read_from, start)) as chunks:
            async for chunk in chunks:
                actual.update(chunk)
                yield chunk
        if start == 0 and expected not in {"", actual.hexdigest()}:
            raise errors.StoreUnavailable(
                f"the content of {path!r} does not match its hash in Dropbox; try again"
            )

    async def fetch(self, path: str, target: Path) -> None:
        """Copy a file to a local file."""
        async with contextlib.aclosing(self.read(path)) as chunks:
            await scratch.write_file(chunks, target)

    async def delete(self, path: str) -> bool:
        """Delete a file, but never a folder."""
        metadata = await self._fetch_metadata(path)
        if metadata is None:
            return False
        argument = {"path": self._to_dropbox_path(path), "parent_rev": metadata["rev"]}
        with contextlib.suppress(
            errors.FileNotFound
        ):  # already deleted, perhaps by an earlier attempt
            await self._call(path, "files/delete_v2", argument)
        return True

    async def stat(self, path: str) -> base.Entry | None:
        """Return the entry of a file."""
        metadata = await self._fetch_metadata(path)
        return _make_entry(path, metadata) if metadata else None

    async def list(self, prefix: str = "") -> AsyncGenerator[base.Entry, None]:
        """Yield all files below a folder."""
        folder = "/".join((self._root, *paths.check_prefix(prefix)))
        argument = {"path": folder, "recursive": True, "limit": _LIST_LIMIT}
        try:
            page = await self._call(prefix, "files/list_folder", argument)
        except errors.FileNotFound:
            return
        while True:
            for metadata in page["entries"]:
                path = metadata["path_display"][len(self._root) + 1 :]
                if metadata[".tag"] == "file" and paths.is_path(path):
                    yield _make_entry(path, metadata)
            if not page["has_more"]:
                return
            cursor = {"cursor": page["cursor"]}
            page = await self._call(prefix, "files/list_folder/continue", cursor)

    async def create_signed_url(self, path: str, seconds: int) -> str | None:
        """Return a temporary link, which is always valid for four hours."""
        base.check_url_seconds(seconds)
        argument = {"path": self._to_dropbox_path(path)}
        return str((await self._call(path, "files/get_temporary_link", argument))["link"])

    async def copy(self, source: str, target: str) -> None:
        """Copy a file inside the Dropbox."""
        argument = {
            "from_path": self._to_dropbox_path(source),
            "to_path": self._to_dropbox_path(target),
            "autorename": False,
        }
        attempts = 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            try:
                await self._api.call("files/copy_v2", argument)
            except DropboxError as refusal:
                if "conflict" not in refusal.tags:
                    raise
                # An earlier attempt may have succeeded although its response was lost.
                if attempts == 1 or not await self._contents_match(source, target):
                    raise errors.FileExists(
                        f"a file already exists at {target!r}; choose another path"
                    ) from refusal

        with translate_dropbox_errors(source):
            await concurrency.finish_or_undo(
                self._retry.call(attempt), undo=lambda _: self.delete(target)
            )

    async def create_upload_address(
        self, path: str, *, size: int, sha256: str, seconds: int
    ) -> base.UploadAddress | None:
        """Return a temporary upload link, which can be used once; None for large files."""
        del sha256
        base.check_url_seconds(seconds)
        argument = {
            "commit_info": _make_commit_info(self._to_dropbox_path(path)),
            "duration": float(max(seconds, _MIN_LINK_SECONDS)),
        }
        if size > _MAX_LINK_BYTES:
            return None
        answer = await self._call(path, "files/get_temporary_upload_link", argument)
        headers = {"Content-Type": "application/octet-stream"}
        return base.UploadAddress(str(answer["link"]), "POST", headers)

    async def get_upload_origin(self) -> str | None:
        """Return scheme and host of Dropbox's content server."""
        return self._api.content_origin

    async def ping(self) -> None:
        """List the folder, which may not exist yet."""
        argument = {"path": self._root, "limit": 1}
        with contextlib.suppress(errors.FileNotFound):
            await self._call(self._root, "files/list_folder", argument)

    async def remove_unfinished(self, before: datetime) -> int:  # noqa: ARG002  # part of the protocol
        """Return 0: Dropbox itself deletes uploads that were not committed."""
        return 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._api.close()

    def _to_dropbox_path(self, path: str) -> str:
        return "/".join((self._root, *paths.check_path(path)))

    async def _fetch_metadata(self, path: str) -> Mapping[str, Any] | None:
        try:
            metadata = await self._call(
                path, "files/get_metadata", {"path": self._to_dropbox_path(path)}
            )
        except errors.FileNotFound:
            return None
        return dict(metadata) if metadata[".tag"] == "file" else None

    async def _contents_match(self, first: str, second: str) -> bool:
        found = [await self._fetch_metadata(path) for path in (first, second)]
        hashes = {entry["content_hash"] if entry else None for entry in found}
        return len(hashes) == 1 and None not in hashes

    async def _call(self, path: str, route: str, argument: Mapping[str, Any]) -> Any:  # noqa: ANN401
        async def attempt() -> Any:  # noqa: ANN401  # JSON
            with translate_dropbox_errors(path):
                return await self._api.call(route, argument)

        return await self._retry.call(attempt)


def _make_entry(path: str, metadata: Mapping[str, Any]) -> base.Entry:
    modified = datetime.fromisoformat(metadata["server_modified"])
    return base.Entry(path, metadata["size"], modified)


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """The request that makes a file visible."""

    route: str
    argument: Mapping[str, Any]
    data: bytes


class UploadSession:
    """An upload: send() its blocks, then commit() it; nothing remains of an uncommitted upload."""

    def __init__(self, api: DropboxApi, retry_policy: retry.RetryPolicy, dropbox_path: str) -> None:
        self._api = api
        self._retry = retry_policy
        self._dropbox_path = dropbox_path
        self._hash = ContentHash()

    async def send(self, blocks: AsyncGenerator[bytes, None]) -> CommitRequest:
        """Send all blocks but the last, and return the request that sends it and commits."""
        first = await self._read_next_block(blocks) or b""
        block = await self._read_next_block(blocks)
        if block is None:
            argument = {
                **_make_commit_info(self._dropbox_path),
                "content_hash": self._hash.hexdigest(),
            }
            return CommitRequest("files/upload", argument, first)
        session = await self._start(first)
        sent = len(first)
        while block is not None:
            await self._append({"session_id": session, "offset": sent}, block)
            sent += len(block)
            block = await self._read_next_block(blocks)
        cursor = {"session_id": session, "offset": sent}
        argument = {"cursor": cursor, "commit": _make_commit_info(self._dropbox_path)}
        return CommitRequest("files/upload_session/finish", argument, b"")

    async def commit(self, request: CommitRequest) -> None:
        """Make the file visible; raise DropboxError or a FileStoreError."""
        attempts = 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            try:
                await self._api.send(request.route, request.argument, request.data)
            except DropboxError:
                # An earlier attempt may have succeeded although its response was lost.
                if attempts == 1 or not await self._is_committed():
                    raise

        await self._retry.call(attempt)

    async def _read_next_block(self, blocks: AsyncGenerator[bytes, None]) -> bytes | None:
        block = await anext(blocks, None)
        if block is not None:
            await asyncio.to_thread(self._hash.update, block)
        return block

    async def _start(self, block: bytes) -> str:
        argument = {"close": False, "content_hash": await _hash_block(block)}

        async def attempt() -> str:
            response = await self._api.send("files/upload_session/start", argument, block)
            return str(response["session_id"])

        return await self._retry.call(attempt)

    async def _append(self, cursor: Mapping[str, Any], block: bytes) -> None:
        argument = {"cursor": cursor, "close": False, "content_hash": await _hash_block(block)}

        async def attempt() -> None:
            try:
                await self._api.send("files/upload_session/append_v2", argument, block)
            except DropboxError as refusal:
                # An earlier attempt may have succeeded although its response was lost.
                if refusal.correct_offset != cursor["offset"] + len(block):
                    raise

        try:
            await self._retry.call(attempt)
        except DropboxError as refusal:
            raise errors.StoreUnavailable(
                f"Dropbox lost an unfinished upload ({refusal}); send the file again"
            ) from refusal

    async def _is_committed(self) -> bool:
        try:
            metadata = await self._api.call("files/get_metadata", {"path": self._dropbox_path})
        except DropboxError:
            return False
        return bool(metadata.get("content_hash") == self._hash.hexdigest())


def _make_commit_info(dropbox_path: str) -> dict[str, Any]:
    return {
        "path": dropbox_path,
        "mode": "add",
        "autorename": False,
        "strict_conflict": True,  # otherwise the same content could be written twice
        "mute": True,
    }


async def _hash_block(block: bytes) -> str:
    return (await asyncio.to_thread(ContentHash, block)).hexdigest()


class ContentHash:
    """Dropbox's content hash: the SHA-256 of the SHA-256 hashes of all blocks of 4 MiB."""

    def __init__(self, data: bytes = b"") -> None:
        self._whole = hashlib.sha256()
        self._block = hashlib.sha256()
        self._room = _HASH_BLOCK_BYTES
        self.update(data)

    def update(self, data: bytes) -> None:
        """Add data."""
        rest = memoryview(data)
        while rest:
            head, rest = rest[: self._room], rest[self._room :]
            self._block.update(head)
            self._room -= len(head)
            if not self._room:
                self._whole.update(self._block.digest())
                self._block, self._room = hashlib.sha256(), _HASH_BLOCK_BYTES

    def hexdigest(self) -> str:
        """Return the hash of all data so far."""
        whole = self._whole.copy()
        if self._room < _HASH_BLOCK_BYTES:
            whole.update(self._block.digest())
        return whole.hexdigest()
