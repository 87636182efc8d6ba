"""The relay streams bodies in both directions."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from tests.relay import upstream as upstreams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

    from tests.relay.conftest import Relayed


TIMEOUT_SECONDS = 15
BLOCK = bytes(range(256)) * 4096  # 1 MB
BLOCKS = 96
MAX_KILOBYTES = 40_000


async def test_request_body_is_streamed(relayed: Relayed) -> None:
    """The second chunk is sent only after the first one has arrived."""
    arrived: list[bytes] = []
    first_arrived = asyncio.Event()

    async def record(_scope: Scope, receive: Receive, send: Send) -> None:
        async for chunk in upstreams.chunks(receive):
            arrived.append(chunk)
            first_arrived.set()
        await _respond(send, b"".join(arrived))

    async def chunks() -> AsyncIterator[bytes]:
        yield b"first"
        await first_arrived.wait()
        yield b"second"

    relayed.upstream.behaviour = record
    async with asyncio.timeout(TIMEOUT_SECONDS):
        response = await relayed.client.post("/upload-to-dropbox", content=chunks())
    assert response.content == b"firstsecond"
    assert arrived == [b"first", b"second"]


async def test_response_body_is_streamed(relayed: Relayed) -> None:
    """The second chunk is sent only after the first one has arrived."""
    first_arrived = asyncio.Event()

    async def respond(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await first_arrived.wait()
        await send({"type": "http.response.body", "body": b"second"})

    relayed.upstream.behaviour = respond
    arrived = []
    async with (
        asyncio.timeout(TIMEOUT_SECONDS),
        relayed.client.stream("GET", "/documents/1") as response,
    ):
        async for chunk in response.aiter_raw():
            arrived.append(chunk)
            first_arrived.set()
    assert arrived == [b"first", b"second"]


async def test_large_file_needs_little_memory(relayed: Relayed) -> None:
    """Streaming about 100 MB in both directions needs less than 40 MB."""

    async def echo(_scope: Scope, receive: Receive, send: Send) -> None:
        digest = hashlib.sha256()
        async for chunk in upstreams.chunks(receive):
            digest.update(chunk)
        headers = [(b"x-digest", digest.hexdigest().encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for _ in range(BLOCKS):
            await send({"type": "http.response.body", "body": BLOCK, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def blocks() -> AsyncIterator[bytes]:
        for _ in range(BLOCKS):
            yield BLOCK

    relayed.upstream.behaviour = echo
    before = _peak_kilobytes(relayed.relay.pid)
    received = hashlib.sha256()
    async with relayed.client.stream("POST", "/upload-to-dropbox", content=blocks()) as response:
        async for chunk in response.aiter_raw():
            received.update(chunk)
    whole = hashlib.sha256(BLOCK * BLOCKS).hexdigest()
    assert (response.headers["x-digest"], received.hexdigest()) == (whole, whole)
    assert _peak_kilobytes(relayed.relay.pid) - before < MAX_KILOBYTES


async def test_disconnect_during_the_request_cancels_it(relayed: Relayed) -> None:
    """Pagewarden notices it immediately."""
    arrived, left = asyncio.Event(), asyncio.Event()

    async def wait(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (await receive())["type"] == "http.request":
            arrived.set()
        left.set()

    async def endless() -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.Event().wait()

    relayed.upstream.behaviour = wait
    sending = asyncio.create_task(relayed.client.post("/upload-to-dropbox", content=endless()))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await arrived.wait()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await left.wait()


async def test_disconnect_before_the_response_cancels_the_request(relayed: Relayed) -> None:
    """Pagewarden can stop working on it."""
    arrived, left = asyncio.Event(), asyncio.Event()

    async def wait(_scope: Scope, receive: Receive, _send: Send) -> None:
        arrived.set()
        while (await receive())["type"] == "http.request":
            pass
        left.set()

    relayed.upstream.behaviour = wait
    asking = asyncio.create_task(relayed.client.get("/documents/1"))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await arrived.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await left.wait()


async def test_disconnect_during_the_response_cancels_it(relayed: Relayed) -> None:
    """Pagewarden sends nothing more."""
    left = asyncio.Event()

    async def respond(_scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        while (await receive())["type"] == "http.request":
            pass
        left.set()

    relayed.upstream.behaviour = respond
    async with asyncio.timeout(TIMEOUT_SECONDS):
        async with relayed.client.stream("GET", "/documents/1") as response:
            assert await anext(response.aiter_raw()) == b"first"
        await left.wait()


async def _respond(send: Send, body: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def _peak_kilobytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1])
