"""Request bodies and files of our store: what is accepted and what is refused."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import httpx
import pytest

from pagewarden import errors as library_errors
from pagewarden import settings, storage
from pagewarden.gpu_service import errors, request_body
from pagewarden.gpu_service.config import ServiceConfig
from pagewarden.ocr import page_ranges
from tests.gpu_service import harness
from tests.ocr import drawn
from tests.support.serving import serve_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send


@pytest.fixture(scope="module")
async def service() -> AsyncIterator[harness.RunningService]:
    """A service with a file store."""
    async with harness.start_ready_service(store_urls=("http://files.example/open",)) as running:
        yield running
        await running.wait_for_documents(reading=0, waiting=0)


@pytest.mark.parametrize(
    ("params", "hint"),
    [
        ({"pages": ""}, "1-3,7,12-"),
        ({"pages": "3-1"}, "lower number comes first"),
        ({"pages": "one"}, "1-3,7,12-"),
        ({"page": "1"}, "page"),
        ({"name": ""}, "name"),
        ({"name": "x" * 300}, "name"),
        ({"engine": "nope"}, "choose one of rapid"),
        ({"profile": "nope"}, "choose one of fast"),
        ({"url": "http://files.example/open/x"}, "JSON"),
    ],
)
async def test_invalid_read_request_is_refused(
    service: harness.RunningService, params: dict[str, str], hint: str
) -> None:
    """The message says what to send instead."""
    answer = await service.read(drawn.numbered(1), **params)
    assert hint in harness.require_error(answer, 400)["message"]


@pytest.mark.parametrize("kind", ["text/html", "multipart/form-data; boundary=x", "video/mp4"])
async def test_unsupported_media_type_is_refused(
    service: harness.RunningService, kind: str
) -> None:
    """Only types of documents and JSON are accepted."""
    answer = await service.session.post("/v1/read", content=b"x", headers={"Content-Type": kind})
    assert harness.require_error(answer, 415)["code"] == "UnsupportedType"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"url": 7}', b'{"url": "x", "more": 1}', b" " * 70_000]
)
async def test_invalid_json_is_refused(service: harness.RunningService, body: bytes) -> None:
    """So are unknown fields, and JSON that is too large."""
    kind = {"Content-Type": "application/json"}
    answer = await service.session.post("/v1/read", content=body, headers=kind)
    harness.require_error(answer, 413 if len(body) > request_body.MAX_JSON_BYTES else 400)


async def test_too_large_content_length_is_refused(
    service: harness.RunningService,
) -> None:
    """The body is not read."""
    error = harness.require_error(await service.read(b"x" * (harness.MAX_BYTES + 1)), 413)
    assert error["code"] == "FileTooLarge"
    assert str(harness.MAX_BYTES) in error["message"]


async def test_endless_body_is_refused_and_closed(
    service: harness.RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer arrives while the client still sends; then the connection is closed."""
    monkeypatch.setattr(errors, "LINGER_SECONDS", 0.2)
    reader, writer = await _start_request(service, b"Transfer-Encoding: chunked")
    answer = asyncio.create_task(reader.readline())
    sending = asyncio.create_task(_send_endless_body(writer))
    async with asyncio.timeout(10):
        assert b" 413 " in await answer
        with pytest.raises(ConnectionError):
            await sending
    writer.close()


async def _send_endless_body(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
        await writer.drain()


async def test_stalled_body_times_out(
    service: harness.RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place is free again."""
    monkeypatch.setattr(request_body, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(errors, "LINGER_SECONDS", 0.2)
    reader, writer = await _start_request(service, b"Content-Length: 1000")
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
async def test_url_outside_the_store_is_refused(service: harness.RunningService, url: str) -> None:
    """No request is sent to it."""
    answer = await service.session.post("/v1/read", json={"url": url})
    assert harness.require_error(answer, 400)["code"] == "UrlRefused"


async def test_url_in_the_store_is_accepted() -> None:
    """The case of the host and the default port do not matter."""
    async with request_body.StoreFetcher(["https://files.example/open/"]) as fetcher:
        for url in (
            "https://files.example/open/a/b.pdf?expires=1&signature=../x",
            "https://FILES.example:443/open/a%20b.pdf",
        ):
            assert str(fetcher.require_store_url(url).host) == "files.example"
    async with request_body.StoreFetcher([]) as without_store:
        with pytest.raises(errors.RequestRejected):
            without_store.require_store_url("https://files.example/open/a")


@pytest.mark.parametrize(
    "store_settings",
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
async def test_signed_urls_of_our_stores_are_accepted(store_settings: dict[str, str]) -> None:
    """With the same settings on both sides, for any file name."""
    keys = {
        "s3_access_key_id": "id",
        "s3_secret_access_key": "secret",
        "supabase_key": "sb_secret_of_a_test_that_is_long_enough_for_it",
    }
    own = settings.Settings.model_validate({**store_settings, **keys})
    config = ServiceConfig.from_settings(own, engine="null")
    async with (
        storage.open_store(own) as store,
        request_body.StoreFetcher(config.store_urls) as fetcher,
    ):
        url = await store.create_signed_url("case/Über alles..pdf", 60)
        assert url is not None
        fetcher.require_store_url(url)
        with pytest.raises(errors.RequestRejected):
            fetcher.require_store_url(url.replace("/open/", "/").replace("/bucket/", "/other/"))


async def test_file_in_the_store_is_fetched() -> None:
    """Redirects and paths that leave the store are refused."""
    async with (
        serve_app(_store) as store,
        harness.start_ready_service(store_urls=(f"{store}/files",)) as fetching,
        fetching.client() as client,
    ):
        order = harness.make_read_request(
            url=f"{store}/files/scan.tif?signature=x", pages=page_ranges.parse("2-")
        )
        assert await harness.page_numbers(client.read_url(order)) == [2, 3]
        with pytest.raises(library_errors.FileNotFound):
            await harness.page_numbers(
                client.read_url(harness.make_read_request(url=f"{store}/files/missing"))
            )
        with pytest.raises(library_errors.StoreUnavailable, match="403"):
            await harness.page_numbers(
                client.read_url(harness.make_read_request(url=f"{store}/files/expired"))
            )
        with pytest.raises(library_errors.FileTooLarge):
            await harness.page_numbers(
                client.read_url(harness.make_read_request(url=f"{store}/files/endless"))
            )
        for elsewhere in ("moved", "../secret", "%2e%2e/secret"):
            with pytest.raises(
                library_errors.EngineUnavailable, match=r"not point to the configured|redirects"
            ):
                await harness.page_numbers(
                    client.read_url(harness.make_read_request(url=f"{store}/files/{elsewhere}"))
                )
    assert "/secret" not in REQUESTED_PATHS


REQUESTED_PATHS: list[str] = []


async def _store(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a file, a redirect, and a file that is too large."""
    if scope["type"] != "http":
        return
    del receive
    REQUESTED_PATHS.append(scope["path"])
    name = scope["path"].removeprefix("/files/")
    status = {"scan.tif": 200, "endless": 200, "moved": 302, "expired": 403}.get(name, 404)
    headers = [(b"location", b"/secret")] if status == 302 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if name == "endless":
        for _ in range(harness.MAX_BYTES // 10_000 + 1):
            await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
    body = drawn.numbered(3) if name == "scan.tif" else b""
    await send({"type": "http.response.body", "body": body})


async def _start_request(
    service: harness.RunningService, *headers: bytes
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send the head of a request over a raw connection."""
    url = httpx.URL(service.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    key = b"Authorization: Bearer " + harness.KEY.encode()
    head = (b"POST /v1/read HTTP/1.1", b"Host: x", key, *headers)
    writer.write(b"\r\n".join(head) + b"\r\n\r\n")
    return reader, writer
