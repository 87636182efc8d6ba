"""alerts: measure what the database cannot see, evaluate the rules, and tell people."""

from __future__ import annotations

from pydantic import BaseModel, Field

from functions import callers, runs, services
from pagewarden.alerts import gauges, telling

NAME = "alerts"

router = callers.guarded_router(NAME)


class Watched(BaseModel):
    """What was done."""

    evaluated: int = Field(description="Rules; 0 where somebody else was at it.")
    open: int = Field(default=0, description="Alerts that are open now.")
    told: int = Field(description="Notices that were due, and tried.")


@router.post("")
async def watch(used: services.Used, run: runs.Current) -> Watched:
    """Do it once; the schedule calls it every minute."""
    for gauge, value in (await gauges.measure(used.settings)).items():
        await used.database.report_gauge(gauge=gauge, value=value)
    found = await used.database.evaluate_alerts()
    teller = telling.Teller(used.database, used.settings, used.keys.webhook_secret)
    told = 0
    while due := await teller.tell_due():
        told += due
    watched = Watched(evaluated=found["evaluated"], open=found["open"] or 0, told=told)
    run.told(watched)
    return watched
