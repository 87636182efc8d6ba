"""The client of the GPU service: requests, errors and retries."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors
from pagewarden.ocr import gpu_protocol, page_ranges
from tests.gpu_service import harness
from tests.ocr import drawn
from tests.support import polling
from tests.support.serving import serve_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send


@pytest.fixture(scope="module")
async def service() -> AsyncIterator[harness.RunningService]:
    """A ready service with a fast fake engine."""
    async with harness.start_ready_service() as running:
        yield running


@pytest.fixture(scope="module")
async def small() -> AsyncIterator[harness.RunningService]:
    """A service that reads one document and lets one more wait."""
    async with harness.start_ready_service(documents=1, waiting=1, retry_after=1) as running:
        yield running


async def test_client_raises_the_error_of_the_service(service: harness.RunningService) -> None:
    """It has the same class, before and after the first line."""
    unreadable, failing = b"no document", drawn.document(*["white"] * 6, "engine-away")
    async with service.client() as client:
        with pytest.raises(errors.UnsupportedFile, match="letter"):
            await harness.page_numbers(
                client.read(
                    harness.make_read_request(name="letter"), *harness.as_upload(unreadable)
                )
            )
        with pytest.raises(errors.EngineUnavailable, match="is not responding; try again"):
            await harness.page_numbers(
                client.read(harness.make_read_request(), *harness.as_upload(failing))
            )


async def test_client_sends_pages_languages_and_profile(service: harness.RunningService) -> None:
    """The service reads as the order says."""
    order = harness.make_read_request(
        pages=page_ranges.all_except({1, 3}), languages=("deu", "frk"), profile="fast"
    )
    async with service.client() as client:
        found = [
            line
            async for line in client.read(
                order, *harness.as_upload(drawn.document("white", *["languages"] * 3))
            )
        ]
        info = await client.get_info(profile="fast")
    document, *pages = found
    assert document.document == gpu_protocol.Document(4, "fake", "1", "fast")
    assert info == gpu_protocol.ServiceInfo("fake", "1", "fast", harness.MAX_BYTES)
    assert [(line.page.number, line.page.text) for line in pages if line.page] == [
        (2, "eng deu frk"), (4, "eng deu frk"),  # the first one is of the test line
    ]  # fmt: skip


async def test_unicode_line_breaks_in_text_do_not_end_a_line() -> None:
    """Only a line feed ends a line of the answer."""
    text = "a\u2028b\x85c\x0bd"
    page = {"number": 1, "width": 1, "height": 1, "dpi": 1, "source": "ocr", "usage": {}}
    line = {"text": text, "quad": [[0, 0]] * 4, "confidence": 1, "words": [], "block": 0}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        del receive
        content = json.dumps({"page": {**page, "lines": [line]}}, ensure_ascii=False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (content[:70].encode(), content[70:].encode(), b'\n\n{"end": {"pages": 1}}\n'):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with serve_app(app) as url, harness.make_client(url) as client:
        (found,) = [
            line
            async for line in client.read(harness.make_read_request(), *harness.as_upload(b"x"))
        ]
    assert found.page is not None
    assert found.page.text == text


async def test_answer_without_end_is_an_outage() -> None:
    """Also if the HTTP response is complete, as behind a proxy."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        del receive
        line = gpu_protocol.ResponseLine(document=gpu_protocol.Document(2, "fake", "1", "fast"))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": gpu_protocol.pack(line)})

    async with serve_app(app) as url, harness.make_client(url) as client:
        with pytest.raises(errors.EngineUnavailable, match="aborted the response"):
            await harness.page_numbers(
                client.read(harness.make_read_request(), *harness.as_upload(b"x"))
            )


async def test_shutdown_while_reading_is_an_outage() -> None:
    """Earlier pages count; the next attempt reads the rest."""
    async with harness.start_ready_service() as service, service.client() as client:
        found = client.read(
            harness.make_read_request(), *harness.as_upload(drawn.document("white", "hang"))
        )
        assert (await anext(found)).document is not None
        assert (await anext(found)).page is not None
        rest = asyncio.create_task(harness.page_numbers(found))
        await service.wait_for_documents(reading=1, waiting=0)
    with pytest.raises(errors.EngineUnavailable):
        await rest


async def test_silent_or_unreachable_service_is_an_outage() -> None:
    """After the silence timeout, or at once if the connection is refused."""

    async def silent(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            del send
            while (await receive())["type"] != "http.disconnect":
                pass

    async with serve_app(silent) as url, harness.make_client(url, silence_seconds=0.2) as client:
        with pytest.raises(errors.EngineUnavailable, match="is not responding"):
            await client.get_info()
    async with harness.make_client(url) as client:
        with pytest.raises(errors.EngineUnavailable, match="check that it is running"):
            await client.get_info()


async def test_other_server_at_the_url_is_an_outage() -> None:
    """For example a proxy with an error page."""

    async def proxy(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        del receive
        status = 200 if scope["path"].endswith("about") else 502
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"<html>"})

    async with serve_app(proxy) as url, harness.make_client(url) as client:
        with pytest.raises(errors.EngineUnavailable, match="PAGEWARDEN_GPU_SERVICE_URL"):
            await client.get_info()
        with pytest.raises(errors.EngineUnavailable, match="502"):
            await harness.page_numbers(
                client.read(harness.make_read_request(), *harness.as_upload(b"x"))
            )


async def test_wrong_key_is_a_configuration_error(service: harness.RunningService) -> None:
    """The message names the setting."""
    async with service.client(key="another key") as client:
        with pytest.raises(errors.ApiKeyRejected, match="PAGEWARDEN_SUPABASE_KEY"):
            await client.get_info()


async def test_client_retries_after_the_requested_delay(small: harness.RunningService) -> None:
    """A full service is not an outage; the document is sent again."""
    async with small.client() as client, contextlib.AsyncExitStack() as others:
        for waiting in (0, 1):
            await others.enter_async_context(harness.endless_document(small))
            await small.wait_for_documents(reading=1, waiting=waiting)
        before = await harness.count_busy(small)
        found = client.read(harness.make_read_request(), *harness.as_upload(drawn.numbered(3)))
        reading = asyncio.create_task(harness.page_numbers(found))

        async def is_refused() -> bool:
            return await harness.count_busy(small) > before

        await polling.wait_until(is_refused)
        await others.aclose()
        assert await reading == [1, 2, 3]


async def test_client_gives_up_after_its_retry_limit(small: harness.RunningService) -> None:
    """Then a full service is an outage."""
    async with contextlib.AsyncExitStack() as others:
        for waiting in (0, 1):
            await others.enter_async_context(harness.endless_document(small))
            await small.wait_for_documents(reading=1, waiting=waiting)
        async with small.client(retry_seconds=0.5) as client:
            with pytest.raises(errors.EngineUnavailable, match="at capacity"):
                await harness.page_numbers(
                    client.read(harness.make_read_request(), *harness.as_upload(drawn.numbered(1)))
                )
