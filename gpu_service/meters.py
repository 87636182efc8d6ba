"""What the service counts, for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import prometheus_client
from prometheus_client import Counter, Gauge, Histogram

if TYPE_CHECKING:
    from gpu_service import door

MEDIA_TYPE = prometheus_client.CONTENT_TYPE_LATEST

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_LINES = (1, 2, 4, 8, 16, 32, 64)
_PAGES = (1, 2, 4, 8)


class Meters:
    """All meters of one service."""

    def __init__(self, entrance: door.Door) -> None:
        self.registry = kept = prometheus_client.CollectorRegistry()
        self.pages = Counter(
            "pagewarden_gpu_pages", "Pages read, by where their text is from.", ["source"],
            registry=kept,
        )  # fmt: skip
        self.documents = Counter(
            "pagewarden_gpu_documents", "Documents, by how they ended.", ["end"], registry=kept
        )
        self.seconds = Histogram(
            "pagewarden_gpu_document_seconds", "From the place to the last page.",
            buckets=_SECONDS, registry=kept,
        )  # fmt: skip
        self.refusals = Counter(
            "pagewarden_gpu_refusals", "Requests refused, by reason.", ["code"], registry=kept
        )
        self.batch_lines = Histogram(
            "pagewarden_gpu_batch_lines", "Lines read together.", buckets=_LINES, registry=kept
        )
        self.batch_pages = Histogram(
            "pagewarden_gpu_batch_pages", "Pages with lines in a batch.", buckets=_PAGES,
            registry=kept,
        )  # fmt: skip
        inside = Gauge(
            "pagewarden_gpu_documents_inside", "Documents in the service.", ["state"],
            registry=kept,
        )  # fmt: skip
        inside.labels("reading").set_function(lambda: entrance.reading)
        inside.labels("waiting").set_function(lambda: entrance.waiting)

    def batch(self, lines: int, pages: int) -> None:
        """Note a batch; may be called from any thread."""
        self.batch_lines.observe(lines)
        self.batch_pages.observe(pages)

    def as_text(self) -> bytes:
        """Write all of them as Prometheus wants it."""
        return prometheus_client.generate_latest(self.registry)
