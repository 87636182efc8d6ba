"""Serve the functions: python -m pagewarden.functions."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import uvicorn

from pagewarden import settings
from pagewarden.functions import app
from pagewarden.telemetry import logs, tracing

if TYPE_CHECKING:
    from types import FrameType

    from fastapi import FastAPI

GRACE_SECONDS = 10
# Longer than the keep-alive of clients and load balancers: if the server closed an idle connection
# first, a request already on its way would be lost.
KEEP_ALIVE_SECONDS = 75


class _Server(uvicorn.Server):
    """Shuts down gracefully: handlers release their documents, so requests finish soon."""

    def __init__(self, app: FastAPI, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop the server, and the handlers that read documents."""
        super().handle_exit(sig, frame)
        if self.started:
            self._app.state.stop()


def main() -> None:
    """Serve on the configured address until SIGINT or SIGTERM."""
    logs.configure()
    configured = settings.load()
    functions_app = app.create_app()
    config = uvicorn.Config(
        functions_app,
        host=configured.listen_host,
        port=configured.listen_port,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        loop="asyncio",  # uvloop cannot start the embedded server under another account
        access_log=False,
        log_config=None,
        log_level="warning",
    )
    server = _Server(functions_app, config)
    # After stopping, uvicorn raises the signal again; ignore it, as traces may remain to be sent.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    with tracing.send_spans("functions", configured.otlp_endpoint):
        server.run()
    if not server.started:
        sys.exit(3)


if __name__ == "__main__":
    main()
