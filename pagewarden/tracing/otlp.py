"""Spans by OpenTelemetry, sent by OTLP over HTTP.

Everything else that OpenTelemetry has settings for (OTEL_…) is as they say: headers, certificates,
what is sent at a time, attributes of the resource.
"""

from __future__ import annotations

import contextlib
import threading
from importlib import metadata
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk import resources
from opentelemetry.sdk import trace as sdk
from opentelemetry.sdk.trace import export, id_generator

from pagewarden import redaction

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator, Mapping

    from opentelemetry.context import Context

PATH = "/v1/traces"
SEND_SECONDS = 5.0
# A program that is told to stop does not wait for a receiver that is away.
CLOSE_SECONDS = 2.0


class Sender:
    """Sends the spans of this process, in the background."""

    def __init__(self, program: str, endpoint: str) -> None:
        resource = resources.Resource.create(
            {
                "service.name": f"pagewarden-{program}",
                "service.version": metadata.version("pagewarden"),
            }
        )
        self._exporter = trace_exporter.OTLPSpanExporter(
            endpoint.rstrip("/").removesuffix(PATH) + PATH, timeout=SEND_SECONDS
        )
        self._ids = _Ids()
        self._provider = sdk.TracerProvider(
            resource=resource, id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(export.BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("pagewarden")

    @contextlib.contextmanager
    def span(self, name: str, document: uuid.UUID, about: Mapping[str, object]) -> Iterator[None]:
        """Time what is done inside, below the span that is open, or below the root."""
        made = self._tracer.start_span(name, _place(document), attributes=_attributes(about))
        with trace.use_span(made, record_exception=False, set_status_on_exception=False):
            try:
                yield
            except Exception as exc:
                _blame(made, exc)
                raise
            finally:
                made.end()

    def past(
        self,
        name: str,
        document: uuid.UUID,
        about: Mapping[str, object],
        began: int,
        *,
        is_root: bool,
    ) -> None:
        """Note what began then and has just ended."""
        place = _place(document)
        with self._ids.of_root(document) if is_root else contextlib.nullcontext():
            made = self._tracer.start_span(
                name,
                trace.set_span_in_context(trace.INVALID_SPAN) if is_root else place,
                attributes=_attributes(about),
                start_time=began,
            )
        made.end()

    def note(self, about: Mapping[str, object]) -> None:
        """Say more of the span that is open."""
        trace.get_current_span().set_attributes(_attributes(about))

    def close(self) -> None:
        """Send what is left, in a moment or not at all."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)
        if closing.is_alive():
            self._exporter.shutdown()  # type: ignore[no-untyped-call]  # it does not try again


class _Ids(id_generator.RandomIdGenerator):
    """Makes ids at random, but for the root of a document's trace, which everybody can name."""

    def __init__(self) -> None:
        self._root = threading.local()

    @contextlib.contextmanager
    def of_root(self, document: uuid.UUID) -> Iterator[None]:
        """Let the span that is made inside be the root."""
        self._root.document = document
        try:
            yield
        finally:
            self._root.document = None

    def generate_trace_id(self) -> int:
        """Make the id of a trace."""
        document: uuid.UUID | None = getattr(self._root, "document", None)
        return super().generate_trace_id() if document is None else document.int

    def generate_span_id(self) -> int:
        """Make the id of a span."""
        document: uuid.UUID | None = getattr(self._root, "document", None)
        return super().generate_span_id() if document is None else root_id(document)


def root_id(document: uuid.UUID) -> int:
    """Name the root of a document's trace: the first half of its id."""
    return document.int >> 64


def _place(document: uuid.UUID) -> Context | None:
    """Say below which span the next one is; None: below the one that is open."""
    if trace.get_current_span().get_span_context().trace_id == document.int:
        return None
    root = trace.SpanContext(
        document.int,
        root_id(document),
        is_remote=True,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(root))


def _attributes(about: Mapping[str, object]) -> dict[str, str | bool | int | float]:
    found = redaction.redacted({key: value for key, value in about.items() if value is not None})
    assert isinstance(found, dict)  # noqa: S101  # for the type checker
    return {
        key: value if isinstance(value, (str, bool, int, float)) else str(value)
        for key, value in found.items()
    }


def _blame(made: trace.Span, exc: Exception) -> None:
    made.set_attribute("error.type", type(exc).__name__)
    made.set_status(trace.StatusCode.ERROR, redaction.text(str(exc)))
