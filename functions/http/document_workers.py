"""Routers and workers of the functions that read documents.

`ocr-worker` and `pdf-worker` claim documents; PAGEWARDEN_DISPATCH decides whether they are read in
this process or by invocations of `ocr-universal` and `pdf-extract`.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import socket
import uuid
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Discriminator, Field, Tag

from pagewarden import documents, services
from pagewarden.database import tables
from pagewarden.documents import function_caller, lease
from pagewarden.errors import Conflict, DispatchFailed, Forbidden, RequestRejected
from pagewarden.functions.http import authentication, database_events, errors, function_config
from pagewarden.services import Services
from pagewarden.web import request_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

DEFAULT_BUDGET_SECONDS = 120.0  # hosted functions may run at least this long
MAX_BUDGET_SECONDS = 3600.0


class EventRoute(request_body.BodyLimitRoute):
    """A route that takes the old and the new row of a document."""

    max_bytes = 65_536


class Budget(BaseModel):
    """Time budget of a call."""

    budget_seconds: float = Field(default=DEFAULT_BUDGET_SECONDS, ge=1, le=MAX_BUDGET_SECONDS)


class WorkRequest(Budget):
    """Time budget of a call; other fields, such as the lanes of an event, are ignored."""


class WorkEvent(Budget, database_events.DatabaseEvent):
    """A Database Webhook, with a time budget where the caller limits it."""


def _get_tag(body: Any) -> str:  # noqa: ANN401  # JSON, or a model
    is_event = "table" in body if isinstance(body, dict) else isinstance(body, WorkEvent)
    return "event" if is_event else "work"


WorkBody = Annotated[
    Annotated[WorkEvent, Tag("event")] | Annotated[WorkRequest, Tag("work")],
    Discriminator(_get_tag),
]


class DocumentRequest(Budget):
    """A document; with the lock token if the caller has claimed it."""

    document_id: uuid.UUID
    lock_token: uuid.UUID | None = None
    # The lane limits an attempt; with less time, a long page would be released again and again.
    budget_seconds: float = Field(default=MAX_BUDGET_SECONDS, ge=1, le=MAX_BUDGET_SECONDS)


class WorkResult(BaseModel):
    """Number of documents by outcome."""

    completed: int = 0
    failed: int = Field(default=0, description="Failed attempts, which count as retries.")
    given_back: int = Field(
        default=0,
        description="Released: out of time, server shutting down, engine or function unavailable.",
    )
    lost: int = Field(default=0, description="Claims lost to another worker.")
    handed_over: int = Field(
        default=0, description="Being read by invocations whose answer was lost or not awaited."
    )
    busy: bool = Field(
        default=False, description="Whether this process is already running the function."
    )
    ignored: str | None = Field(
        default=None, description="Why the event of a Database Webhook led to no attempt."
    )


class AttemptResult(BaseModel):
    """Outcome of the attempt at one document."""

    document_id: uuid.UUID
    outcome: documents.Outcome


def make_worker_router(name: str, lanes: Sequence[str]) -> APIRouter:
    """Return the router of a function that claims queued documents of these lanes."""
    router = _router(name, EventRoute, accepts_events=True)

    @router.post("", name=name)
    async def work(
        request: Request,
        services: services.Current,
        run: function_config.Current,
        body: WorkBody | None = None,
    ) -> WorkResult:
        """Read documents until the lanes are empty or the time budget is used.

        A Database Webhook on `documents` has only the document of its record read.
        """
        options = body or WorkRequest()
        async with _open_worker(services, name, lanes, options.budget_seconds) as worker:
            if isinstance(options, WorkEvent):
                slots = request.app.state.event_slots
                slot = slots.setdefault(name, asyncio.Semaphore(worker.concurrency))
                result = await _read_event(worker, services, options, slot)
            elif request.state.is_event:
                raise Forbidden("with this secret, only Database Webhooks can call this function")
            else:
                lock = request.app.state.function_locks[name]
                result = await _read_until_empty(worker, services, lock)
        run.set_result(result)
        if worker.caller is not None and worker.caller.problem is not None:
            raise DispatchFailed(worker.caller.problem)
        return result

    return router


def make_document_router(name: str, lanes: Sequence[str]) -> APIRouter:
    """Return the router of a function that reads one document of these lanes."""
    router = _router(name, request_body.BodyLimitRoute)

    @router.post("", name=name, responses=errors.error_responses(404, 409))
    async def read(
        document: DocumentRequest, services: services.Current, run: function_config.Current
    ) -> AttemptResult:
        """Read a document with heartbeats, then complete or fail it.

        Without a lock token, the function claims the document itself.
        """
        worker = make_worker(services, name, lanes, document.budget_seconds)
        claim = await _get_claim(worker, document)
        outcome = await worker.process_within_budget(claim, services.stopping)
        result = AttemptResult(document_id=document.document_id, outcome=outcome)
        run.set_result(result)
        return result

    return router


def _router(
    name: str, route_class: type[request_body.BodyLimitRoute], *, accepts_events: bool = False
) -> APIRouter:
    return APIRouter(
        prefix=f"/{name}",
        tags=[name],
        dependencies=authentication.require_access(name, accepts_events=accepts_events),
        responses=errors.error_responses(400, 401, 403, 408, 413, 503),
        route_class=route_class,
    )


async def _read_until_empty(
    worker: documents.Worker, services: Services, lock: asyncio.Lock
) -> WorkResult:
    """Read documents until none is left, unless another call does so already."""
    if lock.locked():
        return WorkResult(busy=True)
    async with lock:
        return _count(await worker.drain(services.stopping))


async def _read_event(
    worker: documents.Worker, services: Services, event: WorkEvent, slot: asyncio.Semaphore
) -> WorkResult:
    """Read the document of a Database Webhook, if it can be read now."""
    document_id = event.get_document_id()
    if document_id is None:
        return WorkResult(ignored=f"{event.describe()} queues no document")
    try:
        async with asyncio.timeout(event.budget_seconds) as waiting, slot:
            waiting.reschedule(None)
            return await _read_queued(worker, services, document_id)
    except TimeoutError:
        return WorkResult(busy=True)


async def _read_queued(
    worker: documents.Worker, services: Services, document_id: str
) -> WorkResult:
    obstacle = await database_events.find_obstacle(worker.database, document_id, worker.lanes)
    if obstacle is not None:
        return WorkResult(ignored=obstacle)
    try:
        claim = await worker.acquire(document_id)
    except RequestRejected as exc:  # another worker was faster, or the lane is paused
        return WorkResult(ignored=str(exc))
    except Conflict:
        return WorkResult(failed=1)
    outcome = await worker.process_within_budget(claim, services.stopping)
    return _count(collections.Counter([outcome]))


def _count(outcomes: collections.Counter[documents.Outcome]) -> WorkResult:
    counts = {str(outcome): count for outcome, count in outcomes.items()}
    return WorkResult.model_validate(counts)


async def _get_claim(worker: documents.Worker, document: DocumentRequest) -> documents.Claim:
    """Claim the document, or begin to read it under the token of the caller."""
    document_id = str(document.document_id)
    if document.lock_token is None:
        rows = await worker.database.select(
            tables.documents, columns="lane", where={"id": document_id}
        )
        if not rows:
            raise RequestRejected("DOCUMENT_NOT_FOUND", "there is no such document")
        _require_lane(rows[0]["lane"], worker.lanes)
        return await worker.acquire(document_id)
    claim = await lease.adopt_claim(worker.database, document_id, str(document.lock_token))
    _require_lane(claim.lane, worker.lanes)
    await lease.begin_claim(
        worker.database, claim, worker_id=worker.worker_id, lock_seconds=worker.lock_seconds
    )
    return claim


def _require_lane(lane: str, lanes: Sequence[str]) -> None:
    if lane not in lanes:
        raise RequestRejected(
            "WRONG_LANE", f"this function reads only the lanes {', '.join(lanes)}, not {lane}"
        )


@contextlib.asynccontextmanager
async def _open_worker(
    services: Services, name: str, lanes: Sequence[str], budget_seconds: float
) -> AsyncIterator[documents.Worker]:
    """Open a worker that reads in this process, or that has functions read over HTTP."""
    settings = services.settings
    async with contextlib.AsyncExitStack() as resources:
        caller = None
        concurrency = (os.cpu_count() or 1) + 1  # one downloads its file while the others run OCR
        if settings.dispatch == "http":
            url = settings.functions_url or settings.supabase_url or settings.site_url
            caller = await resources.enter_async_context(
                function_caller.open_caller(url, services.keys.secret_key, services.store)
            )
            concurrency = settings.dispatch_concurrency
        yield make_worker(
            services, name, lanes, budget_seconds, concurrency=concurrency, caller=caller
        )


def make_worker(  # noqa: PLR0913  # the options of a call
    services: Services,
    name: str,
    lanes: Sequence[str],
    budget_seconds: float,
    *,
    concurrency: int = 1,
    caller: function_caller.FunctionCaller | None = None,
) -> documents.Worker:
    """Return a worker of documents of these lanes."""
    return documents.Worker(
        services.database,
        services.reader,
        worker_id=f"{socket.gethostname()}-{os.getpid()}-{name}",
        lanes=lanes,
        lock_seconds=services.settings.lock_seconds,
        heartbeat_seconds=services.settings.heartbeat_seconds,
        budget_seconds=budget_seconds,
        concurrency=concurrency,
        caller=caller,
    )
