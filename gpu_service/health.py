"""Whether this process lives, whether it can read, and what it counted."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel

from gpu_service import meters, service
from pagewarden import errors

router = APIRouter(tags=["health"])


class Fine(BaseModel):
    """Everything is as it should be."""

    status: Literal["ok"] = "ok"


@router.get("/healthz", responses={503: {"description": "It should be started again."}})
async def alive(used: service.Used) -> Fine:
    """Answer while the process lives, or may still come to life."""
    if used.trouble is not None:
        raise errors.EngineAway(used.trouble)
    return Fine()


@router.get("/readyz", responses={503: {"description": "The models are not loaded, or broken."}})
async def ready(used: service.Used) -> Fine:
    """Answer when the models are loaded and have read a line."""
    used.require_ready()
    return Fine()


@router.get("/metrics", response_class=Response)
async def metrics(used: service.Used) -> Response:
    """Give the meters as Prometheus wants them."""
    return Response(used.meters.as_text(), headers={"Content-Type": meters.MEDIA_TYPE})
