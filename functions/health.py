"""Whether this process lives, and whether it can do its work."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from functions import answers, services

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
    await used.database.select("lanes", columns="lane", limit=1)
    await used.store.ping()
    return Fine()
