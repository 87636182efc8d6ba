"""Client of a Pagewarden server: upload, wait, search, cancel, download text, check pictures."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import os
import re
import urllib.parse
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeVar

from pagewarden import concurrency, errors, retry
from pagewarden.client import auth, http

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

    import httpx

    from pagewarden.settings import Settings

T = TypeVar("T")

# Long enough for a server to restart.
RETRY_POLICY = retry.RetryPolicy((0.5, 1.0, 2.0, 4.0, 8.0, 15.0), max_wait=120.0)
_NO_RETRIES = retry.RetryPolicy(())

CHUNK_BYTES = 1 << 20
MIN_POLL_SECONDS = 0.2
MAX_POLL_SECONDS = 5.0
_POLL_GROWTH = 1.5
_POLL_SHARE = 0.2  # of the time that is left

_FUNCTIONS = "/functions/v1"
_UPLOAD = "/upload-to-dropbox"
# Conflict, and a link of Dropbox that has been used.
_ALREADY_UPLOADED = frozenset({409, 410})
_ADDRESS = re.compile(r"https?://[^\s/?#]+")


@dataclass(frozen=True, slots=True)
class UploadOptions:
    """Case of an upload and how to read it; None means the server's default."""

    case_id: str | None = None
    language: str | None = None
    engine: str | None = None
    profile: str | None = None

    def to_params(self) -> dict[str, str]:
        """Return the query parameters of an upload."""
        return {name: value for name, value in asdict(self).items() if value is not None}


DEFAULT_OPTIONS = UploadOptions()


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search query; None does not restrict it."""

    query: str
    case_id: str | None = None
    language: str | None = None
    limit: int = 20

    def to_params(self) -> dict[str, str]:
        """Return the query parameters of a search."""
        return {name: str(value) for name, value in asdict(self).items() if value is not None}


def _ignore_progress(_position: int) -> None:
    pass


class Client:
    """A server and the credentials to call it; use open_client() to make one.

    Transient failures are retried; when retries are exhausted, ServerUnavailable is raised.
    """

    def __init__(
        self,
        server: http.Connection,
        credentials: auth.Credentials,
        retry_policy: retry.RetryPolicy,
    ) -> None:
        self._connection = server
        self._credentials = credentials
        self._retry_policy = retry_policy
        self._is_reachable = True
        self._max_direct_bytes: int | None = None

    @property
    def url(self) -> str:
        """Return the URL of the server."""
        return self._connection.url

    @property
    def account(self) -> str:
        """Return the name of the caller, which is not secret."""
        return self._credentials.account

    async def upload(
        self,
        path: Path,
        *,
        name: str | None = None,
        options: UploadOptions = DEFAULT_OPTIONS,
        on_sent: Callable[[int], None] = _ignore_progress,
    ) -> http.UploadedDocument:
        """Upload a file; on_sent receives the bytes sent so far, from 0 at each attempt."""
        with open_upload(path) as file:
            is_direct = file.size <= await self._fetch_max_direct_bytes()
        upload = self._upload_directly if is_direct else self._upload_to_signed_url
        return await upload(path, name or path.name, options, on_sent)

    async def _fetch_max_direct_bytes(self) -> int:
        """Return the maximum size of an upload in one request; the server is asked once."""
        if self._max_direct_bytes is None:
            response = await self._request("GET", _UPLOAD)
            limits = http.UploadLimits.model_validate_json(response.content)
            self._max_direct_bytes = limits.max_direct_bytes
        return self._max_direct_bytes

    async def _upload_directly(
        self, path: Path, name: str, options: UploadOptions, on_sent: Callable[[int], None]
    ) -> http.UploadedDocument:
        encoded = urllib.parse.quote(os.fsencode(name), safe="")

        async def send(headers: dict[str, str]) -> httpx.Response:
            with open_upload(path) as file:
                file_headers = {"X-File-Name": encoded, "Content-Length": str(file.size)}
                return await self._connection.call(
                    "POST",
                    _FUNCTIONS + _UPLOAD,
                    params=options.to_params(),
                    content=file.read_chunks(on_sent),
                    headers=file_headers | headers,
                )

        response = await self._with_retries(send)
        return http.UploadedDocument.model_validate_json(response.content)

    async def _upload_to_signed_url(
        self, path: Path, name: str, options: UploadOptions, on_sent: Callable[[int], None]
    ) -> http.UploadedDocument:
        """Request an address, upload the file there, and have the server check it."""
        with open_upload(path) as file:
            wanted = {
                "name": os.fsencode(name).decode(errors="replace"),
                "size": file.size,
                "sha256": await file.compute_sha256(),
                **options.to_params(),
            }
        response = await self._request("POST", f"{_UPLOAD}/sign", json=wanted)
        signed = http.SignedUpload.model_validate_json(response.content)
        await self._send_to_address(path, signed, on_sent)
        response = await self._request("POST", f"{_UPLOAD}/{signed.upload_id}/confirm")
        return http.UploadedDocument.model_validate_json(response.content)

    async def _send_to_address(
        self, path: Path, signed: http.SignedUpload, on_sent: Callable[[int], None]
    ) -> None:
        async def send() -> None:
            with open_upload(path) as file:
                await store.call(
                    signed.method,
                    signed.url,
                    content=file.read_chunks(on_sent),
                    headers={**signed.headers, "Content-Length": str(file.size)},
                )

        origin = "://".join(urllib.parse.urlsplit(signed.url)[:2])  # without the signature
        async with contextlib.aclosing(http.Connection(origin)) as store:
            try:
                await self._retry_policy.call(send)
            except errors.CallRejected as exc:
                # An earlier attempt arrived although its response was lost; the server checks it.
                if exc.status in _ALREADY_UPLOADED:
                    return
                if exc.code:
                    raise
                message = f"the file store rejected the upload ({exc.status}); try again"
                raise errors.CallRejected(message, status=exc.status, code="") from exc

    async def status(self, document_id: str) -> http.Progress:
        """Return the progress of a document."""
        response = await self._request("GET", f"/documents/{document_id}")
        return http.Progress.model_validate_json(response.content)

    async def search(self, query: SearchQuery) -> list[http.SearchHit]:
        """Search pages, best matches first."""
        response = await self._request("GET", "/documents", query.to_params())
        return http.HITS.validate_json(response.content)

    async def cancel(self, document_id: str) -> None:
        """Cancel a document."""
        await self._request("POST", f"/documents/{document_id}/cancel")

    async def submit_check(self, files: Mapping[str, bytes], **fields: str) -> str:
        """Submit a check job of pictures and expected texts, and return its id.

        fields are those of the jobs API; without an idempotency_key a retry may create a duplicate.
        """
        parts = [("images", (name, content)) for name, content in files.items()]

        async def send(headers: dict[str, str]) -> httpx.Response:
            return await self._connection.call(
                "POST", f"{_FUNCTIONS}/jobs", data=fields, files=parts, headers=headers
            )

        job_id: str = (await self._with_retries(send)).json()["jobId"]
        return job_id

    async def save_text(self, document_id: str, format_name: str, target: BinaryIO) -> None:
        """Download the text, in a format of pagewarden.exports, to a new file."""

        async def save(headers: dict[str, str]) -> None:
            await concurrency.run_in_thread(_truncate, target)
            async with self._connection.stream(
                "GET",
                f"{_FUNCTIONS}/documents/{document_id}/export",
                params={"format": format_name},
                headers=headers,
            ) as response:
                async for chunk in self._connection.read_chunks(response):
                    await concurrency.run_in_thread(target.write, chunk)

        await self._with_retries(save)

    async def _request(
        self,
        method: str,
        path: str,
        params: dict[str, str] | None = None,
        json: Mapping[str, object] | None = None,
    ) -> httpx.Response:
        async def send(headers: dict[str, str]) -> httpx.Response:
            return await self._connection.call(
                method, _FUNCTIONS + path, params=params, json=json, headers=headers
            )

        return await self._with_retries(send)

    async def _with_retries(self, call: Callable[[dict[str, str]], Awaitable[T]]) -> T:
        """Retry transient failures; after ServerUnavailable do not retry until a call succeeds."""
        policy = self._retry_policy if self._is_reachable else _NO_RETRIES
        try:
            result = await policy.call(functools.partial(self._call_once, call))
        except errors.ServerUnavailable:
            self._is_reachable = False
            raise
        self._is_reachable = True
        return result

    async def _call_once(self, call: Callable[[dict[str, str]], Awaitable[T]]) -> T:
        """Call with credentials, and renew them once if the server refuses them."""
        headers = await self._credentials.get_headers()
        try:
            return await call(headers)
        except errors.NotSignedIn:
            await self._credentials.renew(headers)
        return await call(await self._credentials.get_headers())


@contextlib.asynccontextmanager
async def open_client(
    settings: Settings,
    url: str | None = None,
    *,
    sessions: auth.SessionStore | None = None,
    retry_policy: retry.RetryPolicy = RETRY_POLICY,
) -> AsyncIterator[Client]:
    """Open a client of the server at this URL, by default that of the settings."""
    async with open_connection(settings, url) as server:
        credentials = auth.find_credentials(settings, server, sessions or auth.SessionStore())
        await server.require_reachable()
        yield Client(server, credentials, retry_policy)


@contextlib.asynccontextmanager
async def open_connection(
    settings: Settings, url: str | None = None
) -> AsyncIterator[http.Connection]:
    """Open a connection to the server, without credentials."""
    server = http.Connection(normalize_url(url) if url else settings.site_url)
    try:
        yield server
    finally:
        await server.aclose()


def normalize_url(url: str) -> str:
    """Check the URL of a server as a user typed it."""
    normalized = url.rstrip("/")
    if _ADDRESS.fullmatch(normalized) is None:
        raise errors.SettingsError(
            f"{url!r} is not the URL of a server; expected one such as https://ocr.example.org"
        )
    return normalized


def _truncate(target: BinaryIO) -> None:
    target.seek(0)
    target.truncate()


def compute_poll_interval(idle_polls: int, seconds_left: float | None) -> float:
    """Return the interval before the next poll, which grows with the number of idle polls."""
    growing = MIN_POLL_SECONDS * _POLL_GROWTH ** min(idle_polls, 20)
    hinted = MAX_POLL_SECONDS if seconds_left is None else seconds_left * _POLL_SHARE
    return min(max(hinted, MIN_POLL_SECONDS), growing, MAX_POLL_SECONDS)


async def wait_until_finished(
    client: Client,
    document_id: str,
    *,
    on_progress: Callable[[http.Progress], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> http.Progress:
    """Poll until the document is read or needs a person."""
    last, idle_polls = None, 0
    while True:
        progress = await client.status(document_id)
        on_progress(progress)
        if progress.state is not http.DocumentState.IN_PROGRESS:
            return progress
        idle_polls = idle_polls + 1 if progress == last else 0
        last = progress
        await sleep(compute_poll_interval(idle_polls, progress.seconds_left))


@dataclass(frozen=True, slots=True)
class UploadFile:
    """An open file and its size when it was opened; bytes appended later are not sent."""

    path: Path
    file: BinaryIO
    size: int

    async def compute_sha256(self) -> str:
        """Return the digest of the bytes that read_chunks() yields."""
        sha256 = hashlib.sha256()
        async for chunk in self.read_chunks(_ignore_progress):
            await concurrency.run_in_thread(sha256.update, chunk)
        return sha256.hexdigest()

    async def read_chunks(self, on_sent: Callable[[int], None]) -> AsyncIterator[bytes]:
        """Read from the beginning; on_sent receives the bytes read so far."""
        self.file.seek(0)
        position = 0
        on_sent(position)
        while position < self.size:
            with translate_file_errors(self.path):
                size = min(CHUNK_BYTES, self.size - position)
                chunk = await concurrency.run_in_thread(self.file.read, size)
            if not chunk:
                raise errors.LocalFileError(
                    f"{self.path} was truncated during the upload; retry when it is complete"
                )
            yield chunk
            position += len(chunk)
            on_sent(position)


@contextlib.contextmanager
def open_upload(path: Path) -> Iterator[UploadFile]:
    """Open a file to upload it."""
    with translate_file_errors(path):
        file = path.open("rb")
    with file:
        yield UploadFile(path, file, os.fstat(file.fileno()).st_size)


@contextlib.contextmanager
def translate_file_errors(path: Path) -> Iterator[None]:
    """Raise LocalFileError for errors of the file system."""
    try:
        yield
    except OSError as exc:
        raise errors.LocalFileError(f"{path} cannot be used ({exc.strerror or exc})") from exc
