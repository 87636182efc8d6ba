"""stale-monitor: give back what dead workers held, by hand; the schedule does it in SQL."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from functions import answers, callers, services

NAME = "stale-monitor"

router = APIRouter(
    prefix=f"/{NAME}",
    tags=[NAME],
    dependencies=callers.guards(NAME),
    responses=answers.documented(401, 403, 503),
)


class Swept(BaseModel):
    """How many documents were given back."""

    documents: int


@router.post("")
async def sweep(used: services.Used) -> Swept:
    """Look for locks that have expired, now."""
    return Swept(documents=await used.database.rpc("sweep_documents"))
