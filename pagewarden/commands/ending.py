"""How commands end."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine

SOME_FAILED = 1
INTERRUPTED = 130


async def until_terminated(working: Coroutine[None, None, None]) -> None:
    """Let SIGTERM end it as Ctrl-C does."""
    task = asyncio.ensure_future(working)
    if threading.current_thread() is threading.main_thread():  # no other one hears signals
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await task
