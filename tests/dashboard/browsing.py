"""Downloads of the browser."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Download


async def read_download(download: Download) -> bytes:
    """Return the content of a download; the browser only allows saving it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "saved")
        await download.save_as(path)
        return await asyncio.to_thread(path.read_bytes)
