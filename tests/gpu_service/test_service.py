"""Admission of documents and readiness."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

from pagewarden import errors
from pagewarden.gpu_service import readers
from pagewarden.gpu_service import service as service_module
from tests.gpu_service import harness
from tests.ocr import drawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="module")
async def service() -> AsyncIterator[harness.RunningService]:
    """A service that reads one document and lets one more wait."""
    async with harness.start_ready_service(documents=1, waiting=1, retry_after=1) as running:
        yield running


async def test_full_service_refuses_documents_with_retry_after(
    service: harness.RunningService,
) -> None:
    """The body is not read."""
    async with harness.endless_document(service):
        await service.wait_for_documents(reading=1, waiting=0)
        async with harness.endless_document(service):
            await service.wait_for_documents(reading=1, waiting=1)
            before = await harness.count_busy(service)
            answer = await service.read(b"x" * 400_000)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert harness.parse_lines(answer)[0]["error"]["code"] == "Busy"
            assert await harness.count_busy(service) == before + 1
    await service.wait_for_documents(reading=0, waiting=0)


async def test_disconnect_while_reading_frees_the_slot(service: harness.RunningService) -> None:
    """A waiting document is read as soon as another client disconnects."""
    async with harness.endless_document(service):
        await service.wait_for_documents(reading=1, waiting=0)
        waiting = asyncio.create_task(service.read(drawn.numbered(2)))
        await service.wait_for_documents(reading=1, waiting=1)
    assert len(harness.parse_lines(await waiting)) == 4


async def test_disconnect_while_waiting_frees_the_place(service: harness.RunningService) -> None:
    """No line has been sent at that time."""
    async with harness.endless_document(service):
        await service.wait_for_documents(reading=1, waiting=0)
        async with harness.endless_document(service):
            await service.wait_for_documents(reading=1, waiting=1)
        await service.wait_for_documents(reading=1, waiting=0)


async def test_disconnect_while_sending_frees_the_place(service: harness.RunningService) -> None:
    """A partial document is discarded."""
    url = httpx.URL(service.url)
    _, writer = await asyncio.open_connection(url.host, url.port)
    key = f"Authorization: Bearer {harness.KEY}\r\n"
    head = f"POST /v1/read HTTP/1.1\r\nHost: x\r\n{key}Content-Length: 1000\r\n\r\n"
    writer.write(head.encode() + b"the beginning")
    await service.wait_for_documents(reading=0, waiting=1)
    writer.close()
    await service.wait_for_documents(reading=0, waiting=0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"engine": "fake-unloadable"}, "the models are missing; install them"),
        ({"engine": "null", "check_test_line": True}, "was read as ''"),
    ],
)
async def test_failed_self_test_makes_the_service_unhealthy(
    changes: dict[str, object], reason: str
) -> None:
    """Health routes say why; clients treat it as an outage."""
    async with harness.start_service(**changes) as service, service.client() as client:
        with pytest.raises(errors.EngineUnavailable, match=reason):
            await client.get_info()
        for path in ("/healthz", "/readyz"):
            answer = await service.session.get(path)
            assert answer.status_code == 503
            assert reason in answer.text


async def test_failed_self_test_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its lane would stay paused until a person restarts the service."""
    self_test, failures = readers.ReaderFactory.self_test, [errors.ReaderKilled("the process died")]

    async def fail_once(opened: readers.ReaderFactory) -> None:
        if failures:
            raise failures.pop()
        await self_test(opened)

    monkeypatch.setattr(readers.ReaderFactory, "self_test", fail_once)
    monkeypatch.setattr(service_module, "SELF_TEST_PAUSES", (0.0,))
    async with harness.start_service() as service:
        await harness.wait_until_ready(service.session)
        assert (await service.session.get("/healthz")).status_code == 200
    assert failures == []
