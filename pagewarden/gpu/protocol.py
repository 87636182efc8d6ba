"""What passes between the GPU service and its clients.

An answer is lines of JSON. The first one tells of the document, then there is one for each page,
and the last one says that this was all: an answer without it was cut off. An error stands in place
of all that would have followed. Empty lines say only that the service lives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pydantic

from pagewarden import errors
from pagewarden.gpu import ranges
from pagewarden.reading import pages  # noqa: TC001  # pydantic looks it up

READ_PATH = "/v1/read"
ABOUT_PATH = "/v1/about"
MEDIA_TYPE = "application/x-ndjson"
PULSE = b"\n"
PULSE_SECONDS = 5.0
MAX_NAME = 255


def _split(given: Any) -> Any:  # noqa: ANN401  # JSON
    return [part for part in given.split(",") if part] if isinstance(given, str) else given


class Order(pydantic.BaseModel):
    """What is to be read, and how: the query of a request, or its JSON where the file has a URL.

    name stands for the document in messages. The service has an engine and a profile of its own
    for those who name none.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: str = pydantic.Field(default="document", min_length=1, max_length=MAX_NAME)
    pages: Annotated[
        ranges.Ranges,
        pydantic.PlainValidator(lambda given: ranges.parse(str(given))),
        pydantic.PlainSerializer(str, return_type=str),
        pydantic.WithJsonSchema({"type": "string", "examples": ["1-3,7,12-"]}),
    ] = pydantic.Field(default_factory=lambda: ranges.ALL)
    engine: str | None = pydantic.Field(default=None, max_length=100)
    profile: str | None = pydantic.Field(default=None, max_length=100)
    languages: Annotated[
        tuple[str, ...],
        pydantic.BeforeValidator(_split),
        pydantic.PlainSerializer(",".join, return_type=str),
        pydantic.WithJsonSchema({"type": "string", "examples": ["deu,fra"]}),
    ] = pydantic.Field(default_factory=tuple)
    url: str | None = pydantic.Field(default=None, max_length=8192)


@dataclass(frozen=True, slots=True)
class About:
    """What the service reads with, and the largest file it takes."""

    engine: str
    version: str
    profile: str
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Document:
    """What is known once a document is open."""

    page_count: int
    engine: str
    version: str
    profile: str


@dataclass(frozen=True, slots=True)
class End:
    """That this was all, and how many pages it was."""

    pages: int


@dataclass(frozen=True, slots=True)
class Fault:
    """An error; code is its class in pagewarden.errors, or a word of the service's own."""

    code: str
    message: str
    category: str
    outage: bool = False
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an answer: one of these."""

    document: Document | None = None
    page: pages.ReadPage | None = None
    end: End | None = None
    error: Fault | None = None


_LINE = pydantic.TypeAdapter(Line)
_ABOUT = pydantic.TypeAdapter(About)

# What a word we do not know means for the document.
_KINDS: dict[str, type[errors.PagewardenError]] = {
    errors.Category.TRANSIENT: errors.AnswerUnusable,
    errors.Category.PERMANENT: errors.AnswerRefused,
    errors.Category.RESOURCE: errors.LimitExceeded,
    errors.Category.CONFIGURATION: errors.EngineMissing,
}


def pack(line: Line) -> bytes:
    """Write a line."""
    return _LINE.dump_json(line, exclude_none=True) + b"\n"


def unpack(text: bytes) -> Line:
    """Read a line."""
    try:
        return _LINE.validate_json(text)
    except ValueError as exc:
        raise errors.AnswerUnusable(
            "the GPU service said something we do not understand; let both be of one version"
        ) from exc


def unpack_about(text: bytes) -> About:
    """Read what the service says of itself."""
    try:
        return _ABOUT.validate_json(text)
    except ValueError as exc:
        raise errors.EngineAway(
            "something else than the GPU service answers; see PAGEWARDEN_GPU_SERVICE_URL"
        ) from exc


def fault_of(error: Exception) -> Fault:
    """Give an error the form it travels in."""
    if isinstance(error, errors.PagewardenError):
        retry_after = getattr(error, "retry_after", None)
        kind = type(error)
        return Fault(kind.__name__, str(error), kind.category, kind.outage, retry_after)
    unforeseen = f"{type(error).__name__}: {error}".rstrip(": ")
    message = f"an unforeseen error ({unforeseen}). Please report it."
    return Fault(errors.ReadingError.__name__, message, errors.Category.UNKNOWN)


def error_of(fault: Fault) -> errors.PagewardenError:
    """Make the error again, of its own class where we have that one."""
    kind = _kind(fault)
    if issubclass(kind, errors.RateLimited | errors.StoreAway):
        return kind(fault.message, retry_after=fault.retry_after)
    return kind(fault.message)


def is_known(fault: Fault) -> bool:
    """Tell whether it is an error of ours, and not a word of the service's own."""
    return fault.code in _KNOWN


def _kind(fault: Fault) -> type[errors.PagewardenError]:
    if is_known(fault):
        return _KNOWN[fault.code]
    return errors.EngineAway if fault.outage else _KINDS.get(fault.category, errors.EngineError)


# Those of the database and of people signing in never come from there.
_KNOWN = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, errors.ReadingError | errors.EngineError | errors.FileStoreError)
}
