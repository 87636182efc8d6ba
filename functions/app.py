"""All functions in one ASGI app, each at /functions/v1/<name>, and the dashboard at /."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI

from dashboard import app as dashboard
from functions import (
    alerts,
    answers,
    dashboard_parts,
    documents,
    files,
    guarding,
    health,
    jobs,
    metrics,
    observing,
    ocr_universal,
    ocr_worker,
    pdf_extract,
    pdf_worker,
    pictures,
    pubsub,
    retention,
    services,
    stale_monitor,
    standing,
    upload_to_dropbox,
    volume_orchestrator,
    webhooks,
)
from pagewarden import settings
from pagewarden.local.sign_in import routes as sign_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FUNCTIONS = (
    upload_to_dropbox,
    documents,
    jobs,
    ocr_worker,
    pdf_worker,
    ocr_universal,
    pdf_extract,
    pubsub,
    alerts,
    retention,
    stale_monitor,
    volume_orchestrator,
    webhooks,
)
PREFIX = "/functions/v1"


def create_app(used: services.Services | None = None) -> FastAPI:
    """Make the app; without services it opens those of the settings when it starts.

    While it runs, app.state.stop() has documents given back that are being read: a server that
    is about to stop waits for the answers first.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as resources:
            app.state.services = used or await resources.enter_async_context(
                services.opened(settings.load())
            )
            app.state.standing = standing.Standing(app.state.services.database)
            app.state.stop = functools.partial(
                asyncio.get_running_loop().call_soon_threadsafe, app.state.services.stopping.set
            )
            if app.state.services.sign_in is not None:
                app.include_router(sign_in.router(app.state.services.sign_in))
            app.state.pictures = await resources.enter_async_context(
                pictures.opened(app.state.services)
            )
            app.state.dashboard = await resources.enter_async_context(
                dashboard_parts.opened(app.state.services)
            )
            yield

    app = FastAPI(title="Pagewarden", summary="Documents in, their text out.", lifespan=lifespan)
    app.add_middleware(guarding.Guarding)
    answers.install(app)
    app.add_middleware(observing.Observed)
    app.router.routes.extend(_router().routes)
    return app


@functools.cache
def _router() -> APIRouter:
    """Collect all routes, once in a process: FastAPI takes a tenth of a second to analyse them."""
    router = APIRouter()
    api = APIRouter(prefix=PREFIX)
    for function in FUNCTIONS:
        api.include_router(function.router)
    router.include_router(api)
    for function in (jobs, pubsub):  # also where checkers have always been asked
        router.include_router(function.router, include_in_schema=False)
    router.include_router(files.router)
    router.include_router(pictures.router)
    router.include_router(health.router)
    router.include_router(metrics.router)
    router.include_router(dashboard.router())
    return router
