"""stale-monitor: give back what dead workers held, by hand; the schedule does it in SQL."""

from __future__ import annotations

from pydantic import BaseModel

from functions import callers, runs, services

NAME = "stale-monitor"

router = callers.guarded_router(NAME)


class Swept(BaseModel):
    """How many documents were given back."""

    documents: int


@router.post("")
async def sweep(used: services.Used, run: runs.Current) -> Swept:
    """Look for locks that have expired, now."""
    swept = Swept(documents=await used.database.sweep_documents())
    run.told(swept)
    return swept
