"""An answer that comes line by line, while whoever asked may leave at any time."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import structlog
from starlette.responses import StreamingResponse

from pagewarden import errors
from pagewarden.gpu import protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import Receive, Scope, Send

log = structlog.get_logger(__name__)

# Whoever takes nothing for so long does not keep its place.
STALLED_SECONDS = 120.0


class Answer(StreamingResponse):
    """Begins with its first line: what goes wrong before that is a status of its own."""

    media_type = protocol.MEDIA_TYPE

    def __init__(self, lines: AsyncGenerator[bytes]) -> None:
        self._lines = _with_last_words(_with_pulse(lines))
        super().__init__(self._lines)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until all is sent, or nobody is there any more."""
        del scope
        sending = asyncio.create_task(self.stream_response(send))
        leaving = asyncio.create_task(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        except asyncio.CancelledError:
            # The server stops. Raised on, this would be a page of its log for each document.
            log.warning("cut_off")
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def stream_response(self, send: Send) -> None:
        """Send the lines."""
        begun = False
        async with contextlib.aclosing(self._lines):
            async for line in self._lines:
                if not begun:
                    start = {"status": self.status_code, "headers": self.raw_headers}
                    await send({"type": "http.response.start", **start})
                    begun = True
                async with asyncio.timeout(STALLED_SECONDS):
                    await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _with_pulse(lines: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Say that we are alive whenever nothing else was said for a while."""

    async def next_line() -> bytes | None:
        return await anext(lines, None)

    async with contextlib.aclosing(lines):
        coming = asyncio.create_task(next_line())
        try:
            while True:
                await asyncio.wait({coming}, timeout=protocol.PULSE_SECONDS)
                if not coming.done():
                    yield protocol.PULSE
                    continue
                if (line := coming.result()) is None:
                    return
                coming = asyncio.create_task(next_line())
                yield line
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


async def _with_last_words(lines: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """End with the error, where it is too late for a status."""
    begun = False
    try:
        async with contextlib.aclosing(lines):
            async for line in lines:
                begun = True
                yield line
    except Exception as exc:
        if not begun:
            raise
        if not isinstance(exc, errors.PagewardenError):
            log.exception("unforeseen")
        yield protocol.pack(protocol.Line(error=protocol.fault_of(exc)))
