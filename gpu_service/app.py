"""The service as an ASGI app."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from fastapi import FastAPI

from gpu_service import health, reading, refusals, service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gpu_service import plans


def create_app(plan: plans.Plan) -> FastAPI:
    """Make the app; it loads its models when it starts."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with service.opened(plan) as app.state.service:
            yield

    app = FastAPI(
        title="Pagewarden GPU service",
        summary="A document in, a line of JSON for each of its pages out.",
        lifespan=lifespan,
    )
    refusals.install(app)
    app.include_router(reading.router)
    app.include_router(health.router)
    return app
