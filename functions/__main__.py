"""Serve the functions: python -m functions."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import uvicorn

from functions import app
from pagewarden import settings
from pagewarden.telemetry import logs, tracing

if TYPE_CHECKING:
    from types import FrameType

    from fastapi import FastAPI

GRACE_SECONDS = 10
# Longer than clients and balancers keep a connection: who closes first must not be us, or a request
# that is just on its way is lost.
KEEP_ALIVE_SECONDS = 75


class _Server(uvicorn.Server):
    """Waits for answers when it is told to stop, and sees that they come soon."""

    def __init__(self, served: FastAPI, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._served = served

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop, and tell whoever is reading documents."""
        super().handle_exit(sig, frame)
        if self.started:
            self._served.state.stop()


def main() -> None:
    """Serve where the settings say, until told to stop."""
    logs.configure()
    chosen = settings.load()
    served = app.create_app()
    config = uvicorn.Config(
        served,
        host=chosen.listen_host,
        port=chosen.listen_port,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        loop="asyncio",  # uvloop cannot start the embedded server under another account
        access_log=False,
        log_config=None,
        log_level="warning",
    )
    server = _Server(served, config)
    # uvicorn repeats the signal it was stopped by, once it has; there may be traces left to send.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    with tracing.send_spans("functions", chosen.otlp_endpoint):
        server.run()
    if not server.started:
        sys.exit(3)


if __name__ == "__main__":
    main()
