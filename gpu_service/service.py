"""What handlers work with: opened once for a process, and without any state that outlives it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, cast

import structlog
from fastapi import Depends, Request

from gpu_service import door, links, meters, plans, readers, refusals
from pagewarden import errors
from pagewarden.files import scratch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

log = structlog.get_logger(__name__)

PROVE_PAUSES = (1.0, 5.0, 30.0)  # seconds before the engine is tried again


@dataclass(slots=True)
class Health:
    """Whether the engine has proved itself, and what went wrong if it could not."""

    ready: bool = False
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """A service; folder holds the documents that are being read, and is private."""

    plan: plans.Plan
    door: door.Door
    meters: meters.Meters
    readers: readers.Readers
    links: links.Links
    folder: Path
    health: Health = field(default_factory=Health)

    @property
    def trouble(self) -> str | None:
        """Say why this process should be ended; None while it lives."""
        if self.health.trouble is None and not self.readers.alive:
            return "nobody reads lines any more"
        return self.health.trouble

    def require_ready(self) -> None:
        """Refuse what comes too early."""
        if self.trouble is not None:
            raise errors.EngineAway(f"the GPU service is broken: {self.trouble}")
        if not self.health.ready:
            raise refusals.Refused(
                503,
                "Starting",
                "the GPU service is still loading its models; try again soon",
                ours=True,
                retry_after=self.plan.retry_after,
            )

    async def prove(self) -> None:
        """Load the models and try them until they work: a failure may have been a passing one.

        Meanwhile we are in trouble, so whatever runs containers may start another one.
        """
        for pause in itertools.chain(PROVE_PAUSES, itertools.repeat(PROVE_PAUSES[-1])):
            try:
                await self.readers.prove()
            except Exception as exc:
                log.exception("not_ready", engine=self.plan.engine)
                self.health.trouble = str(exc)
            else:
                log.info("ready", engine=self.plan.engine)
                self.health.ready, self.health.trouble = True, None
                return
            await asyncio.sleep(pause)


@contextlib.asynccontextmanager
async def opened(plan: plans.Plan) -> AsyncIterator[Service]:
    """Have a service that begins to load its models."""
    async with contextlib.AsyncExitStack() as resources:
        folder = resources.enter_context(scratch.folder())
        entrance = door.Door(
            places=plan.documents, waiting=plan.waiting, retry_after=plan.retry_after
        )
        counted = meters.Meters(entrance)
        made = readers.Readers(plan, resources, counted.batch)
        ours = await resources.enter_async_context(links.Links(plan.stores))
        service = Service(plan, entrance, counted, made, ours, folder)
        proving = asyncio.create_task(service.prove())
        try:
            yield service
        finally:
            proving.cancel()
            await asyncio.gather(proving, return_exceptions=True)


def _of_app(request: Request) -> Service:
    return cast("Service", request.app.state.service)


Used = Annotated[Service, Depends(_of_app)]
"""A parameter of this type gets the service of the app."""
