"""`pool-manager`: run one step of the leader of the pool, where no program leads it."""

from __future__ import annotations

from pydantic import BaseModel, Field

from pagewarden import services
from pagewarden.functions.http import authentication, function_config
from pagewarden.pool import manager
from pagewarden.pool.plan import PoolPlan

NAME = "pool-manager"

router = authentication.make_router(NAME)


class RebalanceResult(BaseModel):
    """What one step of the leader did."""

    leads: bool = Field(
        description="Whether this call assigned the lanes. A program of the pool that leads keeps "
        "the lead, and an empty pool needs no leader."
    )
    workers: int = Field(default=0, description="Number of workers in the pool.")


@router.post("")
async def rebalance(services: services.Current, run: function_config.Current) -> RebalanceResult:
    """Assign the workers of the pool to lanes once, unless a program leads it."""
    workers = len((await services.database.pool_status(hours=1))["workers"])
    leads = False
    if workers:  # leading an empty pool would keep the lead from its first program
        plan = PoolPlan.from_settings(services.settings)
        # All calls lead under one name, so the term stays the same from call to call.
        leads = await manager.PoolManager(services.database, NAME, plan).rebalance_once()
    result = RebalanceResult(leads=leads, workers=workers)
    run.set_result(result)
    return result
