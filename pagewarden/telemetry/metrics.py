"""Prometheus metrics of this process, and a port that serves them.

Labels have few values: no ids, no names, no paths. Metrics of the database are in the functions.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import http
import socket
import threading
from collections.abc import Callable, Mapping
from http import server as http_server
from typing import TYPE_CHECKING, TypeAlias, cast

import prometheus_client
import structlog
from prometheus_client import Counter, Gauge, Histogram

from pagewarden import __version__, errors

if TYPE_CHECKING:
    from collections.abc import Iterator

log = structlog.get_logger(__name__)

Allow: TypeAlias = Callable[[str | None, Mapping[str, str]], bool]

PATH = "/metrics"
UNAUTHORIZED_MESSAGE = (
    "metrics are available from this machine, or with PAGEWARDEN_METRICS_TOKEN or the secret key "
    "in the header Authorization: Bearer …"
)
# Several processes of a machine may have the same setting.
MAX_EXTRA_PORTS = 100
REQUEST_SECONDS = 5.0
STOP_SECONDS = 0.1

MEDIA_TYPE = prometheus_client.CONTENT_TYPE_LATEST

_DOCUMENT_BUCKETS = (0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_REQUEST_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)


class Metrics:
    """All metrics of one process."""

    def __init__(self) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self.registry)
        build = self._add_gauge("pagewarden_build_info", "Pagewarden version.", "version")
        build.labels(__version__).set(1)
        self._add_worker_metrics()
        self._add_http_metrics()

    def to_prometheus_text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return prometheus_client.generate_latest(self.registry)

    def _add_worker_metrics(self) -> None:
        self.claims = self._add_counter("pagewarden_claims", "Documents claimed.", "lane")
        self.documents = self._add_counter(
            "pagewarden_documents", "Document attempts, by outcome.", "lane", "outcome"
        )
        self.in_hand = self._add_gauge(
            "pagewarden_documents_in_hand", "Documents in progress in this process.", "lane"
        )
        self.document_seconds = self._add_histogram(
            "pagewarden_document_seconds",
            "Seconds from claim to end of attempt.",
            _DOCUMENT_BUCKETS,
            "lane",
        )
        self.pages = self._add_counter(
            "pagewarden_pages", "Pages saved, by status.", "lane", "status"
        )
        self.heartbeats = self._add_counter("pagewarden_heartbeats", "Locks renewed.")
        self.lock_losses = self._add_counter(
            "pagewarden_lock_losses", "Attempts that lost their lock.", "lane"
        )
        self.reconnects = self._add_counter(
            "pagewarden_database_reconnects", "Database connections reopened after being lost."
        )
        self.calls_again = self._add_counter(
            "pagewarden_database_calls_again", "Calls retried because the database was unavailable."
        )

    def _add_http_metrics(self) -> None:
        self.requests = self._add_counter(
            "pagewarden_http_requests",
            "Requests, by response status; 0: the client disconnected.",
            *("method", "route", "status"),
        )
        self.request_seconds = self._add_histogram(
            "pagewarden_http_request_seconds",
            "Seconds from receiving request headers to finishing the response.",
            _REQUEST_BUCKETS,
            *("method", "route"),
        )
        self.uploads = self._add_counter(
            "pagewarden_uploads",
            "Files uploaded, by lane; none: awaiting manual routing.",
            "lane",
        )
        self.upload_bytes = self._add_counter("pagewarden_upload_bytes", "Bytes uploaded.")
        self.scheduled_calls = self._add_counter(
            "pagewarden_scheduled_calls",
            "Scheduled function calls, by outcome.",
            *("function", "outcome"),
        )

    def _add_counter(self, name: str, description: str, *labels: str) -> Counter:
        return Counter(name, description, labels, registry=self.registry)

    def _add_gauge(self, name: str, description: str, *labels: str) -> Gauge:
        return Gauge(name, description, labels, registry=self.registry)

    def _add_histogram(
        self, name: str, description: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(name, description, labels, buckets=buckets, registry=self.registry)


@functools.cache
def current() -> Metrics:
    """Return the metrics of this process."""
    # Creation times would double the number of series.
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
    return Metrics()


@contextlib.contextmanager
def serve_metrics(host: str, port: int, allow: Allow) -> Iterator[str]:
    """Serve the metrics at this port, or at the next free one; yield and log the URL.

    allow decides by the address of the caller and its headers, with names in lower case.
    """
    with _bind_server(host, port, allow) as server:
        shown_host = f"[{host}]" if ":" in host else host
        url = f"http://{shown_host}:{server.server_port}{PATH}"
        log.info("metrics_server_started", url=url)
        # In a thread, so that it responds while the event loop is busy.
        serve = functools.partial(server.serve_forever, poll_interval=STOP_SECONDS)
        threading.Thread(target=serve, name="metrics", daemon=True).start()
        try:
            yield url
        finally:
            server.shutdown()


class _Server(http_server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], allow: Allow, family: int) -> None:
        self.address_family = family
        self.allow = allow
        super().__init__(address, _MetricsHandler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect."""


class _MetricsHandler(http_server.BaseHTTPRequestHandler):
    timeout = REQUEST_SECONDS
    server_version = "pagewarden"
    sys_version = ""

    def do_GET(self) -> None:
        """Respond with the metrics, if the caller is allowed."""
        if self.path.partition("?")[0] != PATH:
            self._respond(http.HTTPStatus.NOT_FOUND, f"only {PATH} is served here\n".encode())
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        if not cast("_Server", self.server).allow(self.client_address[0], headers):
            self._respond(http.HTTPStatus.UNAUTHORIZED, f"{UNAUTHORIZED_MESSAGE}\n".encode())
            return
        self._respond(http.HTTPStatus.OK, current().to_prometheus_text(), MEDIA_TYPE)

    def log_message(self, *_: object) -> None:
        """Do not log each scrape."""

    def _respond(
        self, status: http.HTTPStatus, body: bytes, media_type: str = "text/plain; charset=utf-8"
    ) -> None:
        self.send_response(status)
        if status is http.HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _bind_server(host: str, port: int, allow: Allow) -> _Server:
    """Bind the port, or the next free one."""
    last = port if port == 0 else min(port + MAX_EXTRA_PORTS, 65_535)
    for number in range(port, last + 1):
        try:
            (family, *_), *_ = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)
            return _Server((host, number), allow, family)
        except OSError as exc:
            if exc.errno != errno.EADDRINUSE:
                raise _make_bind_error(host, number, exc) from exc
    raise _make_bind_error(host, port, OSError(errno.EADDRINUSE, f"no free port up to {last}"))


def _make_bind_error(host: str, port: int, exc: OSError) -> errors.SettingsError:
    return errors.SettingsError(
        f"metrics cannot be served at {host} port {port}: {exc.strerror}; set "
        "PAGEWARDEN_METRICS_PORT and PAGEWARDEN_METRICS_HOST to other values, or unset them"
    )
