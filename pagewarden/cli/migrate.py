"""`pagewarden migrate`: apply pending database migrations."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rich.console import Console

from pagewarden.local import stack
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    from pagewarden.settings import Settings


def command() -> None:
    """Apply pending database migrations."""
    asyncio.run(_migrate(load_settings()))


async def _migrate(settings: Settings) -> None:
    out = Console(highlight=False)
    async with stack.open_migrated(settings) as found:
        for name in found.applied:
            out.print(f"applied {name}")
        out.print(f"{found.description}: {found.summary}")
