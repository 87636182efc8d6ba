"""Metrics of this process and of the database, for Prometheus."""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter, Request, Response

from functions import answers, services, standing
from pagewarden import errors, scrapers
from pagewarden.telemetry import metrics as process_metrics

router = APIRouter(tags=["health"])


@router.get("/metrics", response_class=Response, responses=answers.documented(401))
async def metrics(request: Request, used: services.Used) -> Response:
    """Metrics for Prometheus, on this machine or with a key."""
    peer = request.client.host if request.client else None
    if not scrapers.door(used.settings, used.keys.secret_key).admits(peer, request.headers):
        raise errors.NotSignedIn(process_metrics.UNAUTHORIZED_MESSAGE)
    found = cast("standing.Standing", request.app.state.standing)
    text = process_metrics.current().as_text() + await found.as_text()
    return Response(text, headers={"Content-Type": process_metrics.MEDIA_TYPE})
