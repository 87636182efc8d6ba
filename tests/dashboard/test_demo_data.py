"""supabase/seed.sql: the demo documents of a fresh project, as the dashboard shows them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.async_api import expect

from pagewarden.documents import retention
from tests.database import queries

if TYPE_CHECKING:
    from tests.dashboard import site as sites

SEED = (Path(__file__).parents[2] / "supabase" / "seed.sql").read_text("utf-8")
NO_FILE = "This document has text but no file"


async def test_a_fresh_project_shows_something_on_every_page(site: sites.Site) -> None:
    """Documents of all lanes, without an error where their files would be shown."""
    conn = await site.functions.database.connect()
    for _ in range(2):
        await conn.execute(SEED.encode())
    found = await queries.rows(conn, "select id, lane, name, ocr_status from documents")
    assert sorted(row["lane"] for row in found) == [
        "acte", "check", "check", "image", "image", "index", "pdf",
    ]  # fmt: skip
    assert {row["ocr_status"] for row in found} == {"completed"}
    registry = await queries.rows(conn, "select status_id, ocr_attempts from extraction_queue")
    assert registry == [{"status_id": 5, "ocr_attempts": 1}] * 2
    assert await queries.violations(conn) == []
    by_name = {row["name"]: f"/documents/{row['id']}" for row in found}
    admin = await site.add_person(admin=True)
    async with site.browser(admin) as page:
        for url, text in {
            "/": "7",
            "/documents": "letter-1952.png",
            "/documents?q=register": "copy of the register of ships",
            "/documents?lane=acte": "acte-1874-23.jpg",
            by_name["acte-1874-23.jpg"]: NO_FILE,
            f"{by_name['report-2019.pdf']}/review?page=2": NO_FILE,
            "/review": "receipt.jpg",
            f"{by_name['receipt.jpg']}/review": "Mi1k 1,20",
            "/checks?everybody=1": "Demo",
            "/cases": "Demo",
            "/audit": "completed",
        }.items():
            response = await page.goto(url)
            assert response is not None
            assert response.ok, url
            await expect(page.locator("main")).to_contain_text(text)
        await page.goto("/checks?everybody=1")
        await page.get_by_role("link", name="Demo").first.click()
        await expect(page.locator(".pictures")).to_contain_text("no file")
        await page.get_by_role("link", name="save.png").click()
        await expect(page.locator("#view")).to_contain_text(NO_FILE)
        await expect(page.locator("#marks .mark")).to_have_count(1)
        await page.goto(by_name["letter-1952.png"])
        await expect(page.get_by_role("link", name="TXT")).to_be_visible()
        await expect(page.get_by_role("link", name="PDF")).to_have_count(0)
        await expect(page.get_by_role("button", name="Read again")).to_have_count(0)
    async with site.client(admin) as client:
        for path in ("file", "pages/1/picture"):
            answer = await client.get(
                f"{by_name['letter-1952.png']}/{path}", headers={"Accept": "application/json"}
            )
            assert answer.status_code == 404
            assert answer.json()["message"].startswith("the document has no file; upload it")


async def test_retention_and_erasing_take_documents_without_files(site: sites.Site) -> None:
    """They leave nothing to remove from the store, and nothing unknown."""
    conn = await site.functions.database.connect()
    await conn.execute(SEED.encode())
    used = site.functions.used
    policy = retention.RetentionPolicy(result_days=1e-9, input_days=1e-9, bin_days=1e-9)
    (case,) = await queries.rows(
        conn, "select id from cases where kind = 'client' and name = 'Demo'"
    )
    await used.database.erase_case(case_id=str(case["id"]))
    done = await retention.apply_retention(
        used.database, used.store, policy, now=dt.datetime.now(dt.UTC)
    )
    assert (done.erased, done.erased_jobs, done.unknown.count) == (0, 1, 0)
    assert await queries.rows(conn, "select id from documents") == []
    assert await queries.violations(conn) == []
    await conn.execute(SEED.encode())
    assert len(await queries.rows(conn, "select id from documents")) == 7
