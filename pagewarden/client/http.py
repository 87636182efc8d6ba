"""HTTP calls to a server, models of its responses, and its errors as ours."""

from __future__ import annotations

import contextlib
import enum
from typing import TYPE_CHECKING, Any

import httpx
import pydantic

from pagewarden import errors, retry
from pagewarden.settings import secrets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

CONNECT_SECONDS = 5.0
# The server responds to an upload after storing the file, possibly in a remote store.
READ_SECONDS = 120.0

# Timeout, rate limit, service unavailable, no space: a retry may succeed.
_TRANSIENT_STATUSES = frozenset({408, 429, 502, 503, 504, 507})


class Connection:
    """HTTP connections to one server, such as https://ocr.example.org."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.AsyncClient(
            base_url=url,
            timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS, pool=None),
            # Never use a proxy from the environment for a loopback address.
            trust_env=not secrets.is_loopback_url(url),
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def require_reachable(self) -> None:
        """Raise ServerUnavailable if the server does not respond."""
        with self._translate_errors():
            await self._http.get("/healthz")

    async def call(self, method: str, path: str, **options: Any) -> httpx.Response:  # noqa: ANN401
        """Make a call and read its response; raise an error unless it succeeded."""
        async with self.stream(method, path, **options) as response:
            await self._read(response)
            return response

    @contextlib.asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        **options: Any,  # noqa: ANN401  # those of httpx
    ) -> AsyncIterator[httpx.Response]:
        """Make a call; the caller reads the response with read_chunks().

        A response that only links to its content (303) is followed once, without credentials.
        """
        response = await self._send(self._http.build_request(method, path, **options))
        if response.status_code == httpx.codes.SEE_OTHER and response.has_redirect_location:
            await response.aclose()
            link = response.url.join(response.headers["Location"])
            response = await self._send(self._http.build_request("GET", link))
        try:
            if not response.is_success:
                await self._read(response)
                raise to_error(response)
            yield response
        finally:
            await response.aclose()

    async def read_chunks(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """Read a response in chunks."""
        stream = response.aiter_bytes()
        while True:
            with self._translate_errors():
                chunk = await anext(stream, None)
            if chunk is None:
                return
            yield chunk

    async def _send(self, request: httpx.Request) -> httpx.Response:
        with self._translate_errors():
            return await self._http.send(request, stream=True)

    async def _read(self, response: httpx.Response) -> None:
        with self._translate_errors():
            await response.aread()

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
            raise errors.ServerUnavailable(
                f"no server is listening at {self.url}; start one with `pagewarden up`, or "
                "specify another with --url"
            ) from exc
        except httpx.TransportError as exc:
            raise errors.ServerUnavailable(
                f"the connection to {self.url} was lost ({str(exc) or type(exc).__name__})"
            ) from exc


class UploadedDocument(pydantic.BaseModel, frozen=True):
    """The document of an uploaded file; existing means that the server already had it."""

    document_id: str
    case_id: str
    name: str
    document_version: int
    ocr_status: str
    existing: bool
    status_url: str


class UploadLimits(pydantic.BaseModel, frozen=True):
    """From which size on a file needs an upload address."""

    max_direct_bytes: int


class SignedUpload(pydantic.BaseModel, frozen=True):
    """The request that uploads a file to its address."""

    upload_id: str
    url: str
    method: str
    headers: dict[str, str]


class DocumentState(enum.Enum):
    """Whether a document has text, will have it, or needs a person first."""

    IN_PROGRESS = enum.auto()
    READ = enum.auto()
    NOT_READ = enum.auto()


# What a person has to do when no text will come by itself.
_REMEDIES: Mapping[str, str] = {
    "pending": "its file type is unknown; an administrator must route it to a lane",
    "dead_letter": "it is a dead letter; an administrator must review it",
    "pending_review": "its text must be typed by an administrator",
    "extraction_failed": "its file could not be fetched; fetch it again",
    "failed": "OCR failed; read it again, or upload a better scan",
    "cancelled": "it was cancelled; upload it again if you still need its text",
}


class Progress(pydantic.BaseModel, frozen=True):
    """Progress of a document; seconds_left is an estimate, None if unknown."""

    document_id: str
    name: str
    ocr_status: str
    pages_done: int
    page_count: int | None
    error: str | None
    ahead: int | None
    seconds_left: float | None

    @property
    def state(self) -> DocumentState:
        """Return whether the document has text, will have it, or needs a person first."""
        if self.ocr_status == "completed":
            return DocumentState.READ
        return DocumentState.NOT_READ if self.ocr_status in _REMEDIES else DocumentState.IN_PROGRESS

    @property
    def unread(self) -> int:
        """Return the number of unreadable pages of a completed document."""
        return max((self.page_count or 0) - self.pages_done, 0)

    @property
    def problem(self) -> str:
        """Return why there is no text, and what to do."""
        remedy = _REMEDIES.get(self.ocr_status, "it has not been read yet")
        return f"{remedy} ({self.error})" if self.error else remedy


class SearchHit(pydantic.BaseModel, frozen=True):
    """A page that matches a search; headline is an excerpt with hits marked «so»."""

    document_id: str
    case_id: str
    name: str
    page_number: int
    rank: float
    headline: str


HITS = pydantic.TypeAdapter(list[SearchHit])


def to_error(response: httpx.Response) -> errors.PagewardenError:
    """Turn a failed response into an error; its body must have been read."""
    code, message = _parse_error_details(response)
    if response.status_code == httpx.codes.UNAUTHORIZED:
        return errors.NotSignedIn(message)
    if response.status_code in _TRANSIENT_STATUSES:
        return errors.ServerUnavailable(
            message, retry_after=retry.parse_retry_after(response.headers.get("Retry-After"))
        )
    return errors.CallRejected(message, status=response.status_code, code=code)


def _parse_error_details(response: httpx.Response) -> tuple[str, str]:
    """Extract code and message from an error of the functions or of the sign-in."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body = {}
    message = body.get("message") or body.get("msg")
    code = body.get("error") or body.get("error_code") or ""
    if not message:
        url = response.request.url.copy_with(query=None)
        message = (
            f"{url} responded with {response.status_code}; check that it is a Pagewarden server"
        )
    hint = body.get("hint")
    return str(code), f"{message} ({hint})" if hint and hint not in message else str(message)
