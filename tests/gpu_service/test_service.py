"""Readiness, and room: some documents are read, a few wait, others are sent away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

from gpu_service import readers, service
from pagewarden import errors
from tests.gpu_service import harness
from tests.reading import drawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[harness.Place]:
    """A service for one document, with a waiting room for one more."""
    async with harness.ready(documents=1, waiting=1, retry_after=1) as opened:
        yield opened


async def test_a_full_service_sends_others_away(place: harness.Place) -> None:
    """With 503, and when to come again; no body is taken in."""
    async with harness.sleeping(place):
        await place.inside(reading=1, waiting=0)
        async with harness.sleeping(place):
            await place.inside(reading=1, waiting=1)
            before = await harness.refused(place)
            answer = await place.read(b"x" * 400_000)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert harness.lines(answer)[0]["error"]["code"] == "Busy"
            assert await harness.refused(place) == before + 1
    await place.inside(reading=0, waiting=0)


async def test_whoever_waits_is_read_when_another_one_leaves(place: harness.Place) -> None:
    """A client that leaves in the middle of a page frees its place at once."""
    async with harness.sleeping(place):
        await place.inside(reading=1, waiting=0)
        waiting = asyncio.create_task(place.read(drawn.numbered(2)))
        await place.inside(reading=1, waiting=1)
    assert len(harness.lines(await waiting)) == 4


async def test_whoever_leaves_the_waiting_room_makes_room(place: harness.Place) -> None:
    """Nobody has been told anything yet at that time."""
    async with harness.sleeping(place):
        await place.inside(reading=1, waiting=0)
        async with harness.sleeping(place):
            await place.inside(reading=1, waiting=1)
        await place.inside(reading=1, waiting=0)


async def test_whoever_leaves_while_sending_makes_room(place: harness.Place) -> None:
    """Half a document is as if there had been none."""
    url = httpx.URL(place.url)
    _, writer = await asyncio.open_connection(url.host, url.port)
    key = f"Authorization: Bearer {harness.KEY}\r\n"
    head = f"POST /v1/read HTTP/1.1\r\nHost: x\r\n{key}Content-Length: 1000\r\n\r\n"
    writer.write(head.encode() + b"the beginning")
    await place.inside(reading=0, waiting=1)
    writer.close()
    await place.inside(reading=0, waiting=0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"engine": "fake-unloadable"}, "the models are missing; install them"),
        ({"engine": "null", "test_line": True}, "was read as ''"),
    ],
)
async def test_a_service_that_cannot_read_is_to_be_started_again(
    changes: dict[str, object], reason: str
) -> None:
    """It says why; whoever sends it a document takes it for away."""
    async with harness.opened(**changes) as place, place.client() as client:
        with pytest.raises(errors.EngineAway, match=reason):
            await client.about()
        for path in ("/healthz", "/readyz"):
            answer = await place.session.get(path)
            assert answer.status_code == 503
            assert reason in answer.text


async def test_a_service_that_failed_once_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lane would stay paused until a person starts it again."""
    prove, failures = readers.Readers.prove, [errors.ReaderKilled("the process died")]

    async def prove_later(made: readers.Readers) -> None:
        if failures:
            raise failures.pop()
        await prove(made)

    monkeypatch.setattr(readers.Readers, "prove", prove_later)
    monkeypatch.setattr(service, "PROVE_PAUSES", (0.0,))
    async with harness.opened() as place:
        await harness.is_ready(place.session)
        assert (await place.session.get("/healthz")).status_code == 200
    assert failures == []
