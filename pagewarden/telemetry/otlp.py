"""Send spans by OTLP over HTTP, with the OpenTelemetry SDK.

The other settings of OpenTelemetry (OTEL_…) apply: headers, certificates, batch sizes, resource
attributes.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk import resources
from opentelemetry.sdk import trace as sdk
from opentelemetry.sdk.trace import export, id_generator

from pagewarden import __version__
from pagewarden.telemetry import redaction

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator, Mapping

    from opentelemetry.context import Context

PATH = "/v1/traces"
SEND_SECONDS = 5.0
# A stopping program does not wait for an unreachable receiver.
CLOSE_SECONDS = 2.0


class OtlpExporter:
    """Sends the spans of this process in the background."""

    def __init__(self, program: str, endpoint: str) -> None:
        resource = resources.Resource.create(
            {
                "service.name": f"pagewarden-{program}",
                "service.version": __version__,
            }
        )
        self._exporter = trace_exporter.OTLPSpanExporter(
            endpoint.rstrip("/").removesuffix(PATH) + PATH, timeout=SEND_SECONDS
        )
        self._ids = _IdGenerator()
        self._provider = sdk.TracerProvider(
            resource=resource, id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(export.BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("pagewarden")

    @contextlib.contextmanager
    def span(
        self, name: str, document: uuid.UUID, attributes: Mapping[str, object]
    ) -> Iterator[None]:
        """Open a span below the current span, or below the root."""
        span = self._tracer.start_span(
            name, _make_parent_context(document), attributes=_convert_attributes(attributes)
        )
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            try:
                yield
            except Exception as exc:
                _set_error(span, exc)
                raise
            finally:
                span.end()

    def record_span(
        self,
        name: str,
        document: uuid.UUID,
        attributes: Mapping[str, object],
        started_ns: int,
        *,
        is_root: bool,
    ) -> None:
        """Record a span that has just ended."""
        parent = _make_parent_context(document)
        with self._ids.use_root_ids(document) if is_root else contextlib.nullcontext():
            span = self._tracer.start_span(
                name,
                trace.set_span_in_context(trace.INVALID_SPAN) if is_root else parent,
                attributes=_convert_attributes(attributes),
                start_time=started_ns,
            )
        span.end()

    def set_attributes(self, attributes: Mapping[str, object]) -> None:
        """Add attributes to the current span."""
        trace.get_current_span().set_attributes(_convert_attributes(attributes))

    def close(self) -> None:
        """Send the remaining spans, within a short timeout."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)
        if closing.is_alive():
            self._exporter.shutdown()  # type: ignore[no-untyped-call]  # ends its retries


class _IdGenerator(id_generator.RandomIdGenerator):
    """Random ids, except for the root of a trace, whose ids derive from the document."""

    def __init__(self) -> None:
        self._root = threading.local()

    @contextlib.contextmanager
    def use_root_ids(self, document: uuid.UUID) -> Iterator[None]:
        """Give the span started in this block the ids of the root."""
        self._root.document = document
        try:
            yield
        finally:
            self._root.document = None

    def generate_trace_id(self) -> int:
        """Return the id of a new trace."""
        document: uuid.UUID | None = getattr(self._root, "document", None)
        return super().generate_trace_id() if document is None else document.int

    def generate_span_id(self) -> int:
        """Return the id of a new span."""
        document: uuid.UUID | None = getattr(self._root, "document", None)
        return super().generate_span_id() if document is None else get_root_id(document)


def get_root_id(document: uuid.UUID) -> int:
    """Return the id of the root span: the first half of the document id."""
    return document.int >> 64


def _make_parent_context(document: uuid.UUID) -> Context | None:
    """Return the parent of the next span; None means the current span."""
    if trace.get_current_span().get_span_context().trace_id == document.int:
        return None
    root = trace.SpanContext(
        document.int,
        get_root_id(document),
        is_remote=True,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(root))


def _convert_attributes(attributes: Mapping[str, object]) -> dict[str, str | bool | int | float]:
    redacted = redaction.redact(
        {key: value for key, value in attributes.items() if value is not None}
    )
    assert isinstance(redacted, dict)  # noqa: S101  # for the type checker
    return {
        key: value if isinstance(value, (str, bool, int, float)) else str(value)
        for key, value in redacted.items()
    }


def _set_error(span: trace.Span, exc: Exception) -> None:
    span.set_attribute("error.type", type(exc).__name__)
    span.set_status(trace.StatusCode.ERROR, redaction.redact_text(str(exc)))
