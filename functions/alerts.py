"""`alerts`: measure what the database cannot see, evaluate the rules, send notifications."""

from __future__ import annotations

from pydantic import BaseModel, Field

from pagewarden import services
from pagewarden.functions.http import authentication, function_config
from pagewarden.notifications import alerts

NAME = "alerts"

router = authentication.make_router(NAME)


class EvaluationResult(BaseModel):
    """Rules evaluated, open alerts and notifications."""

    evaluated: int = Field(
        description="Number of rules evaluated; 0 if another evaluation was running."
    )
    open: int = Field(default=0, description="Number of open alerts.")
    notified: int = Field(
        serialization_alias="told", description="Number of due notifications attempted."
    )


@router.post("")
async def evaluate(services: services.Current, run: function_config.Current) -> EvaluationResult:
    """Evaluate all rules once and send due notifications; the schedule calls it every minute."""
    for gauge, value in (await alerts.measure(services.settings)).items():
        await services.database.report_gauge(gauge=gauge, value=value)
    answer = await services.database.evaluate_alerts()
    notifier = alerts.AlertNotifier(
        services.database, services.settings, services.keys.webhook_secret
    )
    notified = 0
    while due := await notifier.send_due():
        notified += due
    result = EvaluationResult(
        evaluated=answer["evaluated"], open=answer["open"] or 0, notified=notified
    )
    run.set_result(result)
    return result
