#!/usr/bin/env python3
"""Take the screenshots of docs/images on a temporary system with the demo documents.

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
from pagewarden.cli import demo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SIZE = playwright.ViewportSize(width=1280, height=800)
JOB, VOLUME = "archive", "W1874-I23"
PHONE = playwright.ViewportSize(width=390, height=844)


async def main() -> None:
    """Take all screenshots."""
    IMAGES.mkdir(exist_ok=True)
    async with systems.open_system() as system:
        await _upload_demo(system)
        await _process_volume(system)
        match = systems.FIRST_SIGN_IN.search("\n".join(system.output))
        assert match, "the output has no sign-in"  # noqa: S101  # a script
        async with playwright.async_playwright() as programs:
            browser = await programs.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            page = await browser.new_page(base_url=system.url, viewport=SIZE)
            await page.goto("/sign-in")
            await page.screenshot(path=IMAGES / "sign-in.png")
            await _sign_in(page, match[1], match[2])
            async for name, path in _take_menu_pages(page):
                await _take(page, name, path)
            await _take_special(page)
            await browser.close()


async def _upload_demo(system: systems.System) -> None:
    """Upload the demo documents and wait until all are processed."""
    await _run(system, "demo")
    while True:
        health = json.loads(await _run(system, "status", "--json"))["health"]
        if not health["queued"] and not health["processing"] and not health["waiting_to_retry"]:
            return


async def _process_volume(system: systems.System) -> None:
    """Process the images of the demo as a volume, with one damaged page."""
    with tempfile.TemporaryDirectory() as folder:
        samples, book = Path(folder) / "samples", Path(folder) / VOLUME
        samples.mkdir()
        book.mkdir()
        for path in demo.write_documents(samples):
            if path.suffix in {".jpg", ".png"}:
                path.rename(book / path.name)
        (book / "zz-torn.jpg").write_bytes(b"torn")
        options = ("--key", JOB, "--set", "failed_pages_allowed=0.5")
        await _run(system, "volumes", "create", str(book), *options)
    await _run(system, "volumes", "status", JOB, "--watch")


async def _run(system: systems.System, *arguments: str) -> bytes:
    port = system.url.rpartition(":")[2]
    home = {"PAGEWARDEN_HOME": str(system.home), "PAGEWARDEN_LISTEN_PORT": port}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pagewarden", *arguments),
        env=os.environ | home,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, f"pagewarden {arguments[0]} failed"  # noqa: S101  # a script
    return output


async def _sign_in(page: playwright.Page, email: str, password: str) -> None:
    await page.get_by_label("E-mail").fill(email)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("navigation").wait_for()


async def _take_menu_pages(page: playwright.Page) -> AsyncIterator[tuple[str, str]]:
    links = page.locator("header nav a")  # including those of closed menus
    for path in [await link.get_attribute("href") or "/" for link in await links.all()]:
        yield path.strip("/"), path


async def _take(page: playwright.Page, name: str, path: str) -> None:
    await page.goto(path)
    await page.wait_for_load_state()
    await page.screenshot(path=IMAGES / f"{name}.png")
    print(f"docs/images/{name}.png")  # noqa: T201  # a script


async def _take_special(page: playwright.Page) -> None:
    """Take pages that are not in the menu: a document, a check job, a volume, a phone."""
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
    """Take the check job of the demo, which has no owner, and an image that needs review."""
    await _take(page, "checks", "/checks?everybody=true")
    await page.get_by_role("link", name="App in French", exact=True).click()
    await page.wait_for_load_state("networkidle")
    await _take(page, "check-job", page.url)
    await page.get_by_role("link", name=re.compile(r"^Review \d")).click()
    await page.wait_for_load_state("networkidle")
    await _take(page, "check-picture", page.url)


async def _take_volume(page: playwright.Page) -> None:
    """Take the stage board of the job, and a page with its lines."""
    await _take(page, "volume-job", f"/volumes/{JOB}")
    await _take(page, "volume", f"/volumes/{JOB}/{VOLUME}")
    await page.get_by_role("link", name="land-registry-act").click()
    await page.wait_for_load_state("networkidle")
    await _take(page, "volume-page", page.url)


if __name__ == "__main__":
    asyncio.run(main())
