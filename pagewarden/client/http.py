"""HTTP calls of a server, its answers as objects, and what goes wrong as errors of ours."""

from __future__ import annotations

import contextlib
import enum
from typing import TYPE_CHECKING, Any

import httpx
import pydantic

from pagewarden import errors, weak_secrets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

CONNECT_SECONDS = 5.0
# Where files go to a store far away, the answer comes when they have arrived there.
SILENCE_SECONDS = 120.0

# It may well be otherwise in a moment: too slow, too many, not there, no room.
_PASSING = frozenset({408, 429, 502, 503, 504, 507})


class Calls:
    """A server by its address, such as https://ocr.example.org."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.AsyncClient(
            base_url=url,
            timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS, pool=None),
            # No proxy leads to this machine, whatever the environment says.
            trust_env=not weak_secrets.is_this_machine(url),
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def require_there(self) -> None:
        """See that anybody answers, before anything is begun."""
        with self._translated():
            await self._http.get("/healthz")

    async def call(self, method: str, path: str, **options: Any) -> httpx.Response:  # noqa: ANN401
        """Make a call; an answer that is none of success is raised."""
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
        """Make a call whose answer is read by the caller, with chunks()."""
        request = self._http.build_request(method, path, **options)
        with self._translated():
            response = await self._http.send(request, stream=True)
        try:
            if not response.is_success:
                await self._read(response)
                raise refusal(response)
            yield response
        finally:
            await response.aclose()

    async def chunks(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """Read an answer piece by piece."""
        pieces = response.aiter_bytes()
        while True:
            with self._translated():
                piece = await anext(pieces, None)
            if piece is None:
                return
            yield piece

    async def _read(self, response: httpx.Response) -> None:
        with self._translated():
            await response.aread()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
            raise errors.ServerAway(
                f"there is no server at {self.url}; start it with `pagewarden up`, or name "
                "another with --url"
            ) from exc
        except httpx.TransportError as exc:
            raise errors.ServerAway(
                f"the connection to {self.url} was lost ({str(exc) or type(exc).__name__})"
            ) from exc


class Accepted(pydantic.BaseModel, frozen=True):
    """The document that a file has become; existing says that it had been there before."""

    document_id: str
    case_id: str
    name: str
    document_version: int
    ocr_status: str
    existing: bool
    status_url: str


class Stage(enum.Enum):
    """What can be said of a document to whoever waits for its text."""

    UNDER_WAY = enum.auto()
    READ = enum.auto()
    NOT_READ = enum.auto()


# What is to be done about a document whose text no machine will bring.
_REMEDIES: Mapping[str, str] = {
    "pending": "its type is not known; somebody has to route it",
    "dead_letter": "machines gave up; somebody has to look at it",
    "pending_review": "somebody has to type it",
    "extraction_failed": "its file could not be had; fetch it again",
    "failed": "it was given up; have it read again, or upload a better scan",
    "cancelled": "it was cancelled; upload it again if you want it read",
}


class Progress(pydantic.BaseModel, frozen=True):
    """How far a document is; seconds_left is an estimate, None when nobody knows."""

    document_id: str
    name: str
    ocr_status: str
    pages_done: int
    page_count: int | None
    error: str | None
    ahead: int | None
    seconds_left: float | None

    @property
    def stage(self) -> Stage:
        """Tell whether it is worth while to wait."""
        if self.ocr_status == "completed":
            return Stage.READ
        return Stage.NOT_READ if self.ocr_status in _REMEDIES else Stage.UNDER_WAY

    @property
    def unread(self) -> int:
        """Count the pages that could not be read, of a document that is completed."""
        return max((self.page_count or 0) - self.pages_done, 0)

    @property
    def trouble(self) -> str:
        """Say why there is no text, and what is to be done."""
        remedy = _REMEDIES.get(self.ocr_status, "it is not read yet")
        return f"{remedy} ({self.error})" if self.error else remedy


class Hit(pydantic.BaseModel, frozen=True):
    """A page that says what was searched for; headline is a part of it, hits marked «so»."""

    document_id: str
    case_id: str
    name: str
    page_number: int
    rank: float
    headline: str


HITS = pydantic.TypeAdapter(list[Hit])


def refusal(response: httpx.Response) -> errors.PagewardenError:
    """Make an error of an answer that is none of success; its body has been read."""
    code, message = _words(response)
    if response.status_code == httpx.codes.UNAUTHORIZED:
        return errors.NotSignedIn(message)
    if response.status_code in _PASSING:
        return errors.ServerAway(message, retry_after=_retry_after(response))
    return errors.CallRefused(message, status=response.status_code, code=code)


def _words(response: httpx.Response) -> tuple[str, str]:
    """Find the code and the message, of functions or of the sign-in."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body = {}
    message = body.get("message") or body.get("msg")
    code = body.get("error") or body.get("error_code") or ""
    if not message:
        where = response.request.url.copy_with(query=None)
        message = f"{where} answered {response.status_code}; is there a Pagewarden server?"
    hint = body.get("hint")
    return str(code), f"{message} ({hint})" if hint and hint not in message else str(message)


def _retry_after(response: httpx.Response) -> float | None:
    said = response.headers.get("retry-after", "")
    return float(said) if said.isdecimal() else None
