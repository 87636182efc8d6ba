"""Routers and workers of the functions that read documents."""

from __future__ import annotations

import asyncio
import collections
import os
import socket
import uuid
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from pagewarden import documents, services
from pagewarden.documents import lease
from pagewarden.errors import RequestRejected
from pagewarden.functions.http import authentication, errors, function_config
from pagewarden.services import Services
from pagewarden.web import request_body

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_BUDGET_SECONDS = 120.0  # hosted functions may run at least this long
MAX_BUDGET_SECONDS = 3600.0


class WorkRequest(BaseModel):
    """Time budget of a call; other fields, such as the lanes of an event, are ignored."""

    budget_seconds: float = Field(default=DEFAULT_BUDGET_SECONDS, ge=1, le=MAX_BUDGET_SECONDS)


class ClaimedDocument(BaseModel):
    """A document that the caller has claimed."""

    document_id: uuid.UUID
    lock_token: uuid.UUID
    budget_seconds: float = Field(default=DEFAULT_BUDGET_SECONDS, ge=1, le=MAX_BUDGET_SECONDS)


class WorkResult(BaseModel):
    """Number of documents by outcome."""

    completed: int = 0
    failed: int = Field(default=0, description="Failed attempts, which count as retries.")
    given_back: int = Field(
        default=0,
        description="Released: out of time, server shutting down, or engine unavailable.",
    )
    lost: int = Field(default=0, description="Claims lost to another worker.")
    busy: bool = Field(
        default=False, description="Whether this process is already running the function."
    )


class AttemptResult(BaseModel):
    """Outcome of the attempt at one document."""

    document_id: uuid.UUID
    outcome: documents.Outcome


def make_worker_router(name: str, lanes: Sequence[str]) -> APIRouter:
    """Return the router of a function that claims and reads queued documents of these lanes."""
    router = _router(name)

    @router.post("", name=name)
    async def work(
        request: Request,
        services: services.Current,
        run: function_config.Current,
        options: WorkRequest | None = None,
    ) -> WorkResult:
        """Claim and read documents until the lanes are empty or the time budget is used."""
        lock = request.app.state.function_locks[name]
        if lock.locked():
            result = WorkResult(busy=True)
        else:
            budget = (options or WorkRequest()).budget_seconds
            async with lock:
                result = await _read_until_empty(services, name, lanes, budget)
        run.set_result(result)
        return result

    return router


def make_document_router(name: str, lanes: Sequence[str]) -> APIRouter:
    """Return the router of a function that reads one claimed document of these lanes."""
    router = _router(name)

    @router.post("", name=name, responses=errors.error_responses(409))
    async def read(
        claimed: ClaimedDocument, services: services.Current, run: function_config.Current
    ) -> AttemptResult:
        """Read a claimed document with heartbeats, then complete or fail it."""
        result = await _read_claimed(services, lanes, claimed)
        run.set_result(result)
        return result

    return router


def _router(name: str) -> APIRouter:
    return APIRouter(
        prefix=f"/{name}",
        tags=[name],
        dependencies=authentication.require_access(name),
        responses=errors.error_responses(400, 401, 403, 408, 413, 503),
        route_class=request_body.BodyLimitRoute,
    )


async def _read_until_empty(
    services: Services, name: str, lanes: Sequence[str], budget_seconds: float
) -> WorkResult:
    """Read documents of these lanes until none is left or the time budget is used."""
    count = (os.cpu_count() or 1) + 1  # one downloads its file while the others run OCR
    workers = [make_worker(services, f"{name}-{n}", lanes, budget_seconds) for n in range(count)]
    outcomes = await asyncio.gather(*(worker.drain(services.stopping) for worker in workers))
    counts = sum(outcomes, collections.Counter[documents.Outcome]())
    return WorkResult.model_validate({str(outcome): count for outcome, count in counts.items()})


async def _read_claimed(
    services: Services, lanes: Sequence[str], claimed: ClaimedDocument
) -> AttemptResult:
    """Read a document that the caller has claimed, and end the claim."""
    claim = await lease.adopt_claim(
        services.database, str(claimed.document_id), str(claimed.lock_token)
    )
    if claim.lane not in lanes:
        raise RequestRejected(
            "WRONG_LANE", f"this function processes only the lanes {', '.join(lanes)}"
        )
    worker = make_worker(services, "", lanes, claimed.budget_seconds)
    outcome = await worker.process_within_budget(claim, services.stopping)
    return AttemptResult(document_id=claimed.document_id, outcome=outcome)


def make_worker(
    services: Services, name: str, lanes: Sequence[str], budget_seconds: float
) -> documents.Worker:
    """Return a worker that reads documents of these lanes in this process."""
    return documents.Worker(
        services.database,
        services.reader,
        worker_id=f"{socket.gethostname()}-{os.getpid()}-{name}",
        lanes=lanes,
        lock_seconds=services.settings.lock_seconds,
        heartbeat_seconds=services.settings.heartbeat_seconds,
        budget_seconds=budget_seconds,
    )
