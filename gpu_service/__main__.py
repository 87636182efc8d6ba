"""python -m gpu_service: serve until it is told to stop."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer
import uvicorn
from pydantic import HttpUrl

from gpu_service import app, config
from pagewarden import errors, logs, settings
from pagewarden.reading import engines

# Documents that take longer are cut off, and resume where they are.
GRACE_SECONDS = 8
# Longer than clients and balancers keep a connection: who closes first must not be us, or a request
# that is just on its way is lost.
KEEP_ALIVE_SECONDS = 75

_ENGINES = ", ".join([config.BATCHED, *engines.ENGINES])


def main(
    *,
    host: Annotated[str | None, typer.Option(help="Where to listen. Default: as clients.")] = None,
    port: Annotated[int | None, typer.Option(help="The port of that; 0 takes a free one.")] = None,
    engine: Annotated[str | None, typer.Option(help=f"What reads: {_ENGINES}.")] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes that open documents.")
    ] = None,
) -> None:
    """Read documents for others, by default at PAGEWARDEN_GPU_SERVICE_URL."""
    logs.configure()
    try:
        chosen = settings.load()
        plan = config.of_settings(chosen, engine=engine, processes=processes)
    except errors.PagewardenError as exc:
        sys.exit(f"gpu_service: {exc}")
    place = chosen.gpu_service_url or HttpUrl(settings.GPU_SERVICE_URL)
    server = uvicorn.Config(
        app.create_app(plan),
        host=host or place.host or "",
        port=place.port if port is None else port,  # type: ignore[arg-type]  # http has one
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        loop="asyncio",  # whatever else is installed
        access_log=False,
        log_config=None,
        log_level="warning",
    )
    # uvicorn repeats the signal it was stopped by, once it has; that would end us as if killed.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    uvicorn.Server(server).run()


if __name__ == "__main__":
    typer.run(main)
