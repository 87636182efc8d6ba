"""The relay passes bodies on as they come, and holds nothing back."""

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


PATIENCE_SECONDS = 15
BLOCK = bytes(range(256)) * 4096  # 1 MB
BLOCKS = 96
SPARE_KILOBYTES = 40_000


async def test_a_request_is_passed_on_while_it_comes(relayed: Relayed) -> None:
    """The second piece is sent only after the first was seen on the other side."""
    arrived: list[bytes] = []
    first_is_there = asyncio.Event()

    async def remember(_scope: Scope, receive: Receive, send: Send) -> None:
        async for chunk in upstreams.chunks(receive):
            arrived.append(chunk)
            first_is_there.set()
        await _answer(send, b"".join(arrived))

    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        await first_is_there.wait()
        yield b"second"

    relayed.upstream.behaviour = remember
    async with asyncio.timeout(PATIENCE_SECONDS):
        answer = await relayed.client.post("/upload-to-dropbox", content=pieces())
    assert answer.content == b"firstsecond"
    assert arrived == [b"first", b"second"]


async def test_an_answer_is_passed_on_while_it_comes(relayed: Relayed) -> None:
    """The second piece is sent only after the first was seen on the other side."""
    first_is_there = asyncio.Event()

    async def speak(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await first_is_there.wait()
        await send({"type": "http.response.body", "body": b"second"})

    relayed.upstream.behaviour = speak
    arrived = []
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        relayed.client.stream("GET", "/documents/1") as answer,
    ):
        async for chunk in answer.aiter_raw():
            arrived.append(chunk)
            first_is_there.set()
    assert arrived == [b"first", b"second"]


async def test_a_large_file_takes_no_memory(relayed: Relayed) -> None:
    """A hundred megabytes up and down again cost a few."""

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
    async with relayed.client.stream("POST", "/upload-to-dropbox", content=blocks()) as answer:
        async for chunk in answer.aiter_raw():
            received.update(chunk)
    whole = hashlib.sha256(BLOCK * BLOCKS).hexdigest()
    assert (answer.headers["x-digest"], received.hexdigest()) == (whole, whole)
    assert _peak_kilobytes(relayed.relay.pid) - before < SPARE_KILOBYTES


async def test_whoever_leaves_in_the_middle_of_a_request_ends_it(relayed: Relayed) -> None:
    """Pagewarden learns it at once, and can throw away what has come."""
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
    async with asyncio.timeout(PATIENCE_SECONDS):
        await arrived.wait()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await left.wait()


async def test_whoever_leaves_before_the_answer_ends_the_request(relayed: Relayed) -> None:
    """What nobody waits for is not worked on."""
    arrived, left = asyncio.Event(), asyncio.Event()

    async def wait(_scope: Scope, receive: Receive, _send: Send) -> None:
        arrived.set()
        while (await receive())["type"] == "http.request":
            pass
        left.set()

    relayed.upstream.behaviour = wait
    asking = asyncio.create_task(relayed.client.get("/documents/1"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await arrived.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await left.wait()


async def test_whoever_leaves_in_the_middle_of_an_answer_ends_it(relayed: Relayed) -> None:
    """Nothing more is fetched for somebody who is gone."""
    left = asyncio.Event()

    async def speak(_scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        while (await receive())["type"] == "http.request":
            pass
        left.set()

    relayed.upstream.behaviour = speak
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with relayed.client.stream("GET", "/documents/1") as answer:
            assert await anext(answer.aiter_raw()) == b"first"
        await left.wait()


async def _answer(send: Send, body: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def _peak_kilobytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1])
