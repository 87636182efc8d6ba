"""`webhooks`: notify callers' servers that their documents and check jobs have ended."""

from __future__ import annotations

from pydantic import BaseModel

from pagewarden import services
from pagewarden.functions.http import authentication, function_config
from pagewarden.notifications import webhooks

NAME = "webhooks"

router = authentication.make_router(NAME)


class DeliveryResult(BaseModel):
    """Number of webhooks that were due and attempted."""

    tried: int


@router.post("")
async def deliver(services: services.Current, run: function_config.Current) -> DeliveryResult:
    """Deliver all due webhooks; failed deliveries are retried for about a day."""
    secret = services.keys.webhook_secret
    if secret is None:
        return DeliveryResult(tried=0)
    is_allowed = (
        webhooks.is_any_address
        if services.settings.webhooks_anywhere
        else webhooks.is_public_address
    )
    sender = webhooks.WebhookSender(services.database, secret, is_allowed)
    tried = 0
    while due := await sender.deliver_due():
        tried += due
    result = DeliveryResult(tried=tried)
    run.set_result(result)
    return result
