"""What the relay does not hand on, and what it says then."""

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


PATIENCE_SECONDS = 15
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
    """Whatever else Pagewarden serves is not reached through the relay."""
    answer = await relayed.client.get(path)
    assert (answer.status_code, answer.json()["error"]) == (404, "NOT_FOUND")
    assert relayed.upstream.seen == []


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
async def test_tricks_in_a_path_lead_nowhere(relayed: Relayed, target: str) -> None:
    """Neither out of the functions, nor to another server."""
    status, answer = await _ask(relayed.relay.url, target)
    assert (status, answer["error"]) == (404, "NOT_FOUND")
    assert relayed.upstream.seen == []


async def test_a_path_stays_below_its_function(relayed: Relayed) -> None:
    """What remains of a trick is a plain path of a known function, of Pagewarden itself."""
    for target in (
        "/nonsense/../documents//evil.example.org/1?next=//evil.example.org",
        "http://evil.example.org/documents//evil.example.org/1?next=//evil.example.org",
    ):
        status, _ = await _ask(relayed.relay.url, target)
        assert status == 200
    host = urlsplit(relayed.upstream_url).netloc
    path = "/functions/v1/documents//evil.example.org/1?next=//evil.example.org"
    assert [(seen.target, seen.header("host")) for seen in relayed.upstream.seen] == 2 * [
        (path, host)
    ]


async def test_a_server_that_is_away_is_said_to_be(relayed: Relayed) -> None:
    """With a time to come back; neither the answer nor the log has the address that was asked."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        async with _relaying(url) as (relay, client):
            answer = await client.post(f"/documents/1?{QUERY}", content=b"abc")
    assert (answer.status_code, answer.json()["error"]) == (502, "PAGEWARDEN_AWAY")
    assert int(answer.headers["retry-after"]) > 0
    assert "secret" not in answer.text
    assert url not in answer.text
    assert b"Pagewarden" in relay.log
    assert b"secret" not in relay.log
    assert url.encode() not in relay.log
    assert relayed.upstream.seen == []


async def test_a_server_that_takes_too_long_is_not_waited_for() -> None:
    """Neither when it does not answer, nor when the body of the request never ends."""
    endless = {"Content-Length": "10"}
    left = asyncio.Queue[None]()

    async def ponder(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (await receive())["type"] == "http.request":
            pass
        left.put_nowait(None)

    async with (
        serving.serving(upstreams.Upstream(behaviour=ponder)) as url,
        _relaying(url, PAGEWARDEN_RELAY_SECONDS="0.5") as (relay, client),
    ):
        answer = await client.post("/documents/1", content=b"abc")
        assert (answer.status_code, answer.json()["error"]) == (504, "PAGEWARDEN_SLOW")
        assert int(answer.headers["retry-after"]) > 0
        await asyncio.wait_for(left.get(), PATIENCE_SECONDS)
        status, refusal = await _ask(relay.url, "/documents/1", headers=endless, body=b"first")
        assert (status, refusal["error"]) == (504, "PAGEWARDEN_SLOW")
        await asyncio.wait_for(left.get(), PATIENCE_SECONDS)


async def test_the_time_limit_is_for_the_beginning_of_an_answer_only() -> None:
    """A long answer may take its time."""
    seconds = 0.5

    async def speak_slowly(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await asyncio.sleep(2 * seconds)
        await send({"type": "http.response.body", "body": b"second"})

    async with (
        serving.serving(upstreams.Upstream(behaviour=speak_slowly)) as url,
        _relaying(url, PAGEWARDEN_RELAY_SECONDS=str(seconds)) as (_, client),
    ):
        answer = await client.get("/documents/1")
    assert answer.content == b"firstsecond"


@pytest.mark.parametrize(
    "url", [None, "", "pagewarden", "ftp://example.org", "https://me:very-secret@example.org"]
)
async def test_a_relay_that_is_not_set_up_says_how(url: str | None) -> None:
    """A password in the URL counts as none, since it would show up in messages."""
    async with _relaying(url) as (relay, client):
        answer = await client.get("/documents/1")
    assert (answer.status_code, answer.json()["error"]) == (503, "NOT_CONFIGURED")
    assert "PAGEWARDEN_URL" in answer.json()["hint"]
    assert "very-secret" not in answer.text + relay.log.decode()


async def test_pagewarden_may_live_in_a_folder_of_its_host(relayed: Relayed) -> None:
    """The path of PAGEWARDEN_URL comes first, with or without a stroke at its end."""
    for url in (f"{relayed.upstream_url}/inner", f"{relayed.upstream_url}/inner/"):
        async with _relaying(url) as (_, client):
            await client.get("/documents/1")
    assert {seen.target for seen in relayed.upstream.seen} == {"/inner/functions/v1/documents/1"}


@contextlib.asynccontextmanager
async def _relaying(
    url: str | None, **settings: str
) -> AsyncIterator[tuple[deno.Relay, httpx.AsyncClient]]:
    """Run a relay of its own settings, and a client of it."""
    async with (
        deno.relaying(url, **settings) as relay,
        httpx.AsyncClient(base_url=relay.url, timeout=20) as client,
    ):
        yield relay, client


async def _ask(
    url: str, target: str, *, headers: dict[str, str] | None = None, body: bytes = b""
) -> tuple[int, Any]:
    """Send exactly this, which every client would tidy up before, and read the answer at once."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    lines = {"Host": parts.netloc, "Connection": "close"} | (headers or {})
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    method = "POST" if body else "GET"
    writer.write(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode() + body)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            start = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = re.search(r"content-length: (\d+)", start)
            content = await reader.readexactly(int(length[1]) if length else 0)
    finally:
        writer.close()
        await writer.wait_closed()
    return int(start.split()[1]), json.loads(content or b"null")
