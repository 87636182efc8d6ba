"""The client of the GPU service: what it sends, what it raises, and how long it waits."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors
from pagewarden.gpu import protocol, ranges
from tests.gpu_service import harness
from tests.reading import drawn
from tests.support import polling
from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

WAYS = ["polyglot"] * 3


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[harness.Place]:
    """A service that reads nothing, quickly."""
    async with harness.ready() as opened:
        yield opened


@pytest.fixture(scope="module")
async def small() -> AsyncIterator[harness.Place]:
    """A service for one document, with a waiting room for one more."""
    async with harness.ready(documents=1, waiting=1, retry_after=1) as opened:
        yield opened


async def test_the_client_raises_the_error_of_the_service(place: harness.Place) -> None:
    """Of the same class, whether it came before the first line or after it."""
    unreadable, failing = b"no document", drawn.document(*["white"] * 6, "away")
    async with place.client() as client:
        with pytest.raises(errors.UnsupportedFile, match="letter"):
            await harness.pages(
                client.read(harness.order(name="letter"), *harness.sent(unreadable))
            )
        with pytest.raises(errors.EngineAway, match="does not answer; try again"):
            await harness.pages(client.read(harness.order(), *harness.sent(failing)))


async def test_the_client_gets_what_it_asks_for(place: harness.Place) -> None:
    """Pages, languages and profile arrive as they were meant."""
    order = harness.order(pages=ranges.without({1, 3}), languages=("deu", "frk"), profile="fast")
    async with place.client() as client:
        found = [
            line async for line in client.read(order, *harness.sent(drawn.document("white", *WAYS)))
        ]
        about = await client.about(profile="fast")
    document, *pages = found
    assert document.document == protocol.Document(4, "fake", "1", "fast")
    assert about == protocol.About("fake", "1", "fast", harness.MAX_BYTES)
    assert [(line.page.number, line.page.text) for line in pages if line.page] == [
        (2, "eng deu frk"), (4, "eng deu frk"),  # the first one is of the test line
    ]  # fmt: skip


async def test_text_with_any_end_of_line_in_it_is_one_line() -> None:
    """What Unicode calls the end of a line may stand in a text."""
    text = "a\u2028b\x85c\x0bd"
    page = {"number": 1, "width": 1, "height": 1, "dpi": 1, "source": "ocr", "usage": {}}
    line = {"text": text, "quad": [[0, 0]] * 4, "confidence": 1, "words": [], "block": 0}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        del receive
        said = json.dumps({"page": {**page, "lines": [line]}}, ensure_ascii=False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (said[:70].encode(), said[70:].encode(), b'\n\n{"end": {"pages": 1}}\n'):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with serving(app) as url, harness.caller(url) as client:
        (found,) = [line async for line in client.read(harness.order(), *harness.sent(b"x"))]
    assert found.page is not None
    assert found.page.text == text


async def test_an_answer_that_ends_too_early_is_an_outage() -> None:
    """Also where it looks complete, as after a proxy."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        del receive
        line = protocol.Line(document=protocol.Document(2, "fake", "1", "fast"))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": protocol.pack(line)})

    async with serving(app) as url, harness.caller(url) as client:
        with pytest.raises(errors.EngineAway, match="stopped in the middle"):
            await harness.pages(client.read(harness.order(), *harness.sent(b"x")))


async def test_a_service_that_stops_in_the_middle_is_an_outage() -> None:
    """Whatever came before it counts; the rest is read by the next attempt."""
    async with harness.ready() as place, place.client() as client:
        found = client.read(harness.order(), *harness.sent(drawn.document("white", "asleep")))
        assert (await anext(found)).document is not None
        assert (await anext(found)).page is not None
        rest = asyncio.create_task(harness.pages(found))
        await place.inside(reading=1, waiting=0)
    with pytest.raises(errors.EngineAway):
        await rest


async def test_a_service_that_does_not_answer_is_an_outage() -> None:
    """Nobody listens, or somebody who never says anything."""

    async def silent(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            del send
            while (await receive())["type"] != "http.disconnect":
                pass

    async with serving(silent) as url, harness.caller(url, silence_seconds=0.2) as client:
        with pytest.raises(errors.EngineAway, match="does not answer"):
            await client.about()
    async with harness.caller(url) as client:
        with pytest.raises(errors.EngineAway, match="see whether it runs"):
            await client.about()


async def test_something_else_at_its_address_is_an_outage() -> None:
    """A page of a proxy is no answer of the service."""

    async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        del receive
        status = 200 if scope["path"].endswith("about") else 502
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"<html>"})

    async with serving(proxy) as url, harness.caller(url) as client:
        with pytest.raises(errors.EngineAway, match="PAGEWARDEN_GPU_SERVICE_URL"):
            await client.about()
        with pytest.raises(errors.EngineAway, match="502"):
            await harness.pages(client.read(harness.order(), *harness.sent(b"x")))


async def test_the_wrong_key_is_no_fault_of_the_service(place: harness.Place) -> None:
    """The client says which setting is to be mended."""
    async with place.client(key="another key") as client:
        with pytest.raises(errors.KeyRefused, match="PAGEWARDEN_SUPABASE_KEY"):
            await client.about()


async def test_a_client_comes_again_when_it_is_told_to(small: harness.Place) -> None:
    """A full service is no outage; its document is sent once more."""
    async with small.client() as client, contextlib.AsyncExitStack() as others:
        for waiting in (0, 1):
            await others.enter_async_context(harness.sleeping(small))
            await small.inside(reading=1, waiting=waiting)
        before = await harness.refused(small)
        found = client.read(harness.order(), *harness.sent(drawn.numbered(3)))
        asking = asyncio.create_task(harness.pages(found))

        async def is_refused() -> bool:
            return await harness.refused(small) > before

        await polling.until(is_refused)
        await others.aclose()
        assert await asking == [1, 2, 3]


async def test_a_client_has_patience_but_not_for_ever(small: harness.Place) -> None:
    """Then it is an outage, and somebody hears of it."""
    async with contextlib.AsyncExitStack() as others:
        for waiting in (0, 1):
            await others.enter_async_context(harness.sleeping(small))
            await small.inside(reading=1, waiting=waiting)
        async with small.client(patience_seconds=0.5) as client:
            with pytest.raises(errors.EngineAway, match="no room"):
                await harness.pages(client.read(harness.order(), *harness.sent(drawn.numbered(1))))
