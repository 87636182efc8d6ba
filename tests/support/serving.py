"""An ASGI application behind a real socket of 127.0.0.1, for as long as a test needs it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp


class _Server(uvicorn.Server):
    """A server that leaves Ctrl-C to pytest."""

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()


@contextlib.asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[str]:
    """Serve in the loop of the caller; the address is free to use at once."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        # Connections wait here until the server accepts them.
        listener.listen()
        config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1)
        server = _Server(config)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running
