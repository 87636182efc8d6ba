"""Routes: read, health and metrics; who may call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest
from prometheus_client import parser

from pagewarden.ocr import gpu_protocol
from tests.gpu_service import harness
from tests.ocr import drawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="module")
async def service() -> AsyncIterator[harness.RunningService]:
    """A ready service with a fast fake engine."""
    async with harness.start_ready_service() as running:
        yield running


async def test_read_answers_one_line_for_each_page(service: harness.RunningService) -> None:
    """The document comes first, then the pages, then the end."""
    answer = await service.read(drawn.numbered(3))
    first, *pages, last = harness.parse_lines(answer)
    assert answer.headers["content-type"] == gpu_protocol.MEDIA_TYPE
    assert first == {
        "document": {"page_count": 3, "engine": "fake", "version": "1", "profile": "balanced"}
    }
    assert [(line["page"]["number"], line["page"]["width"]) for line in pages] == [
        (1, 200), (2, 201), (3, 202),
    ]  # fmt: skip
    assert last == {"end": {"pages": 3}}


async def test_read_answers_only_the_requested_pages(service: harness.RunningService) -> None:
    """`page_count` is that of the whole document."""
    first, *pages, last = harness.parse_lines(await service.read(drawn.numbered(7), pages="2-3,6-"))
    assert first["document"]["page_count"] == 7
    assert [line["page"]["number"] for line in pages] == [2, 3, 6, 7]
    assert last == {"end": {"pages": 4}}


async def test_range_after_the_last_page_is_not_an_error(service: harness.RunningService) -> None:
    """An attempt that resumes after the last page learns that no page is missing."""
    first, last = harness.parse_lines(await service.read(drawn.numbered(2), pages="3-"))
    assert first["document"]["page_count"] == 2
    assert last == {"end": {"pages": 0}}


async def test_damaged_page_does_not_affect_other_pages(service: harness.RunningService) -> None:
    """It is answered as a failed page, with the error."""
    _, good, bad, _ = harness.parse_lines(await service.read(drawn.document("white", "damaged")))
    assert good["page"]["source"] == "ocr"
    assert bad["page"]["source"] == "failed"
    assert "the page is damaged" in bad["page"]["error"]


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer x", "Basic x", "Bearer \xe9"])
async def test_routes_for_reading_require_the_key(
    service: harness.RunningService, header: str | None
) -> None:
    """A missing or wrong key is refused; health and metrics are open."""
    headers = [] if header is None else [(b"Authorization", header.encode("latin-1"))]
    async with httpx.AsyncClient(base_url=service.url, headers=headers) as client:
        for request in (
            client.build_request("POST", "/v1/read", content=drawn.numbered(1)),
            client.build_request("GET", "/v1/about"),
        ):
            answer = await client.send(request)
            assert harness.require_error(answer, 401)["code"] == "NotSignedIn"
            assert answer.headers["www-authenticate"] == "Bearer"
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await client.get(path)).status_code == 200


async def test_service_is_ready_after_its_self_test() -> None:
    """Before that it is alive, and answers 503 with Retry-After."""
    async with harness.start_service() as service:
        early = await service.session.get("/readyz")
        assert (early.status_code, early.headers["retry-after"]) == (503, "1")
        assert harness.parse_lines(early)[0]["error"]["code"] == "Starting"
        assert (await service.read(b"x")).status_code == 503
        assert (await service.session.get("/healthz")).json() == {"status": "ok"}
        await harness.wait_until_ready(service.session)
        assert (await service.read(drawn.numbered(1))).status_code == 200
        await _check_metrics(service)
        paths = (await service.session.get("/openapi.json")).json()["paths"]
        assert set(paths) == {"/v1/read", "/v1/about", "/healthz", "/readyz", "/metrics"}


async def _check_metrics(service: harness.RunningService) -> None:
    """The metrics can be parsed, and have counted one document of one page."""
    text = (await service.session.get("/metrics")).text
    names = {family.name for family in parser.text_string_to_metric_families(text)}
    expected = "pages documents document_seconds documents_inside refusals batch_lines batch_pages"
    assert {f"pagewarden_gpu_{name}" for name in expected.split()} <= names
    assert await service.metric("pagewarden_gpu_pages_total", source="ocr") == 1
    assert await service.metric("pagewarden_gpu_documents_total", end="read") == 1
    assert await service.metric("pagewarden_gpu_document_seconds_count") == 1
