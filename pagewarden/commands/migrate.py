"""pagewarden migrate: the database is brought up to date."""

from __future__ import annotations

import asyncio

from rich.console import Console

from pagewarden import settings
from pagewarden.local import stack


def command() -> None:
    """Bring the database up to date, and say what was done."""
    asyncio.run(_migrate(settings.load()))


async def _migrate(chosen: settings.Settings) -> None:
    out = Console(highlight=False)
    async with stack.ready(chosen) as found:
        for name in found.applied:
            out.print(f"applied {name}")
        out.print(f"{found.place}: {found.news}")
