"""A receiver of traces on loopback: OTLP over HTTP, decoded."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from http import server
from typing import TYPE_CHECKING, Any, cast

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Span:
    """A span with the name of its program; ids in hexadecimal, times in nanoseconds."""

    name: str
    trace: str
    id: str
    parent: str
    service: str
    start: int
    end: int
    attributes: dict[str, Any]
    is_error: bool
    message: str


@dataclass(slots=True)
class Receiver:
    """Stores the received spans."""

    url: str = ""
    paths: set[str] = field(default_factory=set)
    spans: list[Span] = field(default_factory=list)

    def spans_of(self, document: str) -> list[Span]:
        """List the spans of a document by start time."""
        spans = [span for span in self.spans if span.trace == document.replace("-", "")]
        return sorted(spans, key=lambda span: span.start)

    def receive(self, path: str, body: bytes) -> None:
        """Decode a request."""
        self.paths.add(path)
        request = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            service = _to_dict(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                self.spans += [_to_span(span, service) for span in scope.spans]


def _to_span(span: Any, service: str) -> Span:
    return Span(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        service,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _to_dict(span.attributes),
        span.status.code == span.status.STATUS_CODE_ERROR,
        span.status.message,
    )


def _to_dict(attributes: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in attributes}


class _Server(server.ThreadingHTTPServer):
    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        cast("_Server", self.server).receiver.receive(self.path, body)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Do not log."""


@contextlib.contextmanager
def run_receiver() -> Iterator[Receiver]:
    """Run a receiver on a free port."""
    receiver = Receiver()
    with _Server(receiver) as http_server:
        receiver.url = f"http://127.0.0.1:{http_server.server_port}"
        thread = threading.Thread(target=http_server.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            http_server.shutdown()
            thread.join()
