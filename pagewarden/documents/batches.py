"""Pages are saved together with those that came while the last ones were being saved."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from pagewarden.documents import claims

# Pages that are read but not saved: what a crash costs at most, beside those being read.
AHEAD = 16

_News = asyncio.Queue["claims.Page | Exception | None"]


async def of_pages(pages: AsyncGenerator[claims.Page]) -> AsyncGenerator[list[claims.Page]]:
    """Read on while the taker is busy, and hand over all pages that came meanwhile.

    An error is raised once every page before it was handed over.
    """
    news: _News = asyncio.Queue(AHEAD)
    filling = asyncio.create_task(_fill(news, pages))
    try:
        more = True
        while more:
            batch, end, more = await _take(news)
            if batch:
                yield batch
            if end is not None:
                raise end
    finally:
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)


async def _fill(news: _News, pages: AsyncGenerator[claims.Page]) -> None:
    try:
        async with contextlib.aclosing(pages):
            async for page in pages:
                await news.put(page)
    except Exception as exc:  # noqa: BLE001  # raised again where the pages are taken
        await news.put(exc)
    else:
        await news.put(None)


async def _take(news: _News) -> tuple[list[claims.Page], Exception | None, bool]:
    """Wait for something, and take all there is: pages, an error, whether more may come."""
    batch: list[claims.Page] = []
    while not batch or not news.empty():
        found = await news.get()
        if found is None or isinstance(found, Exception):
            return batch, found, False
        batch.append(found)
    return batch, None, True
