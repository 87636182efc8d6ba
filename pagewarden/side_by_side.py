"""Several things at a time, of which the first that fails ends all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable


async def run(works: Iterable[Coroutine[None, None, None]]) -> None:
    """Run them all to the end; an error is raised as it is, when none of them runs any more."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
