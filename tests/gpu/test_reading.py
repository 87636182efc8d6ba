"""A document in, a line for each page out."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors
from pagewarden.gpu import protocol, ranges
from tests.gpu import places
from tests.reading import drawn
from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[places.Place]:
    """A service that reads nothing, quickly."""
    async with places.ready() as opened:
        yield opened


async def test_a_document_is_answered_by_a_line_for_each_page(place: places.Place) -> None:
    """First what it is and who reads it, then the pages, then that this was all."""
    answer = await place.read(drawn.numbered(3))
    first, *pages, last = places.lines(answer)
    assert answer.headers["content-type"] == protocol.MEDIA_TYPE
    assert first == {
        "document": {"page_count": 3, "engine": "fake", "version": "1", "profile": "balanced"}
    }
    assert [(line["page"]["number"], line["page"]["width"]) for line in pages] == [
        (1, 200), (2, 201), (3, 202),
    ]  # fmt: skip
    assert last == {"end": {"pages": 3}}


async def test_only_the_pages_that_are_wanted_are_read(place: places.Place) -> None:
    """The count is that of the whole document."""
    first, *pages, last = places.lines(await place.read(drawn.numbered(7), pages="2-3,6-"))
    assert first["document"]["page_count"] == 7
    assert [line["page"]["number"] for line in pages] == [2, 3, 6, 7]
    assert last == {"end": {"pages": 4}}


async def test_a_document_of_which_nothing_is_wanted_is_no_error(place: places.Place) -> None:
    """Whoever resumes after the last page learns that it was the last."""
    first, last = places.lines(await place.read(drawn.numbered(2), pages="3-"))
    assert first["document"]["page_count"] == 2
    assert last == {"end": {"pages": 0}}


async def test_a_bad_page_costs_only_itself(place: places.Place) -> None:
    """It comes as a page that failed, and says why."""
    _, good, bad, _ = places.lines(await place.read(drawn.document("white", "damaged")))
    assert good["page"]["source"] == "ocr"
    assert bad["page"]["source"] == "failed"
    assert "the page is broken" in bad["page"]["error"]


async def test_an_error_after_the_first_line_is_the_last_line(place: places.Place) -> None:
    """With all that the client needs to raise it again."""
    answer = await place.read(drawn.document(*["white"] * 6, "away"))
    first, *_, last = places.lines(answer)
    assert (answer.status_code, first["document"]["page_count"]) == (200, 7)
    assert last["error"] == {
        "code": "EngineAway",
        "message": "the service does not answer; try again later",
        "category": "transient",
        "outage": True,
    }


async def test_the_client_raises_the_error_of_the_service(place: places.Place) -> None:
    """Of the same class, whether it came before the first line or after it."""
    unreadable, failing = b"no document", drawn.document(*["white"] * 6, "away")
    async with place.client() as client:
        with pytest.raises(errors.UnsupportedFile, match="letter"):
            await places.pages(client.read(places.order(name="letter"), *places.sent(unreadable)))
        with pytest.raises(errors.EngineAway, match="does not answer; try again"):
            await places.pages(client.read(places.order(), *places.sent(failing)))


async def test_the_client_gets_what_it_asks_for(place: places.Place) -> None:
    """Pages, languages and profile arrive as they were meant."""
    order = places.order(pages=ranges.without({1, 3}), languages=("deu", "frk"), profile="fast")
    async with place.client() as client:
        found = [
            line async for line in client.read(order, *places.sent(drawn.document("white", *WAYS)))
        ]
        about = await client.about(profile="fast")
    document, *pages = found
    assert document.document == protocol.Document(4, "fake", "1", "fast")
    assert about == protocol.About("fake", "1", "fast", places.MAX_BYTES)
    assert [(line.page.number, line.page.text) for line in pages if line.page] == [
        (2, "eng deu frk"), (4, "eng deu frk"),  # the first one is of the test line
    ]  # fmt: skip


WAYS = ["polyglot"] * 3


async def test_a_slow_page_is_told_from_a_dead_service(
    place: places.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty lines come while nothing else does, before the first page too."""
    monkeypatch.setattr(protocol, "PULSE_SECONDS", 0.05)
    async with place.session.stream(
        "POST", "/v1/read", content=drawn.document("asleep"), headers=places.TIFF
    ) as response:
        assert response.status_code == 200
        pulses = response.aiter_raw()
        assert [await anext(pulses) for _ in range(3)] == [b"\n"] * 3


async def test_an_error_after_a_sign_of_life_is_a_line(
    place: places.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status has been sent, so the error has to come as a line."""
    monkeypatch.setattr(protocol, "PULSE_SECONDS", 0.0)
    answer = await place.read(b"no document")
    assert answer.status_code == 200
    assert [line["error"]["code"] for line in places.lines(answer)] == ["UnsupportedFile"]


async def test_a_file_of_our_own_store_is_fetched(place: places.Place) -> None:
    """The URL and everything else come as JSON."""
    del place
    async with (
        serving(_store) as store,
        places.ready(stores=(f"{store}/files",)) as fetching,
        fetching.client() as client,
    ):
        order = places.order(url=f"{store}/files/scan.tif?signature=x", pages=ranges.parse("2-"))
        assert await places.pages(client.read_url(order)) == [2, 3]
        with pytest.raises(errors.FileNotThere):
            await places.pages(client.read_url(places.order(url=f"{store}/files/missing")))
        with pytest.raises(errors.StoreAway, match="403"):
            await places.pages(client.read_url(places.order(url=f"{store}/files/expired")))
        with pytest.raises(errors.FileTooLarge):
            await places.pages(client.read_url(places.order(url=f"{store}/files/endless")))
        for elsewhere in ("moved", "../secret", "%2e%2e/secret"):
            with pytest.raises(errors.EngineAway, match=r"no URL of our own|leads on"):
                await places.pages(client.read_url(places.order(url=f"{store}/files/{elsewhere}")))
    assert "/secret" not in ASKED


ASKED: list[str] = []


async def _store(scope: Scope, receive: Receive, send: Send) -> None:
    """Hand out files, a redirect, and a file that never ends."""
    if scope["type"] != "http":
        return
    del receive
    ASKED.append(scope["path"])
    name = scope["path"].removeprefix("/files/")
    status = {"scan.tif": 200, "endless": 200, "moved": 302, "expired": 403}.get(name, 404)
    headers = [(b"location", b"/secret")] if status == 302 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if name == "endless":
        for _ in range(places.MAX_BYTES // 10_000 + 1):
            await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
    body = drawn.numbered(3) if name == "scan.tif" else b""
    await send({"type": "http.response.body", "body": body})


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

    async with serving(app) as url, places.caller(url) as client:
        (found,) = [line async for line in client.read(places.order(), *places.sent(b"x"))]
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

    async with serving(app) as url, places.caller(url) as client:
        with pytest.raises(errors.EngineAway, match="stopped in the middle"):
            await places.pages(client.read(places.order(), *places.sent(b"x")))


async def test_a_service_that_stops_in_the_middle_is_an_outage() -> None:
    """Whatever came before it counts; the rest is read by the next attempt."""
    async with places.ready() as place, place.client() as client:
        found = client.read(places.order(), *places.sent(drawn.document("white", "asleep")))
        assert (await anext(found)).document is not None
        assert (await anext(found)).page is not None
        rest = asyncio.create_task(places.pages(found))
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

    async with serving(silent) as url, places.caller(url, silence_seconds=0.2) as client:
        with pytest.raises(errors.EngineAway, match="does not answer"):
            await client.about()
    async with places.caller(url) as client:
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

    async with serving(proxy) as url, places.caller(url) as client:
        with pytest.raises(errors.EngineAway, match="PAGEWARDEN_GPU_SERVICE_URL"):
            await client.about()
        with pytest.raises(errors.EngineAway, match="502"):
            await places.pages(client.read(places.order(), *places.sent(b"x")))


async def test_the_wrong_key_is_no_fault_of_the_service(place: places.Place) -> None:
    """The client says which setting is to be mended."""
    async with place.client(key="another key") as client:
        with pytest.raises(errors.KeyRefused, match="PAGEWARDEN_SUPABASE_KEY"):
            await client.about()
