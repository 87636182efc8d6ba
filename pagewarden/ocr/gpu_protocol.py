"""Messages between the GPU service and its clients.

A response is lines of JSON: one for the document, one for each page, and an end line. A response
without the end line was cut off. After an error there are no further lines. Empty lines keep the
connection alive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pydantic

from pagewarden import errors
from pagewarden.ocr import page_ranges
from pagewarden.ocr.pages import ReadPage  # noqa: TC001  # pydantic looks it up

READ_PATH = "/v1/read"
ABOUT_PATH = "/v1/about"
MEDIA_TYPE = "application/x-ndjson"
KEEP_ALIVE = b"\n"
KEEP_ALIVE_SECONDS = 5.0
MAX_NAME = 255


def _split(value: Any) -> Any:  # noqa: ANN401  # JSON
    return [part for part in value.split(",") if part] if isinstance(value, str) else value


class ReadRequest(pydantic.BaseModel):
    """A document to read, and how: the query of a request, or its JSON if the file has a URL.

    name identifies the document in messages. engine and profile default to those of the service.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: str = pydantic.Field(default="document", min_length=1, max_length=MAX_NAME)
    pages: Annotated[
        page_ranges.PageRanges,
        pydantic.PlainValidator(lambda value: page_ranges.parse(str(value))),
        pydantic.PlainSerializer(str, return_type=str),
        pydantic.WithJsonSchema({"type": "string", "examples": ["1-3,7,12-"]}),
    ] = pydantic.Field(default_factory=lambda: page_ranges.ALL)
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
class ServiceInfo:
    """The engine of the service, and the maximum size of a file."""

    engine: str
    version: str
    profile: str
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Document:
    """The number of pages of an open document, and the engine that reads it."""

    page_count: int
    engine: str
    version: str
    profile: str


@dataclass(frozen=True, slots=True)
class ResponseEnd:
    """The end of a response, with the number of pages that were read."""

    pages: int


@dataclass(frozen=True, slots=True)
class ErrorPayload:
    """An error; code is its class in pagewarden.errors, or a code of the service itself."""

    code: str
    message: str
    category: str
    outage: bool = False
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class ResponseLine:
    """A line of a response; exactly one field is set."""

    document: Document | None = None
    page: ReadPage | None = None
    end: ResponseEnd | None = None
    error: ErrorPayload | None = None


_LINE = pydantic.TypeAdapter(ResponseLine)
_INFO = pydantic.TypeAdapter(ServiceInfo)

# The error to raise for an unknown code.
_CLASS_BY_CATEGORY: dict[str, type[errors.PagewardenError]] = {
    errors.Category.TRANSIENT: errors.InvalidEngineResponse,
    errors.Category.PERMANENT: errors.PageRejected,
    errors.Category.RESOURCE: errors.LimitExceeded,
    errors.Category.CONFIGURATION: errors.EngineNotInstalled,
}


def pack(line: ResponseLine) -> bytes:
    """Serialise a line."""
    return _LINE.dump_json(line, exclude_none=True) + b"\n"


def unpack(text: bytes) -> ResponseLine:
    """Deserialise a line."""
    try:
        return _LINE.validate_json(text)
    except ValueError as exc:
        raise errors.InvalidEngineResponse(
            "the GPU service sent an invalid response; run the same version on both sides"
        ) from exc


def unpack_info(text: bytes) -> ServiceInfo:
    """Deserialise the description of the service."""
    try:
        return _INFO.validate_json(text)
    except ValueError as exc:
        raise errors.EngineUnavailable(
            "the response is not from a GPU service; check PAGEWARDEN_GPU_SERVICE_URL"
        ) from exc


def to_fault(error: Exception) -> ErrorPayload:
    """Convert an error to its serialisable form."""
    if isinstance(error, errors.PagewardenError):
        retry_after = getattr(error, "retry_after", None)
        kind = type(error)
        return ErrorPayload(kind.__name__, str(error), kind.category, kind.outage, retry_after)
    detail = f"{type(error).__name__}: {error}".rstrip(": ")
    message = f"unexpected error ({detail}). Please report it."
    return ErrorPayload(errors.ReadingError.__name__, message, errors.Category.UNKNOWN)


def to_error(fault: ErrorPayload) -> errors.PagewardenError:
    """Convert a fault back to an error, of the original class if it is known."""
    kind = _error_class(fault)
    if issubclass(kind, errors.RateLimited | errors.StoreUnavailable):
        return kind(fault.message, retry_after=fault.retry_after)
    return kind(fault.message)


def is_known(fault: ErrorPayload) -> bool:
    """Tell whether the code is a class of pagewarden.errors, not a code of the service itself."""
    return fault.code in _KNOWN


def _error_class(fault: ErrorPayload) -> type[errors.PagewardenError]:
    if is_known(fault):
        return _KNOWN[fault.code]
    return (
        errors.EngineUnavailable
        if fault.outage
        else _CLASS_BY_CATEGORY.get(fault.category, errors.EngineError)
    )


# The service does not use the database and does not authenticate people.
_KNOWN = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, errors.ReadingError | errors.EngineError | errors.FileStoreError)
}
