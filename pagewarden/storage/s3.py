"""S3-compatible buckets: the connection, the store, keys of paths, and errors.

A small file is one request that succeeds only if the key does not exist. A large one is uploaded
in parts under a temporary key and then copied on the same condition, which the client library
supports for copies but not for uploads in parts. Supabase Storage ignores the condition, so
`S3FileStore.write` also checks first whether the file exists.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import hashlib
import os
import re
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, unquote, urlsplit

import obstore
from obstore import exceptions
from obstore.store import S3Store

from pagewarden import concurrency, errors, retry
from pagewarden.storage import base, paths, s3_signing, scratch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterator
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType

    from obstore import GetOptions, ObjectMeta
    from obstore.store import S3Config, S3Credential

CONNECT_TIMEOUT = timedelta(seconds=10)
READ_TIMEOUT = timedelta(seconds=60)  # without receiving a byte
REQUEST_TIMEOUT = timedelta(minutes=15)  # of a whole request; an interrupted download is resumed

INCOMING = ".incoming"  # paths.check_path rejects this name
SETTING = "PAGEWARDEN_FILES"
SETTLE_SECONDS = 0.05

_PART_BYTES = 6 * 1024 * 1024
_CONCURRENT_PARTS = 2
_READ_BYTES = 256 * 1024
_LIST_BATCH = 1000
_MAX_PUT_BYTES = 5 * 1024**3
_MAX_KEY_BYTES = 1024
_MAX_QUOTED_LENGTH = 300  # characters of the library's message that ours quotes

# The library has no class for most statuses, and raises a bare OSError when closing an upload.
_STATUS = re.compile(r"status code: (\d{3})")
_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
_ARCHIVED = "<Code>InvalidObjectState</Code>"  # in a 403 response


@dataclass(frozen=True, slots=True)
class BucketConfig:
    """The address and credentials of a bucket.

    Defaults are the AWS_… environment variables and the role of the machine.
    """

    name: str
    prefix: str | None = None
    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)

    def connect(
        self, *, retries: int, backoff_seconds: float, max_backoff_seconds: float
    ) -> S3Store:
        """Return a client; nothing is sent yet."""
        return S3Store(
            self.name,
            prefix=self.prefix,
            config=self._config(),
            client_options={
                "allow_http": (self.endpoint or "").startswith("http://"),
                "connect_timeout": CONNECT_TIMEOUT,
                "read_timeout": READ_TIMEOUT,
                "timeout": REQUEST_TIMEOUT,
            },
            retry_config={
                "max_retries": retries,
                "backoff": {
                    "init_backoff": timedelta(seconds=backoff_seconds),
                    "max_backoff": timedelta(seconds=max_backoff_seconds),
                },
            },
            # Not in the config: the library would add a session token from the environment,
            # which belongs to another key.
            credential_provider=self._make_credential if self.access_key_id else None,
        )

    def find_secret(self, access_key_id: str) -> str | None:
        """Return the secret of an access key, from the settings or the environment."""
        known = {
            os.environ.get("AWS_ACCESS_KEY_ID"): os.environ.get("AWS_SECRET_ACCESS_KEY"),
            self.access_key_id: self.secret_access_key,
        }
        return known.get(access_key_id)

    def _config(self) -> S3Config:
        config: S3Config = {"copy_if_not_exists": "multipart", "disable_bulk_delete": True}
        if self.endpoint:
            config["endpoint"] = self.endpoint.rstrip("/")
        if self.region:
            config["region"] = self.region
        return config

    def _make_credential(self) -> S3Credential:
        return {
            "access_key_id": self.access_key_id or "",
            "secret_access_key": self.secret_access_key or "",
            "token": None,
            "expires_at": None,
        }


class S3FileStore:
    """The files of a bucket, or those below a prefix."""

    has_public_urls = True

    def __init__(self, bucket: BucketConfig, retry_policy: retry.RetryPolicy | None = None) -> None:
        self._bucket = bucket
        self._retry = retry_policy or retry.RetryPolicy()
        pauses = self._retry.pauses
        # Single requests are retried here, sequences of requests by the library.
        self._single = bucket.connect(
            retries=0, backoff_seconds=pauses[0], max_backoff_seconds=pauses[-1]
        )
        self._retrying = bucket.connect(
            retries=len(pauses), backoff_seconds=pauses[0], max_backoff_seconds=pauses[-1]
        )

    async def write(
        self, path: str, chunks: AsyncIterable[bytes], *, limit: int | None = None
    ) -> base.WrittenFile:
        """Write a file."""
        if await self.stat(path):
            raise errors.FileExists(f"a file already exists at {path!r}; choose another path")
        source = base.HashedInput(chunks, limit)
        async with contextlib.aclosing(source.read_blocks(_PART_BYTES)) as blocks:
            first = await anext(blocks, b"")
            second = await anext(blocks, None)
            if second is None:
                return await self._put(source.to_written_file(path), first)
            return await self._put_in_parts(path, source, _chain_blocks(first, second, blocks))

    def read(self, path: str, *, start: int = 0) -> AsyncGenerator[bytes, None]:
        """Yield the bytes from `start` on."""
        return self._retry.resume(functools.partial(self._read_once, path), start)

    async def fetch(self, path: str, target: Path) -> None:
        """Copy a file to a local file."""
        async with contextlib.aclosing(self.read(path)) as chunks:
            await scratch.write_file(chunks, target)

    async def delete(self, path: str) -> bool:
        """Delete a file."""
        if not await self.stat(path):
            return False
        await self._delete(self._make_key(path))
        return True

    async def stat(self, path: str) -> base.Entry | None:
        """Return the entry of a file."""
        try:
            return await self._retry.call(functools.partial(self._stat_once, path))
        except errors.FileNotFound:
            return None

    async def list(self, prefix: str = "") -> AsyncGenerator[base.Entry, None]:
        """Yield all files below a folder."""
        parts = paths.check_prefix(prefix)
        key = encode_path("/".join(parts), self._bucket.prefix)
        async for item in self._list_objects(key):
            path = decode_key(item["path"])
            if paths.is_path(path) and encode_path(path, self._bucket.prefix) == item["path"]:
                yield _make_entry(path, item)

    async def create_signed_url(self, path: str, seconds: int) -> str | None:
        """Return a presigned URL."""
        base.check_url_seconds(seconds)
        lifetime = timedelta(seconds=seconds)
        with translate_errors(path):
            return await obstore.sign_async(self._single, "GET", self._make_key(path), lifetime)

    async def copy(self, source: str, target: str) -> None:
        """Copy a file inside the bucket."""
        key, target_key = self._make_key(source), self._make_key(target)
        taken = errors.FileExists(f"a file already exists at {target!r}; choose another path")
        if await self.stat(target):
            raise taken
        attempts = 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            try:
                with translate_errors(source):
                    await obstore.copy_async(self._single, key, target_key, overwrite=False)
            except errors.FileExists as exc:
                if attempts == 1:  # otherwise an earlier attempt lost its response
                    raise taken from exc

        await concurrency.finish_or_undo(
            self._retry.call(attempt), undo=lambda _: self.delete(target)
        )

    async def create_upload_address(
        self, path: str, *, size: int, sha256: str, seconds: int
    ) -> base.UploadAddress | None:
        """Return a presigned PUT, bound to size and content if the secret key is known."""
        base.check_url_seconds(seconds)
        if size > _MAX_PUT_BYTES:
            return None
        lifetime = timedelta(seconds=seconds)
        with translate_errors(path, is_write=True):
            url = await obstore.sign_async(self._single, "PUT", self._make_key(path), lifetime)
        secret = self._bucket.find_secret(s3_signing.get_access_key_id(url))
        if secret is None:  # the role of the machine; the library does not disclose its keys
            return base.UploadAddress(url, "PUT", {})
        headers = {"x-amz-checksum-sha256": base64.b64encode(bytes.fromhex(sha256)).decode()}
        signed = {**headers, "content-length": str(size)}
        return base.UploadAddress(s3_signing.bind(url, "PUT", signed, secret), "PUT", headers)

    async def get_upload_origin(self) -> str | None:
        """Return scheme and host of the bucket."""
        with translate_errors(INCOMING):
            url = await obstore.sign_async(self._single, "PUT", INCOMING, timedelta(minutes=1))
        return "://".join(urlsplit(url)[:2])

    async def ping(self) -> None:
        """List unfinished files."""
        async with contextlib.aclosing(self._list_objects(INCOMING)) as items:
            await anext(items, None)

    async def remove_unfinished(self, before: datetime) -> int:
        """Delete large files that were uploaded before that time and never copied."""
        removed = 0
        async for item in self._list_objects(INCOMING):
            if item["last_modified"] < before:
                await self._delete(item["path"])
                removed += 1
        return removed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait until the library's threads have released their Python objects.

        Otherwise the interpreter may abort at exit. Connections close by themselves.
        """
        await asyncio.sleep(SETTLE_SECONDS)

    def _make_key(self, path: str) -> str:
        paths.check_path(path)
        return encode_path(path, self._bucket.prefix)

    async def _put(self, stored: base.WrittenFile, data: bytes) -> base.WrittenFile:
        key = self._make_key(stored.path)
        return await self._publish(
            stored, lambda: obstore.put_async(self._single, key, data, mode="create")
        )

    async def _put_in_parts(
        self, path: str, source: base.HashedInput, blocks: AsyncGenerator[bytes, None]
    ) -> base.WrittenFile:
        key, part = self._make_key(path), f"{INCOMING}/{uuid.uuid4().hex}"
        try:
            await self._upload(path, part, blocks)
            return await self._publish(
                source.to_written_file(path),
                lambda: obstore.copy_async(self._single, part, key, overwrite=False),
                part,
            )
        except BaseException:
            await concurrency.finish_or_undo(self._discard(part))
            raise

    async def _discard(self, part: str) -> None:
        with contextlib.suppress(errors.FileStoreError):  # remove_unfinished() deletes it later
            await self._delete(part)

    async def _upload(self, path: str, key: str, blocks: AsyncGenerator[bytes, None]) -> None:
        async with contextlib.AsyncExitStack() as stack:  # an exception aborts the upload
            writer = await stack.enter_async_context(
                obstore.open_writer_async(
                    self._retrying, key, buffer_size=_PART_BYTES, max_concurrency=_CONCURRENT_PARTS
                )
            )
            async for block in blocks:
                with translate_errors(path, is_write=True):
                    await concurrency.finish_or_undo(writer.write(block))
            with translate_errors(path, is_write=True):
                await concurrency.finish_or_undo(stack.aclose())

    async def _publish(
        self,
        stored: base.WrittenFile,
        step: Callable[[], Awaitable[object]],
        part: str | None = None,
    ) -> base.WrittenFile:
        """Run the step that makes a file visible, and discard its part; undo it if cancelled."""
        attempts = 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            try:
                with translate_errors(stored.path, is_write=True):
                    await step()
            except errors.FileExists:
                if not await self._was_written(stored, attempts):
                    raise

        async def run() -> None:
            await self._retry.call(attempt)
            if part is not None:
                await self._discard(part)

        await concurrency.finish_or_undo(run(), undo=lambda _: self.delete(stored.path))
        return stored

    async def _was_written(self, stored: base.WrittenFile, attempts: int) -> bool:
        """Return whether an earlier attempt succeeded and only its response was lost."""
        entry = await self.stat(stored.path)
        if entry is None:
            raise errors.StoreUnavailable(
                f"{stored.path!r} was deleted while it was being written; write it again"
            )
        if attempts == 1 or entry.size != stored.size:
            return False
        sha256 = hashlib.sha256()
        async for chunk in self.read(stored.path):
            sha256.update(chunk)
        return sha256.hexdigest() == stored.sha256

    async def _stat_once(self, path: str) -> base.Entry:
        key = self._make_key(path)
        with translate_errors(path):
            return _make_entry(path, await obstore.head_async(self._single, key))

    async def _read_once(self, path: str, start: int) -> AsyncGenerator[bytes, None]:
        key = self._make_key(path)
        options: GetOptions | None = {"range": {"offset": start}} if start else None
        try:
            # Servers reject a range that begins at the end.
            if start and (await self._stat_once(path)).size <= start:
                return
            with translate_errors(path):
                result = await obstore.get_async(self._single, key, options=options)
                async for chunk in result.stream(_READ_BYTES):
                    yield chunk
        except errors.FileNotFound:
            await self.ping()  # raises another error if the bucket itself does not exist
            raise

    async def _list_objects(self, key: str) -> AsyncGenerator[ObjectMeta, None]:
        pages = obstore.list(self._retrying, key or None, chunk_size=_LIST_BATCH)
        while True:
            with translate_errors(key):
                page = await anext(pages, None)
            if page is None:
                return
            for item in page:
                yield item

    async def _delete(self, key: str) -> None:
        async def attempt() -> None:
            with translate_errors(key):
                await obstore.delete_async(self._single, key)

        await self._retry.call(attempt)


async def _chain_blocks(
    first: bytes, second: bytes, rest: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    yield first
    yield second
    async for block in rest:
        yield block


def _make_entry(path: str, item: ObjectMeta) -> base.Entry:
    return base.Entry(path, item["size"], item["last_modified"])


def encode_path(path: str, prefix: str | None) -> str:
    """Return the key of a path; unusual bytes become `=` and two hexadecimal digits.

    Supabase Storage allows only some ASCII characters in keys.
    """
    key = quote(path, safe="/ ()").replace("%", "=").replace("~", "=7E")
    if len(key) + len(prefix or "") >= _MAX_KEY_BYTES:
        raise errors.UnsafePath(
            f"the path {path[:200]!r} is too long for an object key; shorten it"
        )
    return key


def decode_key(key: str) -> str:
    """Return the path of a key."""
    return unquote(key.replace("=", "%"))


@contextlib.contextmanager
def translate_errors(
    path: str, *, is_write: bool = False, setting: str = SETTING
) -> Iterator[None]:
    """Raise FileStoreError for errors of the library; `setting` is what names the bucket."""
    try:
        yield
    except FileNotFoundError as exc:
        if is_write:
            raise errors.StoreMisconfigured(
                f"the bucket does not exist; create it, or correct {setting}"
            ) from exc
        raise errors.FileNotFound(f"there is no file {path!r}; check the path") from exc
    except exceptions.AlreadyExistsError as exc:
        raise errors.FileExists(f"a file already exists at {path!r}; choose another path") from exc
    except (exceptions.BaseError, OSError) as exc:
        if _ARCHIVED in str(exc):
            raise errors.FileAccessDenied(
                f"the file {path!r} is archived (Glacier); restore the object in the bucket, then "
                "requeue the document"
            ) from exc
        raise _make_status_error(exc, setting) from exc


def _make_status_error(exc: Exception, setting: str) -> errors.FileStoreError:
    where, _, what = str(exc).partition("\n")[0].partition(" - ")
    reason = (what or where)[:_MAX_QUOTED_LENGTH]
    match = _STATUS.search(str(exc))
    status = int(match[1]) if match else 0
    if status in {401, 403}:
        return errors.StoreCredentialsRejected(
            "access to the bucket was denied; check PAGEWARDEN_S3_ACCESS_KEY_ID and its "
            "permissions to "
            f"list, get, put and delete ({reason})"
        )
    if status == 413:
        return errors.FileTooLarge(f"the file is too large for the bucket; split it ({reason})")
    if status == 507:
        return errors.StoreFull(f"the bucket is full; free up space in it ({reason})")
    if status == 501 or (400 <= status < 500 and status not in _TRANSIENT_STATUSES):
        return errors.StoreMisconfigured(
            f"the bucket cannot be used; check {setting}, PAGEWARDEN_S3_ENDPOINT and "
            f"PAGEWARDEN_S3_REGION ({reason})"
        )
    return errors.StoreUnavailable(
        f"the bucket cannot be reached; check the network, then try again ({reason})"
    )
