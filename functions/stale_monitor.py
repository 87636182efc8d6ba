"""`stale-monitor`: reclaim expired locks now; on the schedule, SQL does this."""

from __future__ import annotations

from pydantic import BaseModel

from pagewarden import services
from pagewarden.functions.http import authentication, function_config

NAME = "stale-monitor"

router = authentication.make_router(NAME)


class SweepResult(BaseModel):
    """Number of documents released."""

    documents: int


@router.post("")
async def sweep(services: services.Current, run: function_config.Current) -> SweepResult:
    """Reclaim all expired locks."""
    result = SweepResult(documents=await services.database.sweep_documents())
    run.set_result(result)
    return result
