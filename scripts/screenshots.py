#!/usr/bin/env python3
"""Take the pictures of docs/images: a system of its own, the documents of the demo, every page.

Needs what the tests need (chromium, playwright): .venv/bin/python scripts/screenshots.py
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from playwright import async_api as playwright

from benchmarks import system as systems
from pagewarden.demo import drawing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SIZE = playwright.ViewportSize(width=1280, height=800)
JOB, VOLUME = "archive", "W1874-I23"
PHONE = playwright.ViewportSize(width=390, height=844)

_SIGN_IN = re.compile(r"the first sign-in: (\S+) with the password\n\s+(\S+)")


async def main() -> None:
    """Take them all."""
    IMAGES.mkdir(exist_ok=True)
    async with systems.running() as system:
        await _demo(system)
        await _volume(system)
        match = _SIGN_IN.search("\n".join(system.said))
        assert match, "the system did not say how to sign in"  # noqa: S101  # a script
        async with playwright.async_playwright() as programs:
            browser = await programs.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            page = await browser.new_page(base_url=system.url, viewport=SIZE)
            await page.goto("/sign-in")
            await page.screenshot(path=IMAGES / "sign-in.png")
            await _enter(page, match[1], match[2])
            async for name, path in _pages(page):
                await _take(page, name, path)
            await _take_special(page)
            await browser.close()


async def _demo(system: systems.System) -> None:
    """Upload the samples, and wait until each has come to its end."""
    await _run(system, "demo")
    while True:
        seen = json.loads(await _run(system, "status", "--json"))["health"]
        if not seen["queued"] and not seen["processing"] and not seen["waiting_to_retry"]:
            return


async def _volume(system: systems.System) -> None:
    """Have the pictures among the samples read as a book, with one page that is none."""
    with tempfile.TemporaryDirectory() as scratch:
        samples, book = Path(scratch) / "samples", Path(scratch) / VOLUME
        samples.mkdir()
        book.mkdir()
        for path in drawing.draw(samples):
            if path.suffix in {".jpg", ".png"}:
                path.rename(book / path.name)
        (book / "zz-torn.jpg").write_bytes(b"torn")
        words = ("--key", JOB, "--set", "failed_pages_allowed=0.5")
        await _run(system, "volumes", "create", str(book), *words)
    await _run(system, "volumes", "status", JOB, "--watch")


async def _run(system: systems.System, *words: str) -> bytes:
    port = system.url.rpartition(":")[2]
    home = {"PAGEWARDEN_HOME": str(system.home), "PAGEWARDEN_LISTEN_PORT": port}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pagewarden.cli", *words),
        env=os.environ | home,
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, f"pagewarden {words[0]} failed"  # noqa: S101  # a script
    return printed


async def _enter(page: playwright.Page, email: str, password: str) -> None:
    await page.get_by_label("E-mail").fill(email)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("navigation").wait_for()


async def _pages(page: playwright.Page) -> AsyncIterator[tuple[str, str]]:
    links = page.locator("header nav a")  # also of menus that are closed
    for path in [await link.get_attribute("href") or "/" for link in await links.all()]:
        yield path.strip("/"), path


async def _take(page: playwright.Page, name: str, path: str) -> None:
    await page.goto(path)
    await page.wait_for_load_state()
    await page.screenshot(path=IMAGES / f"{name}.png")
    print(f"docs/images/{name}.png")  # noqa: T201  # a script


async def _take_special(page: playwright.Page) -> None:
    """Take what no entry of the menu shows: a document, a check, a volume, the phone."""
    await page.goto("/documents")
    await page.get_by_role("link", name="land-registry-act.jpg").click()
    await page.wait_for_load_state()
    document = page.url
    await _take(page, "document", document)
    await _take(page, "review-page", f"{document}/review")
    await page.emulate_media(color_scheme="dark")
    await _take(page, "review-page-dark", f"{document}/review")
    await _take(page, "overview-dark", "/overview")
    await page.emulate_media(color_scheme="light")
    await _take_check(page)
    await _take_volume(page)
    await page.set_viewport_size(PHONE)
    await _take(page, "documents-phone", "/documents")


async def _take_check(page: playwright.Page) -> None:
    """Take the job of the demo, which is nobody's, and a picture that waits for a person."""
    await _take(page, "checks", "/checks?everybody=true")
    await page.get_by_role("link", name="App in French", exact=True).click()
    await page.wait_for_load_state("networkidle")
    await _take(page, "check-job", page.url)
    await page.get_by_role("link", name="Decide about").click()
    await page.wait_for_load_state("networkidle")
    await _take(page, "check-picture", page.url)


async def _take_volume(page: playwright.Page) -> None:
    """Take the board of the job, and a page with its lines."""
    await _take(page, "volume-job", f"/volumes/{JOB}")
    await _take(page, "volume", f"/volumes/{JOB}/{VOLUME}")
    await page.get_by_role("link", name="land-registry-act").click()
    await page.wait_for_load_state("networkidle")
    await _take(page, "volume-page", page.url)


if __name__ == "__main__":
    asyncio.run(main())
