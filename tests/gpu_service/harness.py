"""GPU services on loopback, and what their clients see."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
from prometheus_client import parser

from pagewarden.gpu_service import app
from pagewarden.gpu_service.config import ServiceConfig
from pagewarden.ocr import gpu_client, gpu_protocol
from tests.ocr import drawn
from tests.support import polling
from tests.support.serving import serve_app

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

KEY = "the secret key of this test"
MAX_BYTES = 500_000
CONFIG = ServiceConfig(
    key=KEY, engine="fake", check_test_line=False, processes=2, max_bytes=MAX_BYTES, retry_after=1
)
TIFF = {"Content-Type": "image/tiff"}


@dataclass(frozen=True, slots=True)
class RunningService:
    """A service, and an HTTP client that has its key."""

    url: str
    session: httpx.AsyncClient

    async def read(self, content: bytes, **params: str) -> httpx.Response:
        """Send a document, and wait for the whole answer."""
        return await self.session.post("/v1/read", content=content, params=params, headers=TIFF)

    def client(self, **changes: Any) -> gpu_client.Client:
        """Make a client as a worker does."""
        return make_client(self.url, **changes)

    async def metric(self, name: str, **labels: str) -> float:
        """Sum the samples of a metric that have these labels."""
        found = parser.text_string_to_metric_families((await self.session.get("/metrics")).text)
        samples = [
            sample.value
            for family in found
            for sample in family.samples
            if sample.name == name and sample.labels.items() >= labels.items()
        ]
        return sum(samples)

    async def wait_for_documents(self, *, reading: int, waiting: int) -> None:
        """Wait until the service holds this many documents."""

        async def reached() -> bool:
            name = "pagewarden_gpu_documents_inside"
            found = [await self.metric(name, state=state) for state in ("reading", "waiting")]
            return found == [reading, waiting]

        await polling.wait_until(reached)


def make_client(
    url: str, key: str = KEY, *, silence_seconds: float = 10.0, retry_seconds: float = 20.0
) -> gpu_client.Client:
    """Make a client."""
    return gpu_client.Client(url, key, silence_seconds=silence_seconds, retry_seconds=retry_seconds)


def make_read_request(**fields: Any) -> gpu_protocol.ReadRequest:
    """Make a request."""
    return gpu_protocol.ReadRequest.model_validate(fields)


def as_upload(content: bytes) -> tuple[int, Callable[[], AsyncGenerator[bytes]]]:
    """Return the size and the chunks of a document, as a client sends it."""

    async def chunks() -> AsyncGenerator[bytes]:
        for start in range(0, len(content), 1000):
            yield content[start : start + 1000]

    return len(content), chunks


def parse_lines(response: httpx.Response) -> list[dict[str, Any]]:
    """Parse the lines of an answer."""
    return [json.loads(line) for line in response.content.split(b"\n") if line]


def require_error(response: httpx.Response, status: int) -> dict[str, Any]:
    """Check the status, and return the error of an answer."""
    assert response.status_code == status, response.text
    (line,) = parse_lines(response)
    error: dict[str, Any] = line["error"]
    return error


async def page_numbers(lines: AsyncGenerator[gpu_protocol.ResponseLine]) -> list[int]:
    """List the numbers of the pages in an answer."""
    return [line.page.number async for line in lines if line.page is not None]


async def count_busy(service: RunningService) -> float:
    """Count the documents refused because the service was full."""
    return await service.metric("pagewarden_gpu_refusals_total", code="Busy")


@contextlib.asynccontextmanager
async def start_service(**changes: Any) -> AsyncIterator[RunningService]:
    """Serve with changes to CONFIG, without waiting until the service is ready."""
    config = dataclasses.replace(CONFIG, **changes)
    async with (
        serve_app(app.create_app(config)) as url,
        httpx.AsyncClient(
            base_url=url, timeout=20, headers={"Authorization": f"Bearer {KEY}"}
        ) as session,
    ):
        yield RunningService(url, session)


@contextlib.asynccontextmanager
async def start_ready_service(**changes: Any) -> AsyncIterator[RunningService]:
    """Serve, and wait until the service is ready."""
    async with start_service(**changes) as service:
        await wait_until_ready(service.session)
        yield service


async def wait_until_ready(session: httpx.AsyncClient) -> None:
    """Wait until a service is ready."""

    async def is_ready() -> bool:
        with contextlib.suppress(httpx.TransportError):
            return (await session.get("/readyz")).is_success
        return False

    await polling.wait_until(is_ready, seconds=60)


@contextlib.asynccontextmanager
async def endless_document(service: RunningService) -> AsyncIterator[None]:
    """Send a document that takes for ever to read; disconnect at the end."""
    sending = asyncio.create_task(service.read(drawn.document("hang")))
    try:
        yield
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
