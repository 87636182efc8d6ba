"""What this process counts, and how things stand in the database, for Prometheus."""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter, Request, Response

from functions import answers, services, standing
from pagewarden import errors, meters, scrapers

router = APIRouter(tags=["health"])


@router.get("/metrics", response_class=Response, responses=answers.documented(401))
async def metrics(request: Request, used: services.Used) -> Response:
    """Give the meters as Prometheus wants them, to this machine or to who has a key."""
    peer = request.client.host if request.client else None
    if not scrapers.door(used.settings, used.keys.secret_key).admits(peer, request.headers):
        raise errors.NotSignedIn(scrapers.REFUSAL)
    found = cast("standing.Standing", request.app.state.standing)
    text = meters.here().as_text() + await found.as_text()
    return Response(text, headers={"Content-Type": meters.MEDIA_TYPE})
