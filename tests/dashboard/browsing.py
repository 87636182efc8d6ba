"""One Chromium for all tests of a process: to start it takes longer than to open a page."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.async_api import Download


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Run it; gives the address where each test opens a window of its own, with its own cookies."""
    found = shutil.which("chromium")
    assert found, "there is no chromium; install it with `make setup` as root, or by hand"
    wishes = {"executablePath": found, "args": ["--no-sandbox", "--disable-gpu"]}
    config = folder / "chromium.json"
    config.write_text(json.dumps(wishes))
    program = [sys.executable, "-m", "playwright", "launch-server"]
    options = ["--browser", "chromium", "--config", str(config)]
    with subprocess.Popen(
        [*program, *options], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        assert running.stdout
        try:
            yield running.stdout.readline().strip()
        finally:
            os.killpg(running.pid, signal.SIGTERM)  # what we started only starts another program


async def downloaded(download: Download) -> bytes:
    """Read what was downloaded; a browser that is not our own child hands it over only so."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "saved")
        await download.save_as(path)
        return await asyncio.to_thread(path.read_bytes)
