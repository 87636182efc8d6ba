"""pagewarden doctor: what is missing, and how to fix it."""

from __future__ import annotations

import asyncio
import sys

from rich.console import Console

from pagewarden import settings
from pagewarden.commands import ending
from pagewarden.local import doctor

out = Console(highlight=False)


def command() -> None:
    """Say what is missing, and how to fix it; exit code 1 if anything is."""
    if asyncio.run(_examine(settings.load())):
        sys.exit(ending.SOME_FAILED)


async def _examine(chosen: settings.Settings) -> int:
    problems = 0
    async for finding in doctor.examine(chosen):
        mark = "[red]✗[/]" if finding.remedy else "[green]✓[/]"
        out.print(f"{mark} {finding.subject}: {finding.state}")
        if finding.remedy:
            problems += 1
            out.print(f"    [yellow]→[/] {finding.remedy}")
    return problems
