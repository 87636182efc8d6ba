"""Waiting for a document, and asking as seldom as its progress allows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pagewarden.client import answers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pagewarden.client import client as clients

SHORTEST_SECONDS = 0.2
LONGEST_SECONDS = 5.0
_GROWTH = 1.5
_SHARE = 0.2  # of the time that is left


def pause(idle_polls: int, seconds_left: float | None) -> float:
    """Say how long to wait before asking again, after so many answers with nothing new."""
    growing = SHORTEST_SECONDS * _GROWTH ** min(idle_polls, 20)
    hinted = LONGEST_SECONDS if seconds_left is None else seconds_left * _SHARE
    return min(max(hinted, SHORTEST_SECONDS), growing, LONGEST_SECONDS)


async def until_ended(
    client: clients.Client,
    document_id: str,
    *,
    seen: Callable[[answers.Progress], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> answers.Progress:
    """Ask until the document is read, or until it is clear that it will not be."""
    last, idle_polls = None, 0
    while True:
        progress = await client.status(document_id)
        seen(progress)
        if progress.stage is not answers.Stage.UNDER_WAY:
            return progress
        idle_polls = idle_polls + 1 if progress == last else 0
        last = progress
        await sleep(pause(idle_polls, progress.seconds_left))
