"""The wheel is all that a user needs: one package, with commands, server and dashboard."""

from __future__ import annotations

import base64
import io
import subprocess
import zipfile
from typing import TYPE_CHECKING

import pytest
from PIL import Image, ImageDraw, ImageFont
from playwright.async_api import expect

from benchmarks import system as systems
from tests.support import chromium

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Page

    from tests.wheel.conftest import Wheel

TEXT = "The quick brown fox jumps over the lazy dog"
READ_MILLISECONDS = 60_000

_DROP = """async ([name, data]) => {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  const carried = new DataTransfer();
  carried.items.add(new File([bytes], name, {type: "image/png"}));
  document.dispatchEvent(new DragEvent("drop", {dataTransfer: carried, bubbles: true}));
}"""
_LIST_MODULES = """
import sys
import pagewarden.functions.app
print(*(m.__file__ for n, m in sys.modules.items() if n.split(".")[0] == "pagewarden"))
"""


@pytest.fixture
def page_image() -> bytes:
    """Draw a page with one line of text."""
    image = Image.new("L", (1200, 300), 255)
    ImageDraw.Draw(image).text((40, 110), TEXT, fill=0, font=ImageFont.load_default(44))
    buffer = io.BytesIO()
    image.save(buffer, "png")
    return buffer.getvalue()


def test_wheel_installs_one_package(wheel: Wheel) -> None:
    """No other top-level name, no tests, no benchmarks; browser files and migrations are inside."""
    names = zipfile.ZipFile(wheel.file).namelist()
    folders = {name.split("/")[0] for name in names}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {"pagewarden"}
    assert any(name.endswith("htmx.min.js") for name in names)
    assert sum(name.endswith(".sql") for name in names) > 30
    assert not [name for name in names if "/tests/" in name or "benchmarks" in name]


def test_modules_come_from_the_wheel(wheel: Wheel, tmp_path: Path) -> None:
    """The repository is out of reach."""
    found = subprocess.run(
        [wheel.environment / "bin" / "python", "-c", _LIST_MODULES],
        cwd=tmp_path, env=wheel.variables(tmp_path), check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    assert len(found) > 50
    assert [path for path in found if not path.startswith(str(wheel.environment))] == []


def test_ocr_reads_a_page(wheel: Wheel, tmp_path: Path, page_image: bytes) -> None:
    """`pagewarden ocr page.png` needs no database and no server."""
    page = tmp_path / "page.png"
    page.write_bytes(page_image)
    read = subprocess.run(
        [wheel.command, "ocr", page],
        cwd=tmp_path, env=wheel.variables(tmp_path), check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert TEXT in read.stdout


async def _sign_in(page: Page, output: str) -> None:
    match = systems.FIRST_SIGN_IN.search(output)
    assert match is not None, output
    await page.goto("/")
    await page.get_by_label("E-mail").fill(match[1])
    await page.get_by_label("Password").fill(match[2])
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("link", name="Documents")).to_be_visible()
    await page.goto("/documents")


async def test_system_reads_an_upload_and_saves_a_correction(
    wheel: Wheel, page_image: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pagewarden up`: sign in, drop a file, watch it being read, correct it and save."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with systems.prepare() as installation:
        folder = installation.home.parent
        async with (
            systems.open_installation(installation, (wheel.command, "up"), folder=folder) as system,
            chromium.run_chromium() as browser,
        ):
            page = await browser.new_page(base_url=system.url)
            await _sign_in(page, "\n".join(system.output))
            await page.evaluate(_DROP, ["page.png", base64.b64encode(page_image).decode()])
            upload = page.locator("#uploads li")
            await expect(upload.locator(".completed")).to_be_visible(timeout=READ_MILLISECONDS)
            await upload.get_by_role("link").click()
            await expect(page.locator("pre")).to_have_text(TEXT)
            await page.goto(f"{page.url}/review")
            line = page.locator("#lines textarea").first
            await line.fill("The quick red fox")
            await page.get_by_role("button", name="Save", exact=True).click()
            await expect(page.locator("#notice")).to_be_visible()
            await page.reload()
            await expect(line).to_have_value("The quick red fox")
