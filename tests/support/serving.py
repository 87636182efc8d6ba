"""Serve an ASGI application on a real socket of 127.0.0.1."""

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
    """A server that does not handle signals, so that Ctrl-C reaches pytest."""

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()


@contextlib.asynccontextmanager
async def serve_app(app: ASGIApp) -> AsyncIterator[str]:
    """Serve an app in the event loop of the caller; yield its URL, which accepts connections."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        # Connections are queued until the server accepts them.
        listener.listen()
        config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1)
        server = _Server(config)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running
