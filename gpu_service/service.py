"""What handlers share, opened once for a process: admission, metrics, readers and readiness."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import prometheus_client
import structlog
from prometheus_client import Counter, Gauge, Histogram

from pagewarden import errors
from pagewarden.gpu_service.errors import ServiceUnavailable
from pagewarden.gpu_service.readers import ReaderFactory
from pagewarden.gpu_service.request_body import StoreFetcher
from pagewarden.storage import scratch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from pagewarden.gpu_service.config import ServiceConfig

log = structlog.get_logger(__name__)

SELF_TEST_PAUSES = (1.0, 5.0, 30.0)  # seconds before the engine is tested again
METRICS_MEDIA_TYPE = prometheus_client.CONTENT_TYPE_LATEST

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_LINES = (1, 2, 4, 8, 16, 32, 64)
_PAGES = (1, 2, 4, 8)


class AdmissionControl:
    """Limits the documents in the service: `slots` are read, `waiting` more may upload and wait."""

    def __init__(self, *, slots: int, waiting: int) -> None:
        self._capacity = slots + waiting
        self._slots = asyncio.Semaphore(slots)
        self._admitted = 0
        self.reading = 0

    @property
    def waiting(self) -> int:
        """Return the number of documents that are being uploaded or wait for a slot."""
        return self._admitted - self.reading

    @contextlib.contextmanager
    def admit(self) -> Iterator[None]:
        """Admit a document, or refuse it when the service is full."""
        if self._admitted >= self._capacity:
            raise ServiceUnavailable("Busy", "the GPU service is at capacity; retry later")
        self._admitted += 1
        try:
            yield
        finally:
            self._admitted -= 1

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot to read in; first come, first served."""
        async with self._slots:
            self.reading += 1
            try:
                yield
            finally:
                self.reading -= 1


class Metrics:
    """Prometheus metrics of one service."""

    def __init__(self, admission: AdmissionControl) -> None:
        self.registry = registry = prometheus_client.CollectorRegistry()
        self.pages = Counter(
            "pagewarden_gpu_pages", "Pages read, by text source.", ["source"],
            registry=registry,
        )  # fmt: skip
        self.documents = Counter(
            "pagewarden_gpu_documents", "Documents processed, by outcome.", ["end"],
            registry=registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "pagewarden_gpu_document_seconds",
            "Seconds spent reading a document, excluding queue time.",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.refusals = Counter(
            "pagewarden_gpu_refusals", "Requests rejected, by reason.", ["code"], registry=registry
        )
        self.batch_lines = Histogram(
            "pagewarden_gpu_batch_lines", "Lines per batch.", buckets=_LINES, registry=registry
        )
        self.batch_pages = Histogram(
            "pagewarden_gpu_batch_pages", "Pages represented in a batch.", buckets=_PAGES,
            registry=registry,
        )  # fmt: skip
        inside = Gauge(
            "pagewarden_gpu_documents_inside",
            "Documents currently in the service, by state.", ["state"],
            registry=registry,
        )  # fmt: skip
        inside.labels("reading").set_function(lambda: admission.reading)
        inside.labels("waiting").set_function(lambda: admission.waiting)

    def record_batch(self, lines: int, pages: int) -> None:
        """Record a batch; may be called from any thread."""
        self.batch_lines.observe(lines)
        self.batch_pages.observe(pages)

    def to_prometheus_text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return prometheus_client.generate_latest(self.registry)


@dataclass(slots=True)
class Readiness:
    """Whether the self-test has passed, and the error of its last failure."""

    ready: bool = False
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """The resources of one service; `folder` is private and holds the documents being read."""

    config: ServiceConfig
    admission: AdmissionControl
    metrics: Metrics
    readers: ReaderFactory
    fetcher: StoreFetcher
    folder: Path
    readiness: Readiness = field(default_factory=Readiness)

    @property
    def failure(self) -> str | None:
        """Return why this process should be restarted; None while it is healthy."""
        if self.readiness.failure is None and not self.readers.alive:
            return "the recognition thread has stopped"
        return self.readiness.failure

    def require_ready(self) -> None:
        """Raise unless the self-test has passed and nothing has failed since."""
        if self.failure is not None:
            raise errors.EngineUnavailable(f"the GPU service has failed: {self.failure}")
        if not self.readiness.ready:
            raise ServiceUnavailable(
                "Starting", "the GPU service is loading its models; retry later"
            )

    async def run_self_test(self) -> None:
        """Load the models and test them until that succeeds: a failure may be transient.

        After a failure the service is unhealthy, so a container manager may restart it meanwhile.
        """
        pauses = itertools.chain(SELF_TEST_PAUSES, itertools.repeat(SELF_TEST_PAUSES[-1]))
        for pause in pauses:
            try:
                await self.readers.self_test()
            except Exception as exc:
                log.exception("self_test_failed", engine=self.config.engine)
                self.readiness.failure = str(exc)
            else:
                log.info("self_test_passed", engine=self.config.engine)
                self.readiness.ready, self.readiness.failure = True, None
                return
            await asyncio.sleep(pause)


@contextlib.asynccontextmanager
async def open_service(config: ServiceConfig) -> AsyncIterator[Service]:
    """Open a service and load its models in the background."""
    async with contextlib.AsyncExitStack() as resources:
        folder = resources.enter_context(scratch.open_private_folder())
        admission = AdmissionControl(slots=config.documents, waiting=config.waiting)
        metrics = Metrics(admission)
        readers = ReaderFactory(config, resources, metrics.record_batch)
        fetcher = await resources.enter_async_context(StoreFetcher(config.store_urls))
        service = Service(config, admission, metrics, readers, fetcher, folder)
        testing = asyncio.create_task(service.run_self_test())
        try:
            yield service
        finally:
            testing.cancel()
            await asyncio.gather(testing, return_exceptions=True)
