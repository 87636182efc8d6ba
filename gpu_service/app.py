"""The service as an ASGI app, and its routes: about, read, health and metrics."""

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

from gpu_service import config, readers, request_body, responses, service
from gpu_service import errors as refusals
from pagewarden import errors
from pagewarden.gpu import protocol


def create_app(plan: config.Plan) -> FastAPI:
    """Make the app; it loads its models when it starts."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with service.opened(plan) as opened:
            app.state.service, app.state.refusals = opened, opened.meters.refusals
            yield

    app = FastAPI(
        title="Pagewarden GPU service",
        summary="A document in, a line of JSON for each of its pages out.",
        lifespan=lifespan,
    )
    app.state.retry_after = plan.retry_after
    refusals.install(app)
    app.include_router(router)
    app.include_router(health)
    return app


def _of_app(request: Request) -> service.Service:
    return cast("service.Service", request.app.state.service)


Used = Annotated[service.Service, Depends(_of_app)]
"""A parameter of this type gets the service of the app."""


async def require_key(request: Request, used: Used) -> None:
    """Let those in who have the secret key, in a time that says nothing about it."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    genuine = hmac.compare_digest(given.strip().encode(errors="replace"), used.plan.key.encode())
    if scheme.lower() != "bearer" or not genuine:
        raise errors.NotSignedIn(
            "this is for our own services; send the secret key as Authorization: Bearer …"
        )


async def require_ready(used: Used) -> None:
    """Send away those who come too early."""
    used.require_ready()


router = APIRouter(dependencies=[Depends(require_key), Depends(require_ready)])
health = APIRouter(tags=["health"])

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
_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The request makes no sense, or names an engine that is not here."},
    401: {"description": "The secret key is missing or wrong."},
    404: {"description": "There is nothing at that URL."},
    408: {"description": "The body came too slowly."},
    413: {"description": "The document is too large."},
    415: {"description": "The body is of a type we do not read."},
    422: {"description": "The document cannot be read as it is."},
    503: {"description": "There is no room, or something is away; see Retry-After."},
    504: {"description": "Opening the document took too long."},
}


async def _stay(used: Used) -> AsyncIterator[contextlib.ExitStack]:
    """Be inside until all is sent; what is put on the stack is let go of then."""
    with contextlib.ExitStack() as stay:
        stay.enter_context(used.door.entered())
        yield stay


Stay = Annotated[contextlib.ExitStack, Depends(_stay)]


@router.get(protocol.ABOUT_PATH, responses={key: _REFUSALS[key] for key in (400, 401, 503)})
async def about(
    used: Used, engine: str | None = None, profile: str | None = None
) -> protocol.About:
    """Say which engine of which version reads, when one wishes for this one."""
    chosen = await used.readers.choose(engine, profile)
    return protocol.About(chosen.engine, chosen.version, chosen.profile, used.plan.max_bytes)


@router.post(
    protocol.READ_PATH,
    response_model=None,
    responses={
        200: {
            "description": "A line of JSON for the document, one for each page, and an end.",
            "content": {protocol.MEDIA_TYPE: {}},
        },
        **_REFUSALS,
    },
    openapi_extra=_BODY,
)
async def read(request: Request, used: Used, stay: Stay) -> responses.Answer:
    """Read a document: the body itself, or one of our store whose URL is in JSON."""
    order = await request_body.ordered(request)
    url = used.links.require_ours(order.url) if order.url is not None else None
    chosen = await used.readers.choose(order.engine, order.profile)
    path = Path(stay.enter_context(tempfile.TemporaryDirectory(dir=used.folder)), "document")
    if url is not None:
        return responses.Answer(_fetched(used, chosen, order, path, url))
    await request_body.take(request, path, used.plan.max_bytes)
    return responses.Answer(_lines(used, chosen, order, path))


async def _fetched(
    used: service.Service,
    chosen: readers.Chosen,
    order: protocol.Order,
    path: Path,
    url: httpx.URL,
) -> AsyncGenerator[bytes]:
    """Fetch the document first, while the client is told that we are alive."""
    await request_body.keep(used.links.fetch(url), path, used.plan.max_bytes)
    async with contextlib.aclosing(_lines(used, chosen, order, path)) as lines:
        async for line in lines:
            yield line


async def _lines(
    used: service.Service, chosen: readers.Chosen, order: protocol.Order, path: Path
) -> AsyncGenerator[bytes]:
    """Read as soon as there is a place, and tell of each page."""
    counts: list[int] = []
    pages = 0
    async with used.door.place():
        with _measured(used):
            found = chosen.reader.read(
                path,
                name=order.name,
                languages=order.languages,
                done=order.pages.others(),
                opened=counts.append,
            )
            async with contextlib.aclosing(found):
                async for page in found:
                    if not pages:
                        yield _first_line(chosen, counts[-1])
                    pages += 1
                    used.meters.pages.labels(page.source).inc()
                    yield protocol.pack(protocol.Line(page=page))
        if not pages:
            yield _first_line(chosen, counts[-1])
        yield protocol.pack(protocol.Line(end=protocol.End(pages)))


def _first_line(chosen: readers.Chosen, page_count: int) -> bytes:
    document = protocol.Document(page_count, chosen.engine, chosen.version, chosen.profile)
    return protocol.pack(protocol.Line(document=document))


@contextlib.contextmanager
def _measured(used: service.Service) -> Iterator[None]:
    start, end = time.monotonic(), "left"
    try:
        yield
        end = "read"
    except Exception as exc:
        end = type(exc).__name__
        raise
    finally:
        used.meters.seconds.observe(time.monotonic() - start)
        used.meters.documents.labels(end).inc()


class Fine(BaseModel):
    """Everything is as it should be."""

    status: Literal["ok"] = "ok"


@health.get("/healthz", responses={503: {"description": "It should be started again."}})
async def alive(used: Used) -> Fine:
    """Answer while the process lives, or may still come to life."""
    if used.trouble is not None:
        raise errors.EngineAway(used.trouble)
    return Fine()


@health.get("/readyz", responses={503: {"description": "The models are not loaded, or broken."}})
async def ready(used: Used) -> Fine:
    """Answer when the models are loaded and have read a line."""
    used.require_ready()
    return Fine()


@health.get("/metrics", response_class=Response)
async def metrics(used: Used) -> Response:
    """Give the meters as Prometheus wants them."""
    return Response(used.meters.as_text(), headers={"Content-Type": service.MEDIA_TYPE})
