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

from pagewarden import errors
from pagewarden.gpu_service.config import ServiceConfig
from pagewarden.gpu_service.errors import install_handlers
from pagewarden.gpu_service.readers import SelectedReader
from pagewarden.gpu_service.request_body import parse_read_request, save_body, save_chunks
from pagewarden.gpu_service.responses import JsonLinesResponse
from pagewarden.gpu_service.service import METRICS_MEDIA_TYPE, Service, open_service
from pagewarden.ocr import gpu_protocol


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
        summary="Reads a document and streams one JSON line per page.",
        lifespan=lifespan,
    )
    app.state.retry_after = config.retry_after
    install_handlers(app)
    app.include_router(reading_routes)
    app.include_router(health_routes)
    return app


# Dependencies.


def _get_service(request: Request) -> Service:
    return cast("Service", request.app.state.service)


AppService = Annotated[Service, Depends(_get_service)]
"""Route parameter type: the app's service."""


async def require_key(request: Request, service: AppService) -> None:
    """Require the secret key; it is compared in constant time."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    key = service.config.key.encode()
    matches = hmac.compare_digest(credentials.strip().encode(errors="replace"), key)
    if scheme.lower() != "bearer" or not matches:
        raise errors.NotSignedIn(
            "authentication required; send the secret key as Authorization: Bearer …"
        )


async def require_ready(service: AppService) -> None:
    """Refuse requests until the models are loaded."""
    service.require_ready()


async def _admit(service: AppService) -> AsyncIterator[contextlib.ExitStack]:
    """Admit the document until its response is sent; then release what is on the stack."""
    with contextlib.ExitStack() as admitted:
        admitted.enter_context(service.admission.admit())
        yield admitted


Admitted = Annotated[contextlib.ExitStack, Depends(_admit)]

# Reading.

reading_routes = APIRouter(dependencies=[Depends(require_key), Depends(require_ready)])

_SCHEMA = gpu_protocol.ReadRequest.model_json_schema()
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_BODY: dict[str, Any] = {
    "parameters": [
        {"name": name, "in": "query", "schema": schema}
        for name, schema in _SCHEMA["properties"].items()
        if name != "url"
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/pdf": _BYTES,
            "application/octet-stream": _BYTES,
            "image/*": _BYTES,
            "application/json": {"schema": _SCHEMA},
        },
    },
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The request is invalid, or specifies an unknown engine."},
    401: {"description": "The secret key is missing or incorrect."},
    404: {"description": "There is no file at that URL."},
    408: {"description": "The request body was sent too slowly."},
    413: {"description": "The document is too large."},
    415: {"description": "The media type of the request body is not supported."},
    422: {"description": "The document cannot be read."},
    503: {
        "description": (
            "The service is at capacity, or a dependency is unavailable; see Retry-After."
        )
    },
    504: {"description": "Opening the document took too long."},
}


@reading_routes.get(
    gpu_protocol.ABOUT_PATH, responses={key: _ERRORS[key] for key in (400, 401, 503)}
)
async def about(
    service: AppService, engine: str | None = None, profile: str | None = None
) -> gpu_protocol.ServiceInfo:
    """Return the engine, its version and its profile that a request like this would use."""
    selected = await service.readers.select(engine, profile)
    return gpu_protocol.ServiceInfo(
        selected.engine, selected.version, selected.profile, service.config.max_bytes
    )


@reading_routes.post(
    gpu_protocol.READ_PATH,
    response_model=None,
    responses={
        200: {
            "description": (
                "JSON Lines: one line for the document, one per page, and an end marker."
            ),
            "content": {gpu_protocol.MEDIA_TYPE: {}},
        },
        **_ERRORS,
    },
    openapi_extra=_BODY,
)
async def read(request: Request, service: AppService, resources: Admitted) -> JsonLinesResponse:
    """Read a document: the body itself, or a file of our store whose URL is in JSON."""
    read_request = await parse_read_request(request)
    url = (
        service.fetcher.require_store_url(read_request.url)
        if read_request.url is not None
        else None
    )
    selected = await service.readers.select(read_request.engine, read_request.profile)
    path = Path(
        resources.enter_context(tempfile.TemporaryDirectory(dir=service.folder)), "document"
    )
    if url is not None:
        return JsonLinesResponse(_read_url(service, selected, read_request, path, url))
    await save_body(request, path, service.config.max_bytes)
    return JsonLinesResponse(_read_file(service, selected, read_request, path))


async def _read_url(
    service: Service,
    selected: SelectedReader,
    read_request: gpu_protocol.ReadRequest,
    path: Path,
    url: httpx.URL,
) -> AsyncGenerator[bytes]:
    """Download the document, then read it; meanwhile the client gets keep-alive lines."""
    await save_chunks(service.fetcher.fetch(url), path, service.config.max_bytes)
    async with contextlib.aclosing(_read_file(service, selected, read_request, path)) as lines:
        async for line in lines:
            yield line


async def _read_file(
    service: Service, selected: SelectedReader, read_request: gpu_protocol.ReadRequest, path: Path
) -> AsyncGenerator[bytes]:
    """Read the document once there is a slot; yield a line for each page."""
    counts: list[int] = []
    pages_read = 0
    async with service.admission.slot():
        with _record_request(service):
            pages = selected.reader.read(
                path,
                name=read_request.name,
                languages=read_request.languages,
                skip=read_request.pages.complement(),
                on_open=counts.append,
            )
            async with contextlib.aclosing(pages):
                async for page in pages:
                    if not pages_read:
                        yield _make_first_line(selected, counts[-1])
                    pages_read += 1
                    service.metrics.pages.labels(page.source).inc()
                    yield gpu_protocol.pack(gpu_protocol.ResponseLine(page=page))
        if not pages_read:
            yield _make_first_line(selected, counts[-1])
        yield gpu_protocol.pack(gpu_protocol.ResponseLine(end=gpu_protocol.ResponseEnd(pages_read)))


def _make_first_line(selected: SelectedReader, page_count: int) -> bytes:
    document = gpu_protocol.Document(
        page_count, selected.engine, selected.version, selected.profile
    )
    return gpu_protocol.pack(gpu_protocol.ResponseLine(document=document))


@contextlib.contextmanager
def _record_request(service: Service) -> Iterator[None]:
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
    """The response of a healthy service."""

    status: Literal["ok"] = "ok"


@health_routes.get(
    "/healthz", responses={503: {"description": "The service has failed and must be restarted."}}
)
async def alive(service: AppService) -> HealthStatus:
    """Return 200 while the process is working or starting."""
    if service.failure is not None:
        raise errors.EngineUnavailable(service.failure)
    return HealthStatus()


@health_routes.get("/readyz", responses={503: {"description": "The models are not loaded yet."}})
async def ready(service: AppService) -> HealthStatus:
    """Return 200 once the models are loaded and have read a test line."""
    service.require_ready()
    return HealthStatus()


@health_routes.get("/metrics", response_class=Response)
async def metrics(service: AppService) -> Response:
    """Return the metrics in the Prometheus text format."""
    return Response(
        service.metrics.to_prometheus_text(), headers={"Content-Type": METRICS_MEDIA_TYPE}
    )
