"""What the database cannot see: the disk, and whether the GPU service answers."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pagewarden.settings import Settings

_ANSWER_SECONDS = 5.0


async def measure(settings: Settings) -> Mapping[str, float]:
    """Measure what there is to measure on this machine."""
    found = {}
    disk = _disk_of(settings)
    if disk is not None:
        usage = await asyncio.to_thread(shutil.disk_usage, disk)
        found["free_disk_share"] = usage.free / usage.total
    if settings.gpu_service_url is not None:
        answers = await _answers(str(settings.gpu_service_url))
        found["gpu_service_down"] = 0.0 if answers else 1.0
    return found


def _disk_of(settings: Settings) -> Path | None:
    """Find the disk that keeps our files; None where they are kept somewhere else."""
    away = settings.files is not None and "://" in settings.files
    if away and settings.database_url is not None:
        return None
    return settings.home if settings.home.exists() else None


async def _answers(url: str) -> bool:
    try:
        async with httpx.AsyncClient(timeout=_ANSWER_SECONDS, trust_env=False) as client:
            response = await client.get(f"{url.rstrip('/')}/healthz")
    except httpx.HTTPError:
        return False
    return response.is_success
