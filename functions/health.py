"""Whether this process lives, and whether it can do its work."""

from __future__ import annotations

from typing import Literal

import structlog
from fastapi import APIRouter
from pydantic import BaseModel

from functions import answers, services
from pagewarden import errors
from pagewarden.database import tables

log = structlog.get_logger(__name__)

router = APIRouter(tags=["health"])


class Fine(BaseModel):
    """Everything is as it should be."""

    status: Literal["ok"] = "ok"


@router.get("/healthz")
async def alive() -> Fine:
    """Answer while the process lives."""
    return Fine()


@router.get("/readyz", responses=answers.documented(503))
async def ready(used: services.Used) -> Fine:
    """Answer when database and file store can be used."""
    try:
        await used.database.select(tables.lanes, columns="lane", limit=1)
        await used.store.ping()
    except errors.PagewardenError as exc:
        # Anybody may ask, and errors name hosts, accounts and folders.
        log.warning("not_ready", error=str(exc))
        raise answers.RefusedError(
            503,
            "NOT_READY",
            "the database or the file store cannot be used; the log says why",
            {"Retry-After": str(answers.RETRY_AFTER_SECONDS)},
        ) from exc
    return Fine()
