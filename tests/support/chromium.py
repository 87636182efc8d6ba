"""The browser of the tests."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

from playwright import async_api as playwright

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def run_chromium() -> AsyncIterator[playwright.Browser]:
    """Run Chromium until the block ends."""
    path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    assert path, "Chromium is not installed; run `make setup` as root, or install it"
    async with playwright.async_playwright() as programs:
        options = ["--no-sandbox", "--disable-gpu"]
        browser = await programs.chromium.launch(executable_path=path, args=options)
        yield browser
        await browser.close()
