"""`python -m pagewarden.gpu_service`: serve until SIGINT or SIGTERM."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer
import uvicorn
from pydantic import HttpUrl

from pagewarden import errors
from pagewarden.gpu_service import app
from pagewarden.gpu_service.config import BATCHED, ServiceConfig
from pagewarden.ocr import engines
from pagewarden.settings import GPU_SERVICE_URL
from pagewarden.settings import load as load_settings
from pagewarden.telemetry import logs

# Longer responses are cut off; the next attempt resumes at the page that was reached.
SHUTDOWN_SECONDS = 8
# Longer than the idle timeout of clients and load balancers: if the server closed the connection
# first, a request already on its way would be lost.
KEEP_ALIVE_SECONDS = 75

_ENGINES = ", ".join([BATCHED, *engines.ENGINES])


def main(
    *,
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on. Default: host of PAGEWARDEN_GPU_SERVICE_URL."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            help="Port to listen on; 0 selects a free port. Default: port of the same URL."
        ),
    ] = None,
    engine: Annotated[str | None, typer.Option(help=f"Default engine: {_ENGINES}.")] = None,
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="Number of child processes that open and render documents."),
    ] = None,
) -> None:
    """Run the GPU service, by default at PAGEWARDEN_GPU_SERVICE_URL."""
    logs.configure()
    try:
        settings = load_settings()
        config = ServiceConfig.from_settings(settings, engine=engine, processes=processes)
    except errors.PagewardenError as exc:
        sys.exit(f"gpu_service: {exc}")
    url = settings.gpu_service_url or HttpUrl(GPU_SERVICE_URL)
    server = uvicorn.Config(
        app.create_app(config),
        host=host or url.host or "",
        port=url.port if port is None else port,  # type: ignore[arg-type]  # http has one
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        loop="asyncio",  # whatever else is installed
        access_log=False,
        log_config=None,
        log_level="warning",
    )
    # After its shutdown uvicorn raises the signal again, which would end the process as if killed.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    uvicorn.Server(server).run()


if __name__ == "__main__":
    typer.run(main)
