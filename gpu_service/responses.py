"""Streamed JSON lines with keep-alive lines and a final error; the client may leave at any time."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import structlog
from starlette.responses import StreamingResponse

from pagewarden import errors
from pagewarden.ocr import gpu_protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import Receive, Scope, Send

log = structlog.get_logger(__name__)

# A client that accepts no data for this long loses its slot.
SEND_TIMEOUT_SECONDS = 120.0


class JsonLinesResponse(StreamingResponse):
    """Starts with its first line: an error before that line gets an HTTP status of its own."""

    media_type = gpu_protocol.MEDIA_TYPE

    def __init__(self, lines: AsyncGenerator[bytes]) -> None:
        self._lines = _with_final_error(_with_keep_alive(lines))
        super().__init__(self._lines)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the lines until all are sent or the client disconnects."""
        del scope
        sending = asyncio.create_task(self.stream_response(send))
        disconnect = asyncio.create_task(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait({sending, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        except asyncio.CancelledError:
            # The server shuts down. Raised again, this would log a traceback for each document.
            log.warning("response_aborted")
        finally:
            for task in (sending, disconnect):
                task.cancel()
            await asyncio.gather(sending, disconnect, return_exceptions=True)

    async def stream_response(self, send: Send) -> None:
        """Send the lines."""
        started = False
        async with contextlib.aclosing(self._lines):
            async for line in self._lines:
                if not started:
                    start = {"status": self.status_code, "headers": self.raw_headers}
                    await send({"type": "http.response.start", **start})
                    started = True
                async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
                    await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _with_keep_alive(lines: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Insert an empty line whenever there was no other line for a while."""

    async def next_line() -> bytes | None:
        return await anext(lines, None)

    async with contextlib.aclosing(lines):
        pending = asyncio.create_task(next_line())
        try:
            while True:
                await asyncio.wait({pending}, timeout=gpu_protocol.KEEP_ALIVE_SECONDS)
                if not pending.done():
                    yield gpu_protocol.KEEP_ALIVE
                    continue
                if (line := pending.result()) is None:
                    return
                pending = asyncio.create_task(next_line())
                yield line
        finally:
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)


async def _with_final_error(lines: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Send an error as the last line where it is too late for an HTTP status."""
    started = False
    try:
        async with contextlib.aclosing(lines):
            async for line in lines:
                started = True
                yield line
    except Exception as exc:
        if not started:
            raise
        if not isinstance(exc, errors.PagewardenError):
            log.exception("unexpected_error")
        yield gpu_protocol.pack(gpu_protocol.ResponseLine(error=gpu_protocol.to_fault(exc)))
