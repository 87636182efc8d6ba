"""Serve the functions: python -m functions."""

from __future__ import annotations

import uvicorn

from functions import app
from pagewarden import logs, settings

GRACE_SECONDS = 10


def main() -> None:
    """Serve where the settings say, until told to stop."""
    chosen = settings.load()
    logs.configure()
    uvicorn.run(
        app.create_app(),
        host=chosen.listen_host,
        port=chosen.listen_port,
        timeout_graceful_shutdown=GRACE_SECONDS,
        loop="asyncio",  # uvloop cannot start the embedded server under another account
        access_log=False,
        log_level="warning",
    )


if __name__ == "__main__":
    main()
