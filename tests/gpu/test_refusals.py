"""What is not read: the right status, a clear message, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from gpu_service import deliveries, links, plans, refusals
from pagewarden import files, settings
from tests.gpu import places
from tests.reading import drawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[places.Place]:
    """A service with an own store."""
    async with places.ready(stores=("http://files.example/open",)) as opened:
        yield opened
        await opened.inside(reading=0, waiting=0)


def error(answer: httpx.Response, status: int) -> dict[str, Any]:
    """Check the status, and give what was said."""
    assert answer.status_code == status, answer.text
    (line,) = places.lines(answer)
    said: dict[str, Any] = line["error"]
    return said


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer x", "Basic x", "Bearer \xe9"])
async def test_nobody_reads_without_the_key(place: places.Place, header: str | None) -> None:
    """Neither a missing nor a forged one is let in; health and meters are open to all."""
    headers = [] if header is None else [(b"Authorization", header.encode("latin-1"))]
    async with httpx.AsyncClient(base_url=place.url, headers=headers) as stranger:
        for request in (
            stranger.build_request("POST", "/v1/read", content=drawn.numbered(1)),
            stranger.build_request("GET", "/v1/about"),
        ):
            answer = await stranger.send(request)
            assert error(answer, 401)["code"] == "NotSignedIn"
            assert answer.headers["www-authenticate"] == "Bearer"
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await stranger.get(path)).status_code == 200


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "EmptyFile"),
        (b"just some words", "UnsupportedFile"),
        (b"%PDF-1.7\nand nothing else", "DamagedFile"),
    ],
)
async def test_what_is_no_document_is_refused(
    place: places.Place, content: bytes, code: str
) -> None:
    """Before the first line the status says it, and the message names the document."""
    said = error(await place.read(content, name="letter.pdf"), 422)
    assert said["code"] == code
    assert said["category"] == "permanent"
    assert said["message"].startswith("letter.pdf")


@pytest.mark.parametrize(
    ("params", "hint"),
    [
        ({"pages": ""}, "1-3,7,12-"),
        ({"pages": "3-1"}, "lower number first"),
        ({"pages": "one"}, "1-3,7,12-"),
        ({"page": "1"}, "page"),
        ({"name": ""}, "name"),
        ({"name": "x" * 300}, "name"),
        ({"engine": "nope"}, "choose one of rapid"),
        ({"profile": "nope"}, "choose one of fast"),
        ({"url": "http://files.example/open/x"}, "JSON"),
    ],
)
async def test_an_order_that_makes_no_sense_is_refused(
    place: places.Place, params: dict[str, str], hint: str
) -> None:
    """The message says what to write instead."""
    assert hint in error(await place.read(drawn.numbered(1), **params), 400)["message"]


@pytest.mark.parametrize("kind", ["text/html", "multipart/form-data; boundary=x", "video/mp4"])
async def test_a_body_that_is_no_document_is_refused(place: places.Place, kind: str) -> None:
    """Forms and pages are not guessed at."""
    answer = await place.session.post("/v1/read", content=b"x", headers={"Content-Type": kind})
    assert error(answer, 415)["code"] == "UnsupportedType"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"url": 7}', b'{"url": "x", "more": 1}', b" " * 70_000]
)
async def test_json_that_is_no_order_is_refused(place: places.Place, body: bytes) -> None:
    """Whatever is wrong with it."""
    kind = {"Content-Type": "application/json"}
    answer = await place.session.post("/v1/read", content=body, headers=kind)
    error(answer, 413 if len(body) > deliveries.MAX_JSON else 400)


async def test_a_document_that_is_too_large_is_not_even_taken_in(place: places.Place) -> None:
    """Its length alone is enough to refuse it."""
    said = error(await place.read(b"x" * (places.MAX_BYTES + 1)), 413)
    assert said["code"] == "FileTooLarge"
    assert str(places.MAX_BYTES) in said["message"]


async def test_a_body_that_never_ends_is_cut_off(
    place: places.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets an answer while it is still being sent; a little later the line is closed."""
    monkeypatch.setattr(refusals, "LINGER_SECONDS", 0.2)
    reader, writer = await _begun(place, b"Transfer-Encoding: chunked")
    answer = asyncio.create_task(reader.readline())
    sending = asyncio.create_task(_send_for_ever(writer))
    async with asyncio.timeout(10):
        assert b" 413 " in await answer
        with pytest.raises(ConnectionError):
            await sending
    writer.close()


async def _send_for_ever(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
        await writer.drain()


async def test_a_body_that_falls_silent_is_not_waited_for(
    place: places.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place is for others."""
    monkeypatch.setattr(deliveries, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(refusals, "LINGER_SECONDS", 0.2)
    reader, writer = await _begun(place, b"Content-Length: 1000")
    writer.write(b"the beginning")
    async with asyncio.timeout(10):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert b"408" in head.splitlines()[0]
    assert json.loads(body)["error"]["code"] == "TooSlow"


async def test_refusals_are_counted(place: places.Place) -> None:
    """By what was wrong."""
    before = await place.meter("pagewarden_gpu_refusals_total", code="EmptyFile")
    await place.read(b"")
    assert await place.meter("pagewarden_gpu_refusals_total", code="EmptyFile") == before + 1


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://files.example.evil/open/x",
        "http://files.example@evil.example/open/x",
        "http://user@files.example/open/x",
        "http://files.example:81/open/x",
        "https://files.example/open/x",
        "http://files.example/opener/x",
        "http://files.example/open",
        "http://files.example/x",
        "http://files.example/open/../secret",
        "http://files.example/open/%2e%2e/secret",
        "http://files.example/open/%252e%252e/secret",
        "http://files.example/open/..%5csecret",
        "http://files.example/open\\..\\secret",
        "file:///etc/passwd",
        "//files.example/open/x",
        "/open/x",
        "http://[::1",
        "x",
    ],
)
async def test_a_url_that_is_not_of_our_store_is_refused(place: places.Place, url: str) -> None:
    """Nothing is asked of anybody else."""
    answer = await place.session.post("/v1/read", json={"url": url})
    assert error(answer, 400)["code"] == "UrlRefused"


async def test_urls_of_our_store_are_taken() -> None:
    """Whatever the case of the host, and with the port that is usual."""
    async with links.Links(["https://files.example/open/"]) as ours:
        for url in (
            "https://files.example/open/a/b.pdf?expires=1&signature=../x",
            "https://FILES.example:443/open/a%20b.pdf",
        ):
            assert str(ours.require_ours(url).host) == "files.example"
    async with links.Links([]) as none:
        with pytest.raises(refusals.Refused):
            none.require_ours("https://files.example/open/a")


@pytest.mark.parametrize(
    "chosen",
    [
        {
            "files": "somewhere",
            "files_public_url": "https://files.example/open",
            "files_signing_key": "bkVx0UGM5xyfXx6nNxWDo7dVv8uJ1a2b",
        },
        {"files": "s3://bucket/some/prefix"},
        {"files": "s3://bucket", "s3_region": "eu-central-1"},
        {"files": "s3://bucket", "s3_endpoint": "https://project.example/storage/v1/s3"},
    ],
)
async def test_urls_that_our_stores_sign_are_of_our_store(chosen: dict[str, str]) -> None:
    """With the same settings on both sides, whatever the file is called."""
    keys = {
        "s3_access_key_id": "id",
        "s3_secret_access_key": "secret",
        "supabase_key": "sb_secret_of_a_test_that_is_long_enough_for_it",
    }
    own = settings.Settings.model_validate({**chosen, **keys})
    plan = plans.of_settings(own, engine="null")
    async with files.open_store(own) as store, links.Links(plan.stores) as ours:
        url = await store.signed_url("case/Über alles..pdf", 60)
        assert url is not None
        ours.require_ours(url)
        with pytest.raises(refusals.Refused):
            ours.require_ours(url.replace("/open/", "/").replace("/bucket/", "/other/"))


async def _begun(
    place: places.Place, *headers: bytes
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Begin a request by hand."""
    url = httpx.URL(place.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    key = b"Authorization: Bearer " + places.KEY.encode()
    head = (b"POST /v1/read HTTP/1.1", b"Host: x", key, *headers)
    writer.write(b"\r\n".join(head) + b"\r\n\r\n")
    return reader, writer
