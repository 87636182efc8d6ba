"""Requests that the relay refuses, and the errors it returns."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.relay import upstream as upstreams
from tests.support import deno, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

    from tests.relay.conftest import Relayed


TIMEOUT_SECONDS = 15
QUERY = "token=very-secret"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/nonsense",
        "/functions/v1",
        "/functions/v1/",
        "/functions/v1/nonsense",
        "/functions/v1/relay",
        "/functions/v1/DOCUMENTS",
        "/functions/v1/documents.evil",
        "/functions/v2/documents",
        "/constructor",
        "/auth/v1/token",
        "/readyz",
    ],
)
async def test_unknown_names_are_refused(relayed: Relayed, path: str) -> None:
    """Other routes of Pagewarden cannot be reached through the relay."""
    response = await relayed.client.get(path)
    assert (response.status_code, response.json()["error"]) == (404, "NOT_FOUND")
    assert relayed.upstream.requests == []


@pytest.mark.parametrize(
    "target",
    [
        "/documents/../readyz",
        "/documents/%2e%2e/readyz",
        "/documents/.%2E/readyz",
        "/documents\\..\\readyz",
        "/functions/v1/documents/../../../readyz",
        "/functions/v1/../../documents/..",
        "/functions/v1/documents/..%2f..%2f..%2freadyz",
        "/documents/%2E%2E%2Freadyz",
        "/documents%2f..%2f..%2freadyz",
        "/documents/..%5creadyz",
        "/docu%6dents/1",
        "//evil.example.org/documents/1",
        "/\\evil.example.org/documents/1",
        "//documents/1",
        "/%2fdocuments/1",
    ],
)
async def test_path_traversal_is_refused(relayed: Relayed, target: str) -> None:
    """No path leads out of the functions or to another server."""
    status, response = await _ask(relayed.relay.url, target)
    assert (status, response["error"]) == (404, "NOT_FOUND")
    assert relayed.upstream.requests == []


async def test_normalized_path_stays_below_its_function(relayed: Relayed) -> None:
    """Such a path is forwarded to Pagewarden, as a path of a known function."""
    for target in (
        "/nonsense/../documents//evil.example.org/1?next=//evil.example.org",
        "http://evil.example.org/documents//evil.example.org/1?next=//evil.example.org",
    ):
        status, _ = await _ask(relayed.relay.url, target)
        assert status == 200
    host = urlsplit(relayed.upstream_url).netloc
    path = "/functions/v1/documents//evil.example.org/1?next=//evil.example.org"
    received = [(request.target, request.header("host")) for request in relayed.upstream.requests]
    assert received == 2 * [(path, host)]


async def test_unreachable_server_is_reported(relayed: Relayed) -> None:
    """With Retry-After; neither the response nor the log contains the URL."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        async with _run_relay(url) as (relay, client):
            response = await client.post(f"/documents/1?{QUERY}", content=b"abc")
    assert (response.status_code, response.json()["error"]) == (502, "PAGEWARDEN_AWAY")
    assert int(response.headers["retry-after"]) > 0
    assert "secret" not in response.text
    assert url not in response.text
    assert b"Pagewarden" in relay.log
    assert b"secret" not in relay.log
    assert url.encode() not in relay.log
    assert relayed.upstream.requests == []


async def test_slow_server_causes_a_timeout() -> None:
    """Without a response, or while the body of the request never ends."""
    endless = {"Content-Length": "10"}
    disconnects = asyncio.Queue[None]()

    async def never_respond(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (await receive())["type"] == "http.request":
            pass
        disconnects.put_nowait(None)

    async with (
        serving.serve_app(upstreams.Upstream(behaviour=never_respond)) as url,
        _run_relay(url, PAGEWARDEN_RELAY_SECONDS="0.5") as (relay, client),
    ):
        response = await client.post("/documents/1", content=b"abc")
        assert (response.status_code, response.json()["error"]) == (504, "PAGEWARDEN_SLOW")
        assert int(response.headers["retry-after"]) > 0
        await asyncio.wait_for(disconnects.get(), TIMEOUT_SECONDS)
        status, refusal = await _ask(relay.url, "/documents/1", headers=endless, body=b"first")
        assert (status, refusal["error"]) == (504, "PAGEWARDEN_SLOW")
        await asyncio.wait_for(disconnects.get(), TIMEOUT_SECONDS)


async def test_timeout_applies_to_the_start_of_the_response() -> None:
    """Its body may take longer."""
    seconds = 0.5

    async def respond_slowly(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await asyncio.sleep(2 * seconds)
        await send({"type": "http.response.body", "body": b"second"})

    async with (
        serving.serve_app(upstreams.Upstream(behaviour=respond_slowly)) as url,
        _run_relay(url, PAGEWARDEN_RELAY_SECONDS=str(seconds)) as (_, client),
    ):
        response = await client.get("/documents/1")
    assert response.content == b"firstsecond"


@pytest.mark.parametrize(
    "url", [None, "", "pagewarden", "ftp://example.org", "https://me:very-secret@example.org"]
)
async def test_missing_or_invalid_url_of_pagewarden_is_explained(url: str | None) -> None:
    """A URL with a password is invalid, because it would appear in messages."""
    async with _run_relay(url) as (relay, client):
        response = await client.get("/documents/1")
    assert (response.status_code, response.json()["error"]) == (503, "NOT_CONFIGURED")
    assert "PAGEWARDEN_URL" in response.json()["hint"]
    assert "very-secret" not in response.text + relay.log.decode()


async def test_upstream_url_may_have_a_path(relayed: Relayed) -> None:
    """With or without a slash at its end."""
    for url in (f"{relayed.upstream_url}/inner", f"{relayed.upstream_url}/inner/"):
        async with _run_relay(url) as (_, client):
            await client.get("/documents/1")
    assert {request.target for request in relayed.upstream.requests} == {
        "/inner/functions/v1/documents/1"
    }


@contextlib.asynccontextmanager
async def _run_relay(
    url: str | None, **settings: str
) -> AsyncIterator[tuple[deno.Relay, httpx.AsyncClient]]:
    """Run a relay with these settings, and a client for it."""
    async with (
        deno.run_relay(url, **settings) as relay,
        httpx.AsyncClient(base_url=relay.url, timeout=20) as client,
    ):
        yield relay, client


async def _ask(
    url: str, target: str, *, headers: dict[str, str] | None = None, body: bytes = b""
) -> tuple[int, Any]:
    """Send this target, which every client would normalize, and read the response."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    lines = {"Host": parts.netloc, "Connection": "close"} | (headers or {})
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    method = "POST" if body else "GET"
    writer.write(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode() + body)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            start = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = re.search(r"content-length: (\d+)", start)
            content = await reader.readexactly(int(length[1]) if length else 0)
    finally:
        writer.close()
        await writer.wait_closed()
    return int(start.split()[1]), json.loads(content or b"null")
