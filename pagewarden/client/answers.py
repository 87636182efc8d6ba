"""What a server answers, as objects; what it says besides is passed over."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import httpx
import pydantic

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

# It may well be otherwise in a moment: too slow, too many, not there, no room.
_PASSING = frozenset({408, 429, 502, 503, 504, 507})


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
