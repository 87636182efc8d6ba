"""What handlers work with: opened once for a process, and without any state that outlives it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import prometheus_client
import structlog
from prometheus_client import Counter, Gauge, Histogram

from gpu_service import config, readers, request_body
from gpu_service.errors import Unavailable
from pagewarden import errors
from pagewarden.files import scratch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

log = structlog.get_logger(__name__)

PROVE_PAUSES = (1.0, 5.0, 30.0)  # seconds before the engine is tried again
MEDIA_TYPE = prometheus_client.CONTENT_TYPE_LATEST

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_LINES = (1, 2, 4, 8, 16, 32, 64)
_PAGES = (1, 2, 4, 8)


class Door:
    """Whoever is inside may send a document, and waits for a place to have it read."""

    def __init__(self, *, places: int, waiting: int) -> None:
        self._room = places + waiting
        self._places = asyncio.Semaphore(places)
        self._inside = 0
        self.reading = 0

    @property
    def waiting(self) -> int:
        """Count those who send their document, or wait for a place."""
        return self._inside - self.reading

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Be inside; refused when it is full."""
        if self._inside >= self._room:
            raise Unavailable(
                "Busy", "the GPU service has no room for another document; try again soon"
            )
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place, first come, first served."""
        async with self._places:
            self.reading += 1
            try:
                yield
            finally:
                self.reading -= 1


class Meters:
    """All meters of one service."""

    def __init__(self, entrance: Door) -> None:
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


@dataclass(slots=True)
class Health:
    """Whether the engine has proved itself, and what went wrong if it could not."""

    ready: bool = False
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """A service; folder holds the documents that are being read, and is private."""

    plan: config.Plan
    door: Door
    meters: Meters
    readers: readers.Readers
    links: request_body.Links
    folder: Path
    health: Health = field(default_factory=Health)

    @property
    def trouble(self) -> str | None:
        """Say why this process should be ended; None while it lives."""
        if self.health.trouble is None and not self.readers.alive:
            return "nobody reads lines any more"
        return self.health.trouble

    def require_ready(self) -> None:
        """Refuse what comes too early."""
        if self.trouble is not None:
            raise errors.EngineAway(f"the GPU service is broken: {self.trouble}")
        if not self.health.ready:
            raise Unavailable(
                "Starting", "the GPU service is still loading its models; try again soon"
            )

    async def prove(self) -> None:
        """Load the models and try them until they work: a failure may have been a passing one.

        Meanwhile we are in trouble, so whatever runs containers may start another one.
        """
        for pause in itertools.chain(PROVE_PAUSES, itertools.repeat(PROVE_PAUSES[-1])):
            try:
                await self.readers.prove()
            except Exception as exc:
                log.exception("not_ready", engine=self.plan.engine)
                self.health.trouble = str(exc)
            else:
                log.info("ready", engine=self.plan.engine)
                self.health.ready, self.health.trouble = True, None
                return
            await asyncio.sleep(pause)


@contextlib.asynccontextmanager
async def opened(plan: config.Plan) -> AsyncIterator[Service]:
    """Have a service that begins to load its models."""
    async with contextlib.AsyncExitStack() as resources:
        folder = resources.enter_context(scratch.folder())
        entrance = Door(places=plan.documents, waiting=plan.waiting)
        counted = Meters(entrance)
        made = readers.Readers(plan, resources, counted.batch)
        ours = await resources.enter_async_context(request_body.Links(plan.stores))
        service = Service(plan, entrance, counted, made, ours, folder)
        proving = asyncio.create_task(service.prove())
        try:
            yield service
        finally:
            proving.cancel()
            await asyncio.gather(proving, return_exceptions=True)
