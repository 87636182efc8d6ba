"""Engines that need the network: our own process calls them with pixels a child has decoded."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from typing import TYPE_CHECKING

import numpy as np

from pagewarden.reading import engine
from pagewarden.reading.sandbox import wire

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


async def recognise(
    reader: engine.Engine, image: Mapping[str, Any], pixels: bytes, hints: engine.Hints
) -> wire.Message:
    """Read the page that a child sent; gives the answer it waits for."""
    try:
        page = engine.PageImage(
            np.frombuffer(pixels, np.uint8).reshape(image["shape"]), float(image["dpi"])
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise wire.Broken("an image that is none") from exc
    found = await _in_thread(reader, page, hints)
    return {
        "lines": [dataclasses.asdict(line) for line in found.lines],
        "usage": dataclasses.asdict(found.usage),
    }


async def _in_thread(
    reader: engine.Engine, page: engine.PageImage, hints: engine.Hints
) -> engine.Recognised:
    """Call the engine without waiting for it when we are cancelled, nor at the program's end."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[engine.Recognised] = loop.create_future()

    def settle(found: engine.Recognised | None, error: Exception | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        elif found is not None:
            result.set_result(found)

    def call() -> None:
        found, error = None, None
        try:
            found = reader.recognise(page, hints)
        except Exception as exc:  # noqa: BLE001  # raised again where it is awaited
            error = exc
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, found, error)

    threading.Thread(target=call, daemon=True).start()
    return await result
