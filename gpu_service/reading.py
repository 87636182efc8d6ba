"""The routes: what the service reads with, and the reading itself."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any

import httpx
from fastapi import APIRouter, Depends, Request

from gpu_service import answers, callers, deliveries, readers, service
from pagewarden.gpu import protocol

router = APIRouter(dependencies=[Depends(callers.require_key), Depends(callers.require_ready)])

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


async def _stay(used: service.Used) -> AsyncIterator[contextlib.ExitStack]:
    """Be inside until all is sent; what is put on the stack is let go of then."""
    with contextlib.ExitStack() as stay:
        stay.enter_context(used.door.entered())
        yield stay


Stay = Annotated[contextlib.ExitStack, Depends(_stay)]


@router.get(protocol.ABOUT_PATH, responses={key: _REFUSALS[key] for key in (400, 401, 503)})
async def about(
    used: service.Used, engine: str | None = None, profile: str | None = None
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
async def read(request: Request, used: service.Used, stay: Stay) -> answers.Answer:
    """Read a document: the body itself, or one of our store whose URL is in JSON."""
    order = await deliveries.ordered(request)
    url = used.links.require_ours(order.url) if order.url is not None else None
    chosen = await used.readers.choose(order.engine, order.profile)
    path = Path(stay.enter_context(tempfile.TemporaryDirectory(dir=used.folder)), "document")
    if url is not None:
        return answers.Answer(_fetched(used, chosen, order, path, url))
    await deliveries.take(request, path, used.plan.max_bytes)
    return answers.Answer(_lines(used, chosen, order, path))


async def _fetched(
    used: service.Service,
    chosen: readers.Chosen,
    order: protocol.Order,
    path: Path,
    url: httpx.URL,
) -> AsyncGenerator[bytes]:
    """Fetch the document first, while the client is told that we are alive."""
    await deliveries.keep(used.links.fetch(url), path, used.plan.max_bytes)
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
