"""A document in, a line for each page out; alive, ready and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest
from prometheus_client import parser

from pagewarden.gpu import protocol
from tests.gpu_service import harness
from tests.reading import drawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[harness.Place]:
    """A service that reads nothing, quickly."""
    async with harness.ready() as opened:
        yield opened


async def test_a_document_is_answered_by_a_line_for_each_page(place: harness.Place) -> None:
    """First what it is and who reads it, then the pages, then that this was all."""
    answer = await place.read(drawn.numbered(3))
    first, *pages, last = harness.lines(answer)
    assert answer.headers["content-type"] == protocol.MEDIA_TYPE
    assert first == {
        "document": {"page_count": 3, "engine": "fake", "version": "1", "profile": "balanced"}
    }
    assert [(line["page"]["number"], line["page"]["width"]) for line in pages] == [
        (1, 200), (2, 201), (3, 202),
    ]  # fmt: skip
    assert last == {"end": {"pages": 3}}


async def test_only_the_pages_that_are_wanted_are_read(place: harness.Place) -> None:
    """The count is that of the whole document."""
    first, *pages, last = harness.lines(await place.read(drawn.numbered(7), pages="2-3,6-"))
    assert first["document"]["page_count"] == 7
    assert [line["page"]["number"] for line in pages] == [2, 3, 6, 7]
    assert last == {"end": {"pages": 4}}


async def test_a_document_of_which_nothing_is_wanted_is_no_error(place: harness.Place) -> None:
    """Whoever resumes after the last page learns that it was the last."""
    first, last = harness.lines(await place.read(drawn.numbered(2), pages="3-"))
    assert first["document"]["page_count"] == 2
    assert last == {"end": {"pages": 0}}


async def test_a_bad_page_costs_only_itself(place: harness.Place) -> None:
    """It comes as a page that failed, and says why."""
    _, good, bad, _ = harness.lines(await place.read(drawn.document("white", "damaged")))
    assert good["page"]["source"] == "ocr"
    assert bad["page"]["source"] == "failed"
    assert "the page is broken" in bad["page"]["error"]


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer x", "Basic x", "Bearer \xe9"])
async def test_nobody_reads_without_the_key(place: harness.Place, header: str | None) -> None:
    """Neither a missing nor a forged one is let in; health and meters are open to all."""
    headers = [] if header is None else [(b"Authorization", header.encode("latin-1"))]
    async with httpx.AsyncClient(base_url=place.url, headers=headers) as stranger:
        for request in (
            stranger.build_request("POST", "/v1/read", content=drawn.numbered(1)),
            stranger.build_request("GET", "/v1/about"),
        ):
            answer = await stranger.send(request)
            assert harness.error(answer, 401)["code"] == "NotSignedIn"
            assert answer.headers["www-authenticate"] == "Bearer"
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await stranger.get(path)).status_code == 200


async def test_a_service_is_ready_when_it_has_read_something() -> None:
    """Before that it lives, and asks for patience."""
    async with harness.opened() as place:
        early = await place.session.get("/readyz")
        assert (early.status_code, early.headers["retry-after"]) == (503, "1")
        assert harness.lines(early)[0]["error"]["code"] == "Starting"
        assert (await place.read(b"x")).status_code == 503
        assert (await place.session.get("/healthz")).json() == {"status": "ok"}
        await harness.is_ready(place.session)
        assert (await place.read(drawn.numbered(1))).status_code == 200
        await _counts(place)
        paths = (await place.session.get("/openapi.json")).json()["paths"]
        assert set(paths) == {"/v1/read", "/v1/about", "/healthz", "/readyz", "/metrics"}


async def _counts(place: harness.Place) -> None:
    """The meters can be parsed, and have counted one document of one page."""
    text = (await place.session.get("/metrics")).text
    names = {family.name for family in parser.text_string_to_metric_families(text)}
    wanted = "pages documents document_seconds documents_inside refusals batch_lines batch_pages"
    assert {f"pagewarden_gpu_{name}" for name in wanted.split()} <= names
    assert await place.meter("pagewarden_gpu_pages_total", source="ocr") == 1
    assert await place.meter("pagewarden_gpu_documents_total", end="read") == 1
    assert await place.meter("pagewarden_gpu_document_seconds_count") == 1
