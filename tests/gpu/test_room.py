"""Some documents are read, a few wait, others are sent away; whoever leaves makes room at once."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import httpx
import pytest

from pagewarden import errors
from tests.gpu import places
from tests.reading import drawn
from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[places.Place]:
    """A service for one document, with a waiting room for one more."""
    async with places.ready(documents=1, waiting=1, retry_after=1) as opened:
        yield opened


@contextlib.asynccontextmanager
async def sleeping(place: places.Place) -> AsyncIterator[None]:
    """Have a document inside that takes for ever; leave at the end, in the middle of it."""
    asking = asyncio.create_task(place.read(drawn.document("asleep")))
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def test_a_full_service_sends_others_away(place: places.Place) -> None:
    """With 503, and when to come again; no body is taken in."""
    async with sleeping(place):
        await place.inside(reading=1, waiting=0)
        async with sleeping(place):
            await place.inside(reading=1, waiting=1)
            before = await _refused(place)
            answer = await place.read(b"x" * 400_000)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert places.lines(answer)[0]["error"]["code"] == "Busy"
            assert await _refused(place) == before + 1
    await place.inside(reading=0, waiting=0)


async def test_whoever_waits_is_read_when_another_one_leaves(place: places.Place) -> None:
    """A client that leaves in the middle of a page frees its place at once."""
    async with sleeping(place):
        await place.inside(reading=1, waiting=0)
        waiting = asyncio.create_task(place.read(drawn.numbered(2)))
        await place.inside(reading=1, waiting=1)
    assert len(places.lines(await waiting)) == 4


async def test_whoever_leaves_the_waiting_room_makes_room(place: places.Place) -> None:
    """Nobody has been told anything yet at that time."""
    async with sleeping(place):
        await place.inside(reading=1, waiting=0)
        async with sleeping(place):
            await place.inside(reading=1, waiting=1)
        await place.inside(reading=1, waiting=0)


async def test_whoever_leaves_while_sending_makes_room(place: places.Place) -> None:
    """Half a document is as if there had been none."""
    url = httpx.URL(place.url)
    _, writer = await asyncio.open_connection(url.host, url.port)
    key = f"Authorization: Bearer {places.KEY}\r\n"
    head = f"POST /v1/read HTTP/1.1\r\nHost: x\r\n{key}Content-Length: 1000\r\n\r\n"
    writer.write(head.encode() + b"the beginning")
    await place.inside(reading=0, waiting=1)
    writer.close()
    await place.inside(reading=0, waiting=0)


async def test_a_client_comes_again_when_it_is_told_to(place: places.Place) -> None:
    """A full service is no outage; its document is sent once more."""
    async with place.client() as client, contextlib.AsyncExitStack() as others:
        for waiting in (0, 1):
            await others.enter_async_context(sleeping(place))
            await place.inside(reading=1, waiting=waiting)
        before = await _refused(place)
        found = client.read(places.order(), *places.sent(drawn.numbered(3)))
        asking = asyncio.create_task(places.pages(found))

        async def is_refused() -> bool:
            return await _refused(place) > before

        await polling.until(is_refused)
        await others.aclose()
        assert await asking == [1, 2, 3]


async def test_a_client_has_patience_but_not_for_ever(place: places.Place) -> None:
    """Then it is an outage, and somebody hears of it."""
    async with contextlib.AsyncExitStack() as others:
        for waiting in (0, 1):
            await others.enter_async_context(sleeping(place))
            await place.inside(reading=1, waiting=waiting)
        async with place.client(patience_seconds=0.5) as client:
            with pytest.raises(errors.EngineAway, match="no room"):
                await places.pages(client.read(places.order(), *places.sent(drawn.numbered(1))))


async def _refused(place: places.Place) -> float:
    return await place.meter("pagewarden_gpu_refusals_total", code="Busy")
