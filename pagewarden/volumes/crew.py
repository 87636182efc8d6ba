"""Children at work on the pages of one volume, side by side.

A page that kills its child is tried once more in a fresh one, unless it had one; then it is given
up, and costs nothing but itself.
"""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from pagewarden import errors
from pagewarden.reading import engine, lanes, limits, remote
from pagewarden.reading.sandbox import deaths, host, wire
from pagewarden.volumes.children import parcels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    import pydantic

T = TypeVar("T")

# How often a page survives that the sandbox itself is killed.
_LOSSES = 3


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """What is asked of a child: a message and bytes beside it; place names the page in errors.

    The answer is facts of this kind and files beside them, for which fits must be true.
    """

    place: str
    kind: pydantic.TypeAdapter[T]
    fits: Callable[[T, list[bytes]], bool]
    message: wire.Message
    blob: bytes = b""

    def unpack(self, message: wire.Message, blob: bytes) -> tuple[T, list[bytes]]:
        """Take the answer apart."""
        facts, files = parcels.unpack(self.kind, message, blob)
        if not self.fits(facts, files):
            raise wire.Broken("an answer to another question")
        return facts, files


@dataclass(slots=True, eq=False)
class _Member:
    child: host.Child
    life: AbstractAsyncContextManager[host.Child]
    fresh: bool = True


class Crew:
    """So many children of a sandbox, forked when they are needed; leave it with `async with`.

    reader is the engine they read by, where that needs the network and is therefore ours.
    """

    def __init__(
        self,
        sandbox: host.Host,
        width: int,
        *,
        languages: Sequence[str] = (),
        reader: engine.Engine | None = None,
        bounds: limits.Limits | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._places = asyncio.Semaphore(width)
        self._hints = engine.Hints(tuple(languages))
        self._reader = reader
        self._bounds = bounds or limits.Limits()
        self._idle: list[_Member] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        while self._idle:
            await _dismiss(self._idle.pop())

    async def do(self, request: Request[T]) -> tuple[T, list[bytes]]:
        """Have a page done; raises what went wrong."""
        async with self._places:
            fresh, losses = False, 0
            while True:
                member = await self._take(fresh=fresh)
                try:
                    return await self._ask(member, request)
                except host.Died as death:
                    if death.end.lost and losses < _LOSSES:
                        losses += 1
                        continue
                    error = deaths.explain(death, request.place, self._bounds)
                    if member.fresh or isinstance(error, errors.ReadingTimedOut):
                        raise error from death
                    fresh = True

    async def _take(self, *, fresh: bool) -> _Member:
        """Take a child that waits for work, or have a new one."""
        if self._idle and not fresh:
            return self._idle.pop()
        life = self._sandbox.child(self._hints.languages)
        return _Member(await life.__aenter__(), life)

    async def _ask(self, member: _Member, request: Request[T]) -> tuple[T, list[bytes]]:
        """Ask a child; whatever ends without an answer ends the child."""
        try:
            answer = await self._answer(member, request)
        except BaseException:
            await _dismiss(member)
            raise
        self._idle.append(dataclasses.replace(member, fresh=False))
        if isinstance(answer, errors.PagewardenError):
            raise answer
        return answer

    async def _answer(
        self, member: _Member, request: Request[T]
    ) -> tuple[T, list[bytes]] | errors.PagewardenError:
        try:
            message, blob = await self._talk(member, request)
            if "error" in message:
                return wire.unpack_error(message["error"])
            return request.unpack(message, blob)
        except wire.Broken as exc:
            raise host.Died(await member.child.end()) from exc

    async def _talk(self, member: _Member, request: Request[T]) -> tuple[wire.Message, bytes]:
        if member.fresh:
            await self._send(member, self._greeting(member))
        message, blob = await self._send(member, request.message, request.blob)
        if "image" in message and self._reader is not None:
            answer = await self._recognise(self._reader, message, blob)
            message, blob = await self._send(member, answer)
        return message, blob

    async def _recognise(
        self, reader: engine.Engine, message: wire.Message, pixels: bytes
    ) -> wire.Message:
        try:
            return await remote.recognise(reader, message["image"], pixels, self._hints)
        except lanes.PAGE_ERRORS as exc:
            return {"error": wire.pack_error(exc)}

    def _greeting(self, member: _Member) -> wire.Message:
        return {
            "folder": str(member.child.folder),
            "limits": dataclasses.asdict(self._bounds),
            "engine": self._reader.name if self._reader else None,
        }

    async def _send(
        self, member: _Member, message: wire.Message, blob: bytes = b""
    ) -> tuple[wire.Message, bytes]:
        seconds = self._bounds.page_seconds
        return await member.child.ask(message, blob, seconds=seconds, max_blob=parcels.MAX_BYTES)


async def _dismiss(member: _Member) -> None:
    await member.life.__aexit__(None, None, None)
