"""All functions in one ASGI app, each at /functions/v1/<name>."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI

from functions import answers, documents, health, services, upload_to_dropbox
from pagewarden import settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FUNCTIONS = (upload_to_dropbox, documents)
PREFIX = "/functions/v1"


def create_app(used: services.Services | None = None) -> FastAPI:
    """Make the app; without services it opens those of the settings when it starts."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as resources:
            app.state.services = used or await resources.enter_async_context(
                services.opened(settings.load())
            )
            yield

    app = FastAPI(title="Pagewarden", summary="Documents in, their text out.", lifespan=lifespan)
    answers.install(app)
    api = APIRouter(prefix=PREFIX)
    for function in FUNCTIONS:
        api.include_router(function.router)
    app.include_router(api)
    app.include_router(health.router)
    return app
