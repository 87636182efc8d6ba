"""Finding: a page of a volume by number or name, pages that need somebody, a volume of a job."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.async_api import expect

from tests.dashboard import volume_jobs
from tests.dashboard.volume_jobs import book, chosen, read
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.dashboard import site as sites

__all__ = ["book", "chosen", "read"]

PATH, JOB = volume_jobs.PATH, f"/volumes/{books.JOB}"


async def _names(client: httpx.AsyncClient, query: str) -> list[str]:
    html = (await client.get(f"{PATH}?{query}")).text
    return re.findall(r"<bdi>([^<]+)</bdi>", html)


async def test_a_page_is_found_by_its_number_or_name(
    site: sites.Site, book: books.Book, tmp_path: Path
) -> None:
    """A unique match is opened, several are listed."""
    person = await site.add_person()
    assert book.artifacts.is_dir()
    await volume_jobs.finish_job(site, person, tmp_path)
    async with site.browser(person, script=False) as page:
        await page.goto(PATH)
        for typed, found in (
            ("2", "page2"),
            ("page1", "page1"),
            (" PAGE3 ", "page3"),
            ("e10", "page10"),
        ):
            await page.get_by_label("Page number or name").fill(typed)
            await page.get_by_role("button", name="Find").click()
            await expect(page.locator("h1")).to_have_text(found)
            await page.goto(PATH)
    async with site.client(person) as client:
        assert await _names(client, "find=page1") == []  # it leads there
        assert await _names(client, "find=page") == ["page10", "page1", "page2", "page3"]
        assert await _names(client, "find=age1") == ["page10", "page1"]
        for nothing in ("5", "00", "-1", "nobody", "²", "9" * 400):
            html = (await client.get(PATH, params={"find": nothing})).text
            assert "No matching pages" in html, nothing


async def test_pages_are_filtered(site: sites.Site, book: books.Book, tmp_path: Path) -> None:
    """Failed pages, unread pages and uncertain ones."""
    person = await site.add_person()

    changes: dict[str, dict[str, object]] = {
        "page1": {"text": ""}, "page2": {"confidence": 0.84}, "page3": {"confidence": 0.99},
    }  # fmt: skip
    volume_jobs.rewrite(book, text=lambda row: changes.get(row.image_name, {}))
    await volume_jobs.finish_job(site, person, tmp_path)
    async with site.client(person) as client:
        assert await _names(client, "show=failed") == [volume_jobs.BROKEN]
        assert await _names(client, "show=unread") == ["page1"]
        assert await _names(client, "show=uncertain") == ["page2"]
        assert await _names(client, "show=uncertain&find=page") == ["page2"]
        assert await _names(client, "show=uncertain&find=age1") == []
        assert len(await _names(client, "show=")) == 4
        assert (await client.get(f"{PATH}?show=nonsense")).status_code == 404
    async with site.browser(person) as page:
        await page.goto(PATH)
        await page.get_by_label("Show").select_option("uncertain")
        await page.get_by_role("button", name="Find").click()
        await expect(page.locator(".page-list tbody th")).to_have_text(["page2"])
        await expect(page.get_by_label("Show")).to_have_value("uncertain")


async def test_the_search_field_survives_live_updates(
    site: sites.Site, book: books.Book, tmp_path: Path
) -> None:
    """The page reloads its content, but not the field."""
    person = await site.add_person()
    assert book.artifacts.is_dir()
    home = await volume_jobs.open_house(site, person, tmp_path)
    await home.order(volume_jobs.VOLUME, job_key=books.JOB)
    async with site.browser(person) as page:
        await page.goto(PATH)
        await page.get_by_label("Page number or name").fill("pag")
        async with page.expect_response(lambda answer: answer.url.endswith(PATH)):
            await home.orchestrator.step()
        await expect(page.locator("#volume")).to_contain_text("waiting for line_detection")
        await page.keyboard.type("e3")
        await expect(page.get_by_label("Page number or name")).to_have_value("page3")
        await page.keyboard.press("Enter")
        await expect(page.locator("h1")).to_have_text("page3")


async def test_a_volume_of_a_job_is_found_by_its_name(site: sites.Site, tmp_path: Path) -> None:
    """By work and image group, or by work; never in other jobs."""
    person, stranger = await site.add_person(), await site.add_person()
    home = await volume_jobs.open_house(site, person, tmp_path)
    await home.order("W1-I1", "W1-I2", "W2-I1", job_key=books.JOB)
    await home.order("W1-I3", "W3-I1", job_key="second")
    async with site.browser(person, script=False) as page:
        await page.goto(JOB)
        await page.get_by_label("Find a volume").fill(" W1-I2 ")
        await page.get_by_role("button", name="Find").click()
        await expect(page.locator("h1")).to_have_text("W1-I2")
        await page.goto(JOB)
        await page.get_by_label("Find a volume").fill("W1")
        await page.get_by_role("button", name="Find").click()
        await expect(page.locator("#found a")).to_have_text(["W1-I1", "W1-I2"])
        for missing in ("W1-I3", "W3", "nobody", "-", "W1-"):
            await page.get_by_label("Find a volume").fill(missing)
            await page.get_by_role("button", name="Find").click()
            await expect(page.locator("#found")).to_contain_text("no volume")
            await expect(page.locator("#found")).to_contain_text(missing)
    async with site.client(stranger) as client:
        assert (await client.get(f"{JOB}?find=W1-I1")).status_code == 404
