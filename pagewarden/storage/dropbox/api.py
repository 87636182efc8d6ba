"""Dropbox API: calls with one request each, access tokens, and errors.

A request is repeated once if its access token has expired; other retries are up to the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pydantic

from pagewarden import errors, retry

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 60.0  # without sending or receiving a byte

_TOKEN_MARGIN_SECONDS = 300.0  # a token is renewed this long before it expires
_SEND_BYTES = 256 * 1024
_READ_BYTES = 256 * 1024
_RANGE_NOT_SATISFIABLE = 416  # the range begins at or after the end of the file
_MAX_QUOTED_LENGTH = 300  # characters of Dropbox's message that ours quotes

_ABSENT = frozenset({"not_found", "not_file", "not_folder"})
_TRANSIENT_TAGS = frozenset({"too_many_write_operations", "content_hash_mismatch"})

# The first entry that shares a tag with the refusal applies.
_MEANINGS: tuple[tuple[frozenset[str], type[errors.FileStoreError], str], ...] = (
    (
        frozenset({"conflict"}),
        errors.FileExists,
        "a file exists at {path!r} or above it; choose another path",
    ),
    (
        frozenset(
            {
                "insufficient_space",
                "team_folder_insufficient_space",
                "member_folder_insufficient_space",
                "upload_traffic_limit_reached",
            }
        ),
        errors.StoreFull,
        "the Dropbox account is full ({refusal}); free up space in it",
    ),
    (
        frozenset({"lookup_failed"}),
        errors.StoreUnavailable,
        "Dropbox lost an unfinished upload ({refusal}); upload {path!r} again",
    ),
    (_ABSENT, errors.FileNotFound, "there is no file {path!r}; check the path"),
    (
        frozenset({"restricted_content"}),
        errors.FileAccessDenied,
        "Dropbox denied access to the file {path!r} ({refusal}); upload it again",
    ),
    (
        frozenset({"malformed_path", "disallowed_name"}),
        errors.UnsafePath,
        "Dropbox does not allow the name {path!r}; choose another",
    ),
    (
        frozenset({"too_large", "payload_too_large"}),
        errors.FileTooLarge,
        "the file {path!r} is too large for Dropbox; split it",
    ),
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of an app for one Dropbox; the app secret is None with PKCE."""

    app_key: str
    app_secret: str | None = field(repr=False)
    refresh_token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class DownloadedContent:
    """A download: the hash of the whole file, and the requested part of its content."""

    content_hash: str
    chunks: AsyncIterator[bytes]


class DropboxApi:
    """The two hosts of the API, with an access token."""

    def __init__(self, api_url: str, content_url: str, credentials: Credentials) -> None:
        self._client = httpx.AsyncClient(
            verify=_load_certificates(),
            timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
            headers={"Accept-Encoding": "identity"},  # sizes and offsets refer to the file itself
        )
        self._api = api_url.rstrip("/")
        self._content = content_url.rstrip("/")
        self._token = AccessToken(self._client, f"{self._api}/oauth2/token", credentials)

    @property
    def content_origin(self) -> str:
        """Scheme and host of uploads and downloads."""
        return "://".join(urlsplit(self._content)[:2])

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def call(self, route: str, argument: Mapping[str, Any]) -> Any:  # noqa: ANN401  # JSON
        """Call a route; raise DropboxError or a FileStoreError."""
        headers = {"Content-Type": "application/json"}
        body = json.dumps(argument).encode()
        return await self._request(f"{self._api}/2/{route}", headers, body)

    async def send(self, route: str, argument: Mapping[str, Any], data: bytes) -> Any:  # noqa: ANN401
        """Upload content; raise DropboxError or a FileStoreError."""
        headers = {"Content-Type": "application/octet-stream", **_make_argument_header(argument)}
        return await self._request(f"{self._content}/2/{route}", headers, data)

    @contextlib.asynccontextmanager
    async def receive(self, dropbox_path: str, start: int) -> AsyncIterator[DownloadedContent]:
        """Download content from `start` on; raise DropboxError or a FileStoreError."""
        headers = _make_argument_header({"path": dropbox_path})
        if start:
            headers["Range"] = f"bytes={start}-"
        async with self._open_response(
            f"{self._content}/2/files/download", headers, b""
        ) as response:
            if response.status_code != _RANGE_NOT_SATISFIABLE:
                await _raise_for_status(response)
            yield DownloadedContent(_get_content_hash(response), _iterate_chunks(response))

    async def _request(self, url: str, headers: Mapping[str, str], body: bytes) -> Any:  # noqa: ANN401
        async with self._open_response(url, headers, body) as response:
            await _raise_for_status(response)
            with translate_transport_errors():
                body = await response.aread()
        try:
            return json.loads(body)
        except ValueError as exc:
            raise errors.StoreUnavailable("Dropbox did not return JSON; try again") from exc

    @contextlib.asynccontextmanager
    async def _open_response(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[httpx.Response]:
        response = await self._post(url, headers, body, token := await self._token.get())
        if response.status_code == 401:
            await response.aclose()
            self._token.discard(token)
            response = await self._post(url, headers, body, await self._token.get())
        async with contextlib.aclosing(response):
            yield response

    async def _post(
        self, url: str, headers: Mapping[str, str], body: bytes, token: str
    ) -> httpx.Response:
        all_headers = {
            "Authorization": f"Bearer {token}",
            "Content-Length": str(len(body)),
            **headers,
        }
        request = self._client.build_request(
            "POST", url, headers=all_headers, content=_split_body(body)
        )
        with translate_transport_errors():
            return await self._client.send(request, stream=True)


@functools.cache
def _load_certificates() -> ssl.SSLContext:
    """Load the certificates once; that takes longer than a request."""
    return httpx.create_ssl_context()


async def _split_body(body: bytes) -> AsyncIterator[bytes]:
    """Yield a body in pieces, because httpx keeps whole bodies until garbage collection."""
    for start in range(0, len(body), _SEND_BYTES):
        yield body[start : start + _SEND_BYTES]


def _make_argument_header(argument: Mapping[str, Any]) -> dict[str, str]:
    return {"Dropbox-API-Arg": json.dumps(argument)}  # in ASCII, as a header must be


async def _raise_for_status(response: httpx.Response) -> None:
    if not response.is_success:
        with translate_transport_errors():
            body = await response.aread()
        raise _make_response_error(response.status_code, response.headers, body)


async def _iterate_chunks(response: httpx.Response) -> AsyncIterator[bytes]:
    if response.is_success:
        with translate_transport_errors():
            async for chunk in response.aiter_bytes(_READ_BYTES):
                yield chunk


def _get_content_hash(response: httpx.Response) -> str:
    with contextlib.suppress(ValueError):
        metadata = json.loads(response.headers.get("Dropbox-API-Result", ""))
        return str(metadata.get("content_hash", ""))
    return ""


class _TokenResponse(pydantic.BaseModel):
    access_token: str
    expires_in: float


class AccessToken:
    """A short-lived access token, renewed with the refresh token."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        url: str,
        credentials: Credentials,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._url = url
        self._credentials = credentials
        self._now = now
        self._lock = asyncio.Lock()
        self._token = ""
        self._expires_at = 0.0

    async def get(self) -> str:
        """Return a token that does not expire soon."""
        async with self._lock:  # of concurrent callers, one renews the token
            if not self._token or self._now() >= self._expires_at:
                await self._refresh()
            return self._token

    def discard(self, token: str) -> None:
        """Discard a rejected token, unless it has been renewed already."""
        if token == self._token:
            self._token = ""

    async def _refresh(self) -> None:
        form = {
            "grant_type": "refresh_token",
            "refresh_token": self._credentials.refresh_token,
            "client_id": self._credentials.app_key,
        }
        if self._credentials.app_secret:
            form["client_secret"] = self._credentials.app_secret
        with translate_transport_errors():
            response = await self._client.post(self._url, data=form)
        if response.status_code in {400, 401}:
            raise errors.StoreCredentialsRejected(
                "Dropbox rejected the refresh token; connect the app again and set "
                "DROPBOX_APP_KEY, DROPBOX_APP_SECRET and DROPBOX_REFRESH_TOKEN"
            )
        if not response.is_success:
            raise _make_response_error(response.status_code, response.headers, response.content)
        renewed = _parse_token(response.content)
        self._token = renewed.access_token
        self._expires_at = self._now() + renewed.expires_in - _TOKEN_MARGIN_SECONDS


def _parse_token(body: bytes) -> _TokenResponse:
    try:
        return _TokenResponse.model_validate_json(body)
    except pydantic.ValidationError as exc:
        raise errors.StoreUnavailable("Dropbox returned no valid access token; try again") from exc


class DropboxError(Exception):
    """A 409 response: the call is valid but cannot be carried out.

    `tags` lead from the kind of the refusal to its reason, such as path, conflict, file.
    """

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.tags = tuple(_iterate_tags(error))
        self.correct_offset = _parse_correct_offset(error)
        super().__init__("/".join(self.tags))

    @property
    def is_transient(self) -> bool:
        """Return whether a retry may succeed."""
        return not _TRANSIENT_TAGS.isdisjoint(self.tags)


def _iterate_tags(error: Mapping[str, Any]) -> Iterator[str]:
    tag = error.get(".tag")
    if isinstance(tag, str):
        yield tag
        inner = error.get(tag, error.get("reason"))
        if isinstance(inner, dict):
            yield from _iterate_tags(inner)


def _parse_correct_offset(error: Mapping[str, Any]) -> int | None:
    for layer in (error, error.get("lookup_failed")):
        if isinstance(layer, dict) and isinstance(layer.get("correct_offset"), int):
            return int(layer["correct_offset"])
    return None


@contextlib.contextmanager
def translate_dropbox_errors(path: str) -> Iterator[None]:
    """Raise FileStoreError for refusals about this path."""
    try:
        yield
    except DropboxError as exc:
        raise _convert_error(exc, path) from exc


def _convert_error(refusal: DropboxError, path: str) -> errors.FileStoreError:
    for tags, kind, message in _MEANINGS:
        if not tags.isdisjoint(refusal.tags):
            return kind(message.format(path=path, refusal=refusal))
    return errors.StoreMisconfigured(
        f"Dropbox rejected the call for {path!r} ({refusal}); check the account permissions"
    )


@contextlib.contextmanager
def translate_transport_errors() -> Iterator[None]:
    """Raise StoreUnavailable for transport errors."""
    try:
        yield
    except httpx.HTTPError as exc:
        reason = str(exc) or type(exc).__name__
        raise errors.StoreUnavailable(
            f"Dropbox cannot be reached ({reason}); check the network, then try again"
        ) from exc


def _make_response_error(status: int, headers: httpx.Headers, body: bytes) -> Exception:
    """Return the error that an unsuccessful response means: a FileStoreError or DropboxError."""
    if status == 409:
        refusal = DropboxError(_parse_error(body))
        busy = f"Dropbox is busy ({refusal}); try again"
        return errors.StoreUnavailable(busy) if refusal.is_transient else refusal
    quoted = body[:_MAX_QUOTED_LENGTH].decode(errors="replace")
    if status in {401, 403}:
        return errors.StoreCredentialsRejected(
            "Dropbox denied access; check DROPBOX_REFRESH_TOKEN and the app permissions: "
            "files.content.read, files.content.write, files.metadata.read and files.metadata.write "
            f"(response: {quoted!r})"
        )
    if status == 429 or status >= 500:
        return errors.StoreUnavailable(
            f"Dropbox is busy or unavailable (HTTP {status}); try again",
            retry_after=retry.parse_retry_after(headers.get("Retry-After")),
        )
    return errors.StoreMisconfigured(
        f"Dropbox rejected the request (HTTP {status}); check PAGEWARDEN_DROPBOX_API_URL and "
        f"PAGEWARDEN_DROPBOX_CONTENT_URL (response: {quoted!r})"
    )


def _parse_error(body: bytes) -> Mapping[str, Any]:
    with contextlib.suppress(ValueError):
        parsed = json.loads(body)
        if isinstance(parsed, dict) and isinstance(parsed.get("error"), dict):
            return dict(parsed["error"])
    return {}
