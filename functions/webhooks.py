"""webhooks: tell callers' servers which documents and check jobs have ended."""

from __future__ import annotations

from pydantic import BaseModel

from functions import callers, runs, services
from pagewarden import webhooks

NAME = "webhooks"

router = callers.guarded_router(NAME)


class Told(BaseModel):
    """How many messages were due, and tried."""

    tried: int


@router.post("")
async def tell(used: services.Used, run: runs.Current) -> Told:
    """Send everything that is due; what fails is tried again later, for a day."""
    secret = used.keys.webhook_secret
    if secret is None:
        return Told(tried=0)
    allowed = webhooks.is_any if used.settings.webhooks_anywhere else webhooks.is_public
    sender = webhooks.Sender(used.database, secret, allowed)
    tried = 0
    while due := await sender.deliver_due():
        tried += due
    told = Told(tried=tried)
    run.told(told)
    return told
