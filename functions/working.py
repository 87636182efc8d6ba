"""What the functions that read documents have in common."""

from __future__ import annotations

import asyncio
import collections
import os
import socket
import uuid
from typing import TYPE_CHECKING

from fastapi import APIRouter
from pydantic import BaseModel, Field

from functions import answers, callers, runs, services
from pagewarden import documents, small_bodies
from pagewarden.database import tables
from pagewarden.documents import attempts

if TYPE_CHECKING:
    from collections.abc import Sequence

BUDGET_SECONDS = 120.0  # what hosted functions are given at least
LONGEST_BUDGET_SECONDS = 3600.0


class Turn(BaseModel):
    """How long to work; lanes and whatever else a hint says is not needed."""

    budget_seconds: float = Field(default=BUDGET_SECONDS, ge=1, le=LONGEST_BUDGET_SECONDS)


class Claimed(BaseModel):
    """A document that somebody has claimed for us."""

    document_id: uuid.UUID
    lock_token: uuid.UUID
    budget_seconds: float = Field(default=BUDGET_SECONDS, ge=1, le=LONGEST_BUDGET_SECONDS)


class Worked(BaseModel):
    """How many documents ended in which way."""

    completed: int = 0
    failed: int = Field(default=0, description="An attempt that the queue has counted.")
    given_back: int = Field(
        default=0, description="Time was up, the server stops, or the engine is away."
    )
    lost: int = Field(default=0, description="Somebody else has it now.")
    busy: bool = Field(default=False, description="This process is at it already.")


class Ended(BaseModel):
    """How the attempt at one document ended."""

    document_id: uuid.UUID
    outcome: attempts.Outcome


def draining(name: str, lanes: Sequence[str]) -> APIRouter:
    """Make the function that claims and reads what waits in these lanes."""
    router = _router(name)

    @router.post("", name=name)
    async def work(used: services.Used, run: runs.Current, turn: Turn | None = None) -> Worked:
        """Claim and read until nothing is left, or the time is up."""
        worked = await _drain(used, name, lanes, (turn or Turn()).budget_seconds)
        run.told(worked)
        return worked

    return router


def reading(name: str, lanes: Sequence[str]) -> APIRouter:
    """Make the function that reads one claimed document of these lanes."""
    router = _router(name)

    @router.post("", name=name, responses=answers.documented(409))
    async def read(claimed: Claimed, used: services.Used, run: runs.Current) -> Ended:
        """Read it, with heartbeats, and complete or fail it."""
        ended = await _read(used, lanes, claimed)
        run.told(ended)
        return ended

    return router


def _router(name: str) -> APIRouter:
    return APIRouter(
        prefix=f"/{name}",
        tags=[name],
        dependencies=callers.guards(name),
        responses=answers.documented(400, 401, 403, 408, 413, 503),
        route_class=small_bodies.Route,
    )


async def _drain(
    used: services.Services, name: str, lanes: Sequence[str], budget_seconds: float
) -> Worked:
    """Read what waits in these lanes, until nothing is left or the time is up.

    A second call while the first is at it has nothing to add, and returns at once.
    """
    lock = used.at_work.setdefault(name, asyncio.Lock())
    if lock.locked():
        return Worked(busy=True)
    async with lock:
        hands = (os.cpu_count() or 1) + 1  # one fetches while the others are read
        workers = [worker(used, f"{name}-{n}", lanes, budget_seconds) for n in range(hands)]
        ends = await asyncio.gather(*(one.drain(used.stopping) for one in workers))
    counts = sum(ends, collections.Counter[attempts.Outcome]())
    return Worked.model_validate({str(outcome): count for outcome, count in counts.items()})


async def _read(used: services.Services, lanes: Sequence[str], claimed: Claimed) -> Ended:
    """Read one document that is claimed already, and end the claim."""
    rows = await used.database.select(
        tables.documents,
        columns="id,lock_token,name,lane,dropbox_path,engine,language,profile,attempts",
        where={"id": str(claimed.document_id), "lock_token": str(claimed.lock_token)},
    )
    if not rows:
        raise answers.RefusedError(409, "LOCK_LOST", "the lock token does not hold this document")
    if rows[0]["lane"] not in lanes:
        raise answers.RefusedError(409, "WRONG_LANE", f"this reads {' and '.join(lanes)} only")
    hand = worker(used, "", lanes, claimed.budget_seconds)
    outcome = await hand.work_claimed(documents.Claim.from_row(rows[0]), used.stopping)
    return Ended(document_id=claimed.document_id, outcome=outcome)


def worker(
    used: services.Services, name: str, lanes: Sequence[str], budget_seconds: float
) -> documents.Worker:
    """Make one that reads documents of these lanes in this process."""
    return documents.Worker(
        used.database,
        used.reader,
        worker_id=f"{socket.gethostname()}-{os.getpid()}-{name}",
        lanes=lanes,
        lock_seconds=used.settings.lock_seconds,
        heartbeat_seconds=used.settings.heartbeat_seconds,
        budget_seconds=budget_seconds,
    )
