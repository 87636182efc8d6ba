"""Call an engine that needs the network, with pixels that a child has decoded."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from typing import TYPE_CHECKING

import numpy as np

from pagewarden.ocr.engines import base
from pagewarden.ocr.sandbox import protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


async def recognise_remotely(
    engine: base.Engine, image: Mapping[str, Any], pixels: bytes, hints: base.PageHints
) -> protocol.Message:
    """Recognise the page that a child has sent, and return the answer for the child."""
    try:
        page = base.PageImage(
            np.frombuffer(pixels, np.uint8).reshape(image["shape"]), float(image["dpi"])
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise protocol.ProtocolError("not a valid image") from exc
    found = await _recognise_in_thread(engine, page, hints)
    return {
        "lines": [dataclasses.asdict(line) for line in found.lines],
        "usage": dataclasses.asdict(found.usage),
    }


async def _recognise_in_thread(
    engine: base.Engine, page: base.PageImage, hints: base.PageHints
) -> base.RecognitionResult:
    """Call the engine in a daemon thread, which delays neither cancellation nor the exit."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[base.RecognitionResult] = loop.create_future()

    def settle(found: base.RecognitionResult | None, error: Exception | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        elif found is not None:
            result.set_result(found)

    def call() -> None:
        found, error = None, None
        try:
            found = engine.recognise(page, hints)
        except Exception as exc:  # noqa: BLE001  # raised again in the caller
            error = exc
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, found, error)

    threading.Thread(target=call, daemon=True).start()
    return await result
