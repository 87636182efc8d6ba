"""Finding: a page of a volume by number or name, pages that need somebody, a volume of a job."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.async_api import expect

from tests.dashboard import shelves
from tests.dashboard.shelves import book, chosen, read
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.dashboard import place as places

__all__ = ["book", "chosen", "read"]

PATH, JOB = shelves.PATH, f"/volumes/{books.JOB}"


async def _names(client: httpx.AsyncClient, query: str) -> list[str]:
    html = (await client.get(f"{PATH}?{query}")).text
    return re.findall(r"<bdi>([^<]+)</bdi>", html)


async def test_a_page_is_found_by_its_number_or_name(
    place: places.Place, book: books.Book, tmp_path: Path
) -> None:
    """Straight to the one that is meant; where several may be, they are listed."""
    person = await place.person()
    assert book.artifacts.is_dir()
    await shelves.finished(place, person, tmp_path)
    async with place.browser(person, script=False) as page:
        await page.goto(PATH)
        for typed, found in (
            ("2", "page2"),
            ("page1", "page1"),
            (" PAGE3 ", "page3"),
            ("e10", "page10"),
        ):
            await page.get_by_label("Number or name").fill(typed)
            await page.get_by_role("button", name="Show").click()
            await expect(page.locator("h1")).to_have_text(found)
            await page.goto(PATH)
    async with place.visitor(person) as client:
        assert await _names(client, "find=page1") == []  # it leads there
        assert await _names(client, "find=page") == ["page10", "page1", "page2", "page3"]
        assert await _names(client, "find=age1") == ["page10", "page1"]
        for nothing in ("5", "00", "-1", "nobody", "²", "9" * 400):
            html = (await client.get(PATH, params={"find": nothing})).text
            assert "No page matches" in html, nothing


async def test_pages_that_need_somebody_are_filtered(
    place: places.Place, book: books.Book, tmp_path: Path
) -> None:
    """Those that failed, of which nothing was read, and of which the reader is unsure."""
    person = await place.person()

    changes: dict[str, dict[str, object]] = {
        "page1": {"text": ""}, "page2": {"confidence": 0.84}, "page3": {"confidence": 0.99},
    }  # fmt: skip
    shelves.rewrite(book, text=lambda row: changes.get(row.image_name, {}))
    await shelves.finished(place, person, tmp_path)
    async with place.visitor(person) as client:
        assert await _names(client, "show=failed") == [shelves.BROKEN]
        assert await _names(client, "show=unread") == ["page1"]
        assert await _names(client, "show=unsure") == ["page2"]
        assert await _names(client, "show=unsure&find=page") == ["page2"]
        assert await _names(client, "show=unsure&find=age1") == []
        assert len(await _names(client, "show=")) == 4
        assert (await client.get(f"{PATH}?show=nonsense")).status_code == 404
    async with place.browser(person) as page:
        await page.goto(PATH)
        await page.get_by_label("Which pages").select_option("unsure")
        await page.get_by_role("button", name="Show").click()
        await expect(page.locator(".leaves tbody th")).to_have_text(["page2"])
        await expect(page.get_by_label("Which pages")).to_have_value("unsure")


async def test_what_is_typed_stays_while_the_volume_is_under_way(
    place: places.Place, book: books.Book, tmp_path: Path
) -> None:
    """The page asks for itself again and again; what somebody is typing is not lost by that."""
    person = await place.person()
    assert book.artifacts.is_dir()
    home = await shelves.ordering(place, person, tmp_path)
    await home.order(shelves.VOLUME, job_key=books.JOB)
    async with place.browser(person) as page:
        await page.goto(PATH)
        await page.get_by_label("Number or name").fill("pag")
        async with page.expect_response(lambda answer: answer.url.endswith(PATH)):
            await home.orchestrator.look()
        await expect(page.locator("#volume")).to_contain_text("waits for line_detection")
        await page.keyboard.type("e3")
        await expect(page.get_by_label("Number or name")).to_have_value("page3")
        await page.keyboard.press("Enter")
        await expect(page.locator("h1")).to_have_text("page3")


async def test_a_volume_of_a_job_is_found_by_its_name(place: places.Place, tmp_path: Path) -> None:
    """By work and image group, or by the work; volumes of other jobs are not."""
    person, stranger = await place.person(), await place.person()
    home = await shelves.ordering(place, person, tmp_path)
    await home.order("W1-I1", "W1-I2", "W2-I1", job_key=books.JOB)
    await home.order("W1-I3", "W3-I1", job_key="second")
    async with place.browser(person, script=False) as page:
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
    async with place.visitor(stranger) as client:
        assert (await client.get(f"{JOB}?find=W1-I1")).status_code == 404
