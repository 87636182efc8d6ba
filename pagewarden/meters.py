"""What a process counts, for Prometheus. Labels have few values: no ids, no names, no paths."""

from __future__ import annotations

import functools
from importlib import metadata

import prometheus_client
from prometheus_client import Counter, Gauge, Histogram

MEDIA_TYPE = prometheus_client.CONTENT_TYPE_LATEST

_READING_SECONDS = (0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_REQUEST_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)


class Meters:
    """All meters of one process."""

    def __init__(self) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self.registry)
        build = self._gauge("pagewarden_build_info", "Which version this is.", "version")
        build.labels(metadata.version("pagewarden")).set(1)
        self._count_reading()
        self._count_serving()

    def as_text(self) -> bytes:
        """Write all of them as Prometheus wants it."""
        return prometheus_client.generate_latest(self.registry)

    def _count_reading(self) -> None:
        self.claims = self._counter("pagewarden_claims", "Documents claimed.", "lane")
        self.documents = self._counter(
            "pagewarden_documents", "Attempts at documents, by how they ended.", "lane", "outcome"
        )
        self.in_hand = self._gauge(
            "pagewarden_documents_in_hand", "Documents that this process is at.", "lane"
        )
        self.document_seconds = self._histogram(
            "pagewarden_document_seconds",
            "From the claim to the end of the attempt.",
            _READING_SECONDS,
            "lane",
        )
        self.pages = self._counter(
            "pagewarden_pages", "Pages saved, by what became of them.", "lane", "status"
        )
        self.heartbeats = self._counter("pagewarden_heartbeats", "Locks renewed in time.")
        self.lock_losses = self._counter(
            "pagewarden_lock_losses", "Documents that were no longer ours at the end.", "lane"
        )
        self.reconnects = self._counter(
            "pagewarden_database_reconnects", "Connections opened in place of lost ones."
        )
        self.calls_again = self._counter(
            "pagewarden_database_calls_again", "Calls made again because the database was away."
        )

    def _count_serving(self) -> None:
        self.requests = self._counter(
            "pagewarden_http_requests",
            "Requests, by the status of the answer; 0: the caller left.",
            *("method", "route", "status"),
        )
        self.request_seconds = self._histogram(
            "pagewarden_http_request_seconds",
            "From the head of a request to the end of its answer.",
            _REQUEST_SECONDS,
            *("method", "route"),
        )
        self.uploads = self._counter(
            "pagewarden_uploads",
            "Files taken in, by the lane they went to; none: a person says which.",
            "lane",
        )
        self.upload_bytes = self._counter("pagewarden_upload_bytes", "Bytes of files taken in.")
        self.scheduled_calls = self._counter(
            "pagewarden_scheduled_calls",
            "Functions called on their schedule, and whether they did their work.",
            *("function", "outcome"),
        )

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(name, meaning, labels, registry=self.registry)

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(name, meaning, labels, registry=self.registry)

    def _histogram(
        self, name: str, meaning: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(name, meaning, labels, buckets=buckets, registry=self.registry)


@functools.cache
def here() -> Meters:
    """Have the meters of this process."""
    # When each series began: nobody asks, and there would be twice as many.
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
    return Meters()
