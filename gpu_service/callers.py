"""Who may call: our own services, once we are ready for them."""

from __future__ import annotations

import hmac

from fastapi import Request

from gpu_service import service
from pagewarden import errors


async def require_key(request: Request, used: service.Used) -> None:
    """Let those in who have the secret key, in a time that says nothing about it."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    genuine = hmac.compare_digest(given.strip().encode(errors="replace"), used.plan.key.encode())
    if scheme.lower() != "bearer" or not genuine:
        raise errors.NotSignedIn(
            "this is for our own services; send the secret key as Authorization: Bearer …"
        )


async def require_ready(used: service.Used) -> None:
    """Send away those who come too early."""
    used.require_ready()
