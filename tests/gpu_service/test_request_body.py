"""Documents as they come in: request bodies that are taken or refused, and files of our store."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import httpx
import pytest

from gpu_service import config, errors, request_body
from pagewarden import errors as library_errors
from pagewarden import files, settings
from pagewarden.gpu import ranges
from tests.gpu_service import harness
from tests.reading import drawn
from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[harness.Place]:
    """A service with an own store."""
    async with harness.ready(stores=("http://files.example/open",)) as opened:
        yield opened
        await opened.inside(reading=0, waiting=0)


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
    place: harness.Place, params: dict[str, str], hint: str
) -> None:
    """The message says what to write instead."""
    assert hint in harness.error(await place.read(drawn.numbered(1), **params), 400)["message"]


@pytest.mark.parametrize("kind", ["text/html", "multipart/form-data; boundary=x", "video/mp4"])
async def test_a_body_that_is_no_document_is_refused(place: harness.Place, kind: str) -> None:
    """Forms and pages are not guessed at."""
    answer = await place.session.post("/v1/read", content=b"x", headers={"Content-Type": kind})
    assert harness.error(answer, 415)["code"] == "UnsupportedType"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"url": 7}', b'{"url": "x", "more": 1}', b" " * 70_000]
)
async def test_json_that_is_no_order_is_refused(place: harness.Place, body: bytes) -> None:
    """Whatever is wrong with it."""
    kind = {"Content-Type": "application/json"}
    answer = await place.session.post("/v1/read", content=body, headers=kind)
    harness.error(answer, 413 if len(body) > request_body.MAX_JSON else 400)


async def test_a_document_that_is_too_large_is_not_even_taken_in(place: harness.Place) -> None:
    """Its length alone is enough to refuse it."""
    said = harness.error(await place.read(b"x" * (harness.MAX_BYTES + 1)), 413)
    assert said["code"] == "FileTooLarge"
    assert str(harness.MAX_BYTES) in said["message"]


async def test_a_body_that_never_ends_is_cut_off(
    place: harness.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets an answer while it is still being sent; a little later the line is closed."""
    monkeypatch.setattr(errors, "LINGER_SECONDS", 0.2)
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
    place: harness.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place is for others."""
    monkeypatch.setattr(request_body, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(errors, "LINGER_SECONDS", 0.2)
    reader, writer = await _begun(place, b"Content-Length: 1000")
    writer.write(b"the beginning")
    async with asyncio.timeout(10):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert b"408" in head.splitlines()[0]
    assert json.loads(body)["error"]["code"] == "TooSlow"


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
async def test_a_url_that_is_not_of_our_store_is_refused(place: harness.Place, url: str) -> None:
    """Nothing is asked of anybody else."""
    answer = await place.session.post("/v1/read", json={"url": url})
    assert harness.error(answer, 400)["code"] == "UrlRefused"


async def test_urls_of_our_store_are_taken() -> None:
    """Whatever the case of the host, and with the port that is usual."""
    async with request_body.Links(["https://files.example/open/"]) as ours:
        for url in (
            "https://files.example/open/a/b.pdf?expires=1&signature=../x",
            "https://FILES.example:443/open/a%20b.pdf",
        ):
            assert str(ours.require_ours(url).host) == "files.example"
    async with request_body.Links([]) as none:
        with pytest.raises(errors.Refused):
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
    plan = config.of_settings(own, engine="null")
    async with files.open_store(own) as store, request_body.Links(plan.stores) as ours:
        url = await store.signed_url("case/Über alles..pdf", 60)
        assert url is not None
        ours.require_ours(url)
        with pytest.raises(errors.Refused):
            ours.require_ours(url.replace("/open/", "/").replace("/bucket/", "/other/"))


async def test_a_file_of_our_own_store_is_fetched(place: harness.Place) -> None:
    """The URL and everything else come as JSON."""
    del place
    async with (
        serving(_store) as store,
        harness.ready(stores=(f"{store}/files",)) as fetching,
        fetching.client() as client,
    ):
        order = harness.order(url=f"{store}/files/scan.tif?signature=x", pages=ranges.parse("2-"))
        assert await harness.pages(client.read_url(order)) == [2, 3]
        with pytest.raises(library_errors.FileNotThere):
            await harness.pages(client.read_url(harness.order(url=f"{store}/files/missing")))
        with pytest.raises(library_errors.StoreAway, match="403"):
            await harness.pages(client.read_url(harness.order(url=f"{store}/files/expired")))
        with pytest.raises(library_errors.FileTooLarge):
            await harness.pages(client.read_url(harness.order(url=f"{store}/files/endless")))
        for elsewhere in ("moved", "../secret", "%2e%2e/secret"):
            with pytest.raises(library_errors.EngineAway, match=r"no URL of our own|leads on"):
                await harness.pages(
                    client.read_url(harness.order(url=f"{store}/files/{elsewhere}"))
                )
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
        for _ in range(harness.MAX_BYTES // 10_000 + 1):
            await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
    body = drawn.numbered(3) if name == "scan.tif" else b""
    await send({"type": "http.response.body", "body": body})


async def _begun(
    place: harness.Place, *headers: bytes
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Begin a request by hand."""
    url = httpx.URL(place.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    key = b"Authorization: Bearer " + harness.KEY.encode()
    head = (b"POST /v1/read HTTP/1.1", b"Host: x", key, *headers)
    writer.write(b"\r\n".join(head) + b"\r\n\r\n")
    return reader, writer
