"""The ASGI app and its routes: about, read, health and metrics."""

from __future__ import annotations

import contextlib
import hmac
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import httpx
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from pydantic import BaseModel

from gpu_service.config import ServiceConfig
from gpu_service.errors import install_handlers
from gpu_service.readers import SelectedReader
from gpu_service.request_body import read_order, save_body, save_chunks
from gpu_service.responses import JsonLinesResponse
from gpu_service.service import METRICS_MEDIA_TYPE, Service, open_service
from pagewarden import errors
from pagewarden.gpu import protocol


def create_app(config: ServiceConfig) -> FastAPI:
    """Create the app; it loads its models when it starts."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_service(config) as service:
            app.state.service = service
            app.state.refusals = service.metrics.refusals
            yield

    app = FastAPI(
        title="Pagewarden GPU service",
        summary="Reads a document, and answers with one line of JSON for each page.",
        lifespan=lifespan,
    )
    app.state.retry_after = config.retry_after
    install_handlers(app)
    app.include_router(reading_routes)
    app.include_router(health_routes)
    return app


# Dependencies.


def _service_of_app(request: Request) -> Service:
    return cast("Service", request.app.state.service)


AppService = Annotated[Service, Depends(_service_of_app)]
"""A parameter of this type gets the service of the app."""


async def require_key(request: Request, service: AppService) -> None:
    """Require the secret key; compared in constant time."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    key = service.config.key.encode()
    matches = hmac.compare_digest(given.strip().encode(errors="replace"), key)
    if scheme.lower() != "bearer" or not matches:
        raise errors.NotSignedIn(
            "only our own services may call this; send the secret key as Authorization: Bearer …"
        )


async def require_ready(service: AppService) -> None:
    """Refuse requests until the models are loaded."""
    service.require_ready()


async def _admit(service: AppService) -> AsyncIterator[contextlib.ExitStack]:
    """Hold a place until the response is sent; what is on the stack is released with it."""
    with contextlib.ExitStack() as admitted:
        admitted.enter_context(service.admission.admit())
        yield admitted


Admitted = Annotated[contextlib.ExitStack, Depends(_admit)]

# Reading.

reading_routes = APIRouter(dependencies=[Depends(require_key), Depends(require_ready)])

_ORDER = protocol.Order.model_json_schema()
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_BODY: dict[str, Any] = {
    "parameters": [
        {"name": name, "in": "query", "schema": schema}
        for name, schema in _ORDER["properties"].items()
        if name != "url"
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/pdf": _BYTES,
            "application/octet-stream": _BYTES,
            "image/*": _BYTES,
            "application/json": {"schema": _ORDER},
        },
    },
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The request is invalid, or names an unknown engine."},
    401: {"description": "The secret key is missing or wrong."},
    404: {"description": "There is no file at that URL."},
    408: {"description": "The body arrived too slowly."},
    413: {"description": "The document is too large."},
    415: {"description": "The type of the body is not supported."},
    422: {"description": "The document cannot be read."},
    503: {"description": "The service is full, or a dependency is down; see Retry-After."},
    504: {"description": "Opening the document took too long."},
}


@reading_routes.get(protocol.ABOUT_PATH, responses={key: _ERRORS[key] for key in (400, 401, 503)})
async def about(
    service: AppService, engine: str | None = None, profile: str | None = None
) -> protocol.About:
    """Return the engine, its version and its profile that a request like this would use."""
    selected = await service.readers.select(engine, profile)
    return protocol.About(
        selected.engine, selected.version, selected.profile, service.config.max_bytes
    )


@reading_routes.post(
    protocol.READ_PATH,
    response_model=None,
    responses={
        200: {
            "description": "A line of JSON for the document, one for each page, and an end.",
            "content": {protocol.MEDIA_TYPE: {}},
        },
        **_ERRORS,
    },
    openapi_extra=_BODY,
)
async def read(request: Request, service: AppService, admitted: Admitted) -> JsonLinesResponse:
    """Read a document: the body itself, or a file of our store whose URL is in JSON."""
    order = await read_order(request)
    url = service.fetcher.require_store_url(order.url) if order.url is not None else None
    selected = await service.readers.select(order.engine, order.profile)
    path = Path(admitted.enter_context(tempfile.TemporaryDirectory(dir=service.folder)), "document")
    if url is not None:
        return JsonLinesResponse(_read_url(service, selected, order, path, url))
    await save_body(request, path, service.config.max_bytes)
    return JsonLinesResponse(_read_file(service, selected, order, path))


async def _read_url(
    service: Service, selected: SelectedReader, order: protocol.Order, path: Path, url: httpx.URL
) -> AsyncGenerator[bytes]:
    """Download the document, then read it; meanwhile the client gets keep-alive lines."""
    await save_chunks(service.fetcher.fetch(url), path, service.config.max_bytes)
    async with contextlib.aclosing(_read_file(service, selected, order, path)) as lines:
        async for line in lines:
            yield line


async def _read_file(
    service: Service, selected: SelectedReader, order: protocol.Order, path: Path
) -> AsyncGenerator[bytes]:
    """Read the document once there is a slot; yield a line for each page."""
    counts: list[int] = []
    pages = 0
    async with service.admission.slot():
        with _measure(service):
            found = selected.reader.read(
                path,
                name=order.name,
                languages=order.languages,
                done=order.pages.others(),
                opened=counts.append,
            )
            async with contextlib.aclosing(found):
                async for page in found:
                    if not pages:
                        yield _first_line(selected, counts[-1])
                    pages += 1
                    service.metrics.pages.labels(page.source).inc()
                    yield protocol.pack(protocol.Line(page=page))
        if not pages:
            yield _first_line(selected, counts[-1])
        yield protocol.pack(protocol.Line(end=protocol.End(pages)))


def _first_line(selected: SelectedReader, page_count: int) -> bytes:
    document = protocol.Document(page_count, selected.engine, selected.version, selected.profile)
    return protocol.pack(protocol.Line(document=document))


@contextlib.contextmanager
def _measure(service: Service) -> Iterator[None]:
    start, end = time.monotonic(), "left"
    try:
        yield
        end = "read"
    except Exception as exc:
        end = type(exc).__name__
        raise
    finally:
        service.metrics.seconds.observe(time.monotonic() - start)
        service.metrics.documents.labels(end).inc()


# Health and metrics: open to every client that reaches the port.

health_routes = APIRouter(tags=["health"])


class HealthStatus(BaseModel):
    """The answer of a healthy service."""

    status: Literal["ok"] = "ok"


@health_routes.get("/healthz", responses={503: {"description": "Restart the service."}})
async def alive(service: AppService) -> HealthStatus:
    """Answer 200 while the process works or still starts."""
    if service.failure is not None:
        raise errors.EngineAway(service.failure)
    return HealthStatus()


@health_routes.get("/readyz", responses={503: {"description": "The models are not loaded."}})
async def ready(service: AppService) -> HealthStatus:
    """Answer 200 once the models are loaded and have read a line."""
    service.require_ready()
    return HealthStatus()


@health_routes.get("/metrics", response_class=Response)
async def metrics(service: AppService) -> Response:
    """Return the metrics in the Prometheus text format."""
    return Response(service.metrics.as_text(), headers={"Content-Type": METRICS_MEDIA_TYPE})
