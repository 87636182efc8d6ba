"""Traces: spans of a document, from upload to text, in every process.

    with tracing.span("fetch"):
        …

The trace id is the document id, so spans of all processes and attempts belong together without
passing anything along. The document and the attributes are those bound to the log context
(structlog.contextvars), and the arguments of the call.

Without an endpoint nothing is imported, and a span costs one function call.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import structlog

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

now = time.time_ns
"""Current time in nanoseconds, the unit that spans use."""


class Exporter(Protocol):
    """Receives spans."""

    def span(
        self, name: str, document: uuid.UUID, about: Mapping[str, object]
    ) -> contextlib.AbstractContextManager[object]:
        """Open a span around a block; an exception is its error."""
        ...

    def record_span(
        self,
        name: str,
        document: uuid.UUID,
        about: Mapping[str, object],
        started_ns: int,
        *,
        is_root: bool,
    ) -> None:
        """Record a span that has just ended."""
        ...

    def set_attributes(self, about: Mapping[str, object]) -> None:
        """Add attributes to the current span."""
        ...

    def close(self) -> None:
        """Send the remaining spans, within a short timeout."""
        ...


@dataclass(slots=True)
class _State:
    exporter: Exporter | None = None


class _NoSpan:
    """The span while tracing is off."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


_state = _State()
_NO_SPAN = _NoSpan()


def span(name: str, **about: object) -> contextlib.AbstractContextManager[object]:
    """Open a span around a block, in the trace of the document."""
    if _state.exporter is None:
        return _NO_SPAN
    attributes = structlog.contextvars.get_contextvars() | about
    document = _parse_document_id(attributes)
    return _NO_SPAN if document is None else _state.exporter.span(name, document, attributes)


def record_span(name: str, started_ns: int, *, is_root: bool = False, **about: object) -> None:
    """Record a span that has just ended, where the document is known only at the end.

    The root span, one for each trace, is the upload of the document.
    """
    if _state.exporter is None:
        return
    attributes = structlog.contextvars.get_contextvars() | about
    document = _parse_document_id(attributes)
    if document is not None:
        _state.exporter.record_span(name, document, attributes, started_ns, is_root=is_root)


def set_attributes(**about: object) -> None:
    """Add attributes to the current span."""
    if _state.exporter is not None:
        _state.exporter.set_attributes(about)


@contextlib.contextmanager
def send_spans(program: str, endpoint: object | None) -> Iterator[None]:
    """Send spans while the block runs, if there is an endpoint."""
    if endpoint is None:
        yield
        return
    try:
        from pagewarden.telemetry import otlp  # noqa: PLC0415  # an optional dependency
    except ModuleNotFoundError as exc:
        raise errors.SettingsError(
            f"PAGEWARDEN_OTLP_ENDPOINT is set, but {exc.name} is not installed; install "
            "pagewarden[tracing], or unset PAGEWARDEN_OTLP_ENDPOINT"
        ) from exc
    _state.exporter = otlp.OtlpExporter(program, str(endpoint))
    try:
        yield
    finally:
        exporter, _state.exporter = _state.exporter, None
        exporter.close()


def _parse_document_id(attributes: Mapping[str, Any]) -> uuid.UUID | None:
    try:
        return uuid.UUID(str(attributes.get("document")))
    except ValueError:
        return None
