"""GPU services on loopback, and what their callers see."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
from prometheus_client import parser

from gpu_service import app, config
from pagewarden.gpu import client, protocol
from tests.reading import drawn
from tests.support import polling
from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

KEY = "the secret key of this test"
MAX_BYTES = 500_000
PLAN = config.Plan(
    key=KEY, engine="fake", test_line=False, processes=2, max_bytes=MAX_BYTES, retry_after=1
)
TIFF = {"Content-Type": "image/tiff"}


@dataclass(frozen=True, slots=True)
class Place:
    """A service, and somebody who has its key."""

    url: str
    session: httpx.AsyncClient

    async def read(self, content: bytes, **params: str) -> httpx.Response:
        """Send a document, and wait for all that is said about it."""
        return await self.session.post("/v1/read", content=content, params=params, headers=TIFF)

    def client(self, **changes: Any) -> client.Client:
        """Call it as a worker does."""
        return caller(self.url, **changes)

    async def meter(self, name: str, **labels: str) -> float:
        """Look at one value of the meters."""
        found = parser.text_string_to_metric_families((await self.session.get("/metrics")).text)
        wanted = [
            sample.value
            for family in found
            for sample in family.samples
            if sample.name == name and sample.labels.items() >= labels.items()
        ]
        return sum(wanted)

    async def inside(self, *, reading: int, waiting: int) -> None:
        """Wait until so many documents are there."""

        async def is_so() -> bool:
            name = "pagewarden_gpu_documents_inside"
            found = [await self.meter(name, state=state) for state in ("reading", "waiting")]
            return found == [reading, waiting]

        await polling.until(is_so)


def caller(
    url: str, key: str = KEY, *, silence_seconds: float = 10.0, patience_seconds: float = 20.0
) -> client.Client:
    """Make a client."""
    return client.Client(
        url, key, silence_seconds=silence_seconds, patience_seconds=patience_seconds
    )


def order(**wishes: Any) -> protocol.Order:
    """Write an order."""
    return protocol.Order.model_validate(wishes)


def sent(content: bytes) -> tuple[int, Callable[[], AsyncGenerator[bytes]]]:
    """Give a document the form in which a client sends it."""

    async def chunks() -> AsyncGenerator[bytes]:
        for start in range(0, len(content), 1000):
            yield content[start : start + 1000]

    return len(content), chunks


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    """Take an answer apart."""
    return [json.loads(line) for line in response.content.split(b"\n") if line]


async def pages(found: AsyncGenerator[protocol.Line]) -> list[int]:
    """Number the pages that come."""
    return [line.page.number async for line in found if line.page is not None]


@contextlib.asynccontextmanager
async def opened(**changes: Any) -> AsyncIterator[Place]:
    """Serve, with changes of the plan; nobody waits until it is ready."""
    plan = dataclasses.replace(PLAN, **changes)
    async with (
        serving(app.create_app(plan)) as url,
        httpx.AsyncClient(
            base_url=url, timeout=20, headers={"Authorization": f"Bearer {KEY}"}
        ) as session,
    ):
        yield Place(url, session)


@contextlib.asynccontextmanager
async def ready(**changes: Any) -> AsyncIterator[Place]:
    """Serve, and wait until it is ready."""
    async with opened(**changes) as place:
        await is_ready(place.session)
        yield place


async def is_ready(session: httpx.AsyncClient) -> None:
    """Wait until a service is ready."""

    async def answers() -> bool:
        with contextlib.suppress(httpx.TransportError):
            return (await session.get("/readyz")).is_success
        return False

    await polling.until(answers, seconds=60)


@contextlib.asynccontextmanager
async def sleeping(place: Place) -> AsyncIterator[None]:
    """Have a document inside that takes for ever; leave at the end, in the middle of it."""
    asking = asyncio.create_task(place.read(drawn.document("asleep")))
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def refused(place: Place) -> float:
    """Count the documents that were sent away."""
    return await place.meter("pagewarden_gpu_refusals_total", code="Busy")


def error(answer: httpx.Response, status: int) -> dict[str, Any]:
    """Check the status, and give what was said."""
    assert answer.status_code == status, answer.text
    (line,) = lines(answer)
    said: dict[str, Any] = line["error"]
    return said
