"""ASGI app with all functions, each at /functions/v1/<name>, and the dashboard at /."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Depends, FastAPI

from pagewarden import settings
from pagewarden.auth.embedded import routes
from pagewarden.auth.embedded.service import AuthService
from pagewarden.dashboard import app as dashboard
from pagewarden.functions import (
    alerts,
    documents,
    jobs,
    ocr_universal,
    ocr_worker,
    pdf_extract,
    pdf_worker,
    pool_manager,
    pubsub,
    retention,
    stale_monitor,
    upload_to_dropbox,
    volume_orchestrator,
    webhooks,
)
from pagewarden.functions.http import (
    authentication,
    downloads,
    errors,
    middleware,
    monitoring,
    openapi,
)
from pagewarden.services import Services, open_services

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
    pool_manager,
    retention,
    stale_monitor,
    volume_orchestrator,
    webhooks,
)
PREFIX = "/functions/v1"
ROOT_FUNCTIONS = (jobs, pubsub)
"""Functions whose address is below /, as the clients of the checker call them."""


class Application(FastAPI):
    """A FastAPI app with a complete OpenAPI document."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, which is made once."""
        if self.openapi_schema is None:
            names = [function.NAME for function in ROOT_FUNCTIONS]
            openapi.complete(super().openapi(), root_functions=names, prefix=PREFIX)
        return super().openapi()


def create_app(services: Services | None = None) -> FastAPI:
    """Create the app; without `services`, it opens them from the settings at startup.

    While the app runs, app.state.stop() makes handlers release the documents they are reading, so
    that the server can shut down soon.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as resources:
            current = services
            if current is None:
                current = await resources.enter_async_context(open_services(settings.load()))
            app.state.services = current
            app.state.database_metrics = monitoring.DatabaseMetrics(current.database)
            app.state.stop = functools.partial(
                asyncio.get_running_loop().call_soon_threadsafe, current.stopping.set
            )
            if isinstance(current.sign_in, AuthService):
                app.include_router(routes.make_router(current.sign_in))
            yield

    app = Application(
        title="Pagewarden", summary="Document OCR: upload files, get text.", lifespan=lifespan
    )
    app.state.rate_limiter = authentication.RateLimiter()
    app.state.event_slots = {}
    app.state.function_locks = collections.defaultdict(asyncio.Lock)
    app.state.menu = dashboard.MENU
    app.add_middleware(middleware.SecurityHeadersMiddleware)
    errors.install_handlers(app)
    app.add_middleware(middleware.RequestLogMiddleware)
    app.router.routes.extend(_collect_routes().routes)
    return app


@functools.cache
def _collect_routes() -> APIRouter:
    """Collect all routes, once per process: FastAPI takes 0.1 s to analyse them."""
    router = APIRouter(dependencies=[Depends(middleware.bind_units)])
    for function in ROOT_FUNCTIONS:
        router.include_router(function.router)
    api = APIRouter(prefix=PREFIX)
    for function in FUNCTIONS:
        api.include_router(function.router, include_in_schema=function not in ROOT_FUNCTIONS)
    router.include_router(api)
    router.include_router(downloads.router)
    router.include_router(downloads.page_images_router)
    router.include_router(monitoring.router)
    router.include_router(monitoring.metrics_router)
    router.include_router(dashboard.make_router())
    return router
