"""A line between client and server that breaks."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass(slots=True)
class Line:
    """Passes on connections; as often as it is told, it cuts one after so many bytes."""

    target: str
    cuts: int = 0
    after: int = 1000
    url: str = ""
    broken: int = 0

    async def pass_on(self, near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        """Connect to the server, and carry bytes both ways."""
        place = urlsplit(self.target)
        far_in, far_out = await asyncio.open_connection(place.hostname, place.port)
        try:
            with contextlib.suppress(ConnectionError):
                async with asyncio.TaskGroup() as group:
                    group.create_task(_copy(far_in, near_out))
                    await self._send(near_in, far_out)
                    far_out.write_eof()
        finally:
            for writer in (near_out, far_out):
                writer.transport.abort()

    async def _send(self, near_in: asyncio.StreamReader, far_out: asyncio.StreamWriter) -> None:
        sent = 0
        while data := await near_in.read(65536):
            far_out.write(data)
            await far_out.drain()
            sent += len(data)
            if self.broken < self.cuts and sent > self.after:
                self.broken += 1
                raise ConnectionError


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        target.write(data)
        await target.drain()
    target.close()


@contextlib.asynccontextmanager
async def line(target: str, *, cuts: int, after: int = 1000) -> AsyncIterator[Line]:
    """Have a line to a server."""
    made = Line(target, cuts, after)
    server = await asyncio.start_server(made.pass_on, "127.0.0.1", 0)
    async with server:
        made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield made
