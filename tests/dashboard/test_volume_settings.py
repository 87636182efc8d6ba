"""Settings of jobs of volumes: what is ordered with which, and done again with others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from playwright.async_api import expect

from pagewarden.database import tables
from tests.dashboard import volume_jobs
from tests.dashboard.test_accessibility import AXE
from tests.dashboard.test_login import csrf
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path

    from tests.dashboard import site as sites

JOB = f"/volumes/{books.JOB}"
OLD: dict[str, Any] = {"engine": "tesseract", "language": "bod", "exports": ["alto"]}


async def _job(site: sites.Site) -> Any:
    """Return the newest job."""
    *_, job = await site.functions.used.database.select(tables.volume_jobs, order="id")
    return job


async def _stages(site: sites.Site) -> list[str]:
    rows = await site.functions.used.database.select(tables.volume_tasks, order="id")
    return [row["current_stage"] for row in rows]


async def test_a_job_is_created_with_all_settings(site: sites.Site, tmp_path: Path) -> None:
    """Rare settings are collapsed, except after an error in the form."""
    person = await site.add_person()
    sources = "jobs/other/volumes/{w_id}-{i_id}/ocr/ocr_results.parquet"
    home = await volume_jobs.open_house(site, person, tmp_path)
    await home.order("W1-I1", job_key="other")
    async with site.browser(person) as page:
        await page.goto("/volumes")
        await page.get_by_text("New job").click()
        await page.get_by_label("Volumes, one per line").fill("W1-I1")
        await expect(page.get_by_label("Profile")).to_be_hidden()
        await page.get_by_text("More settings").click()
        await page.get_by_label("Profile").select_option("accurate")
        await page.get_by_label("Encoding").select_option("wylie")
        await page.get_by_label("Line mode").select_option("masked")
        await page.get_by_label("Merge line fragments").check()
        await page.get_by_label("Failed pages allowed").fill("0.25")
        await page.get_by_label("Combine with").fill(f"{sources}\n../x")
        await page.get_by_role("button", name="Create job").click()
        await expect(page.locator("#problem")).to_contain_text("The job was not created")
        await expect(page.get_by_label("Encoding")).to_have_value("wylie")
        await expect(page.get_by_label("Merge line fragments")).to_be_checked()
        await page.evaluate(AXE.read_text("utf-8"))
        found = await page.evaluate("axe.run().then((found) => found.violations)")
        assert [x["id"] for x in found if x["impact"] in {"serious", "critical"}] == []
        site.problems.clear()  # the browser tells of what was refused
        await page.get_by_label("Combine with").fill(sources)
        await page.get_by_role("button", name="Create job").click()
        await expect(page.locator("#notice")).to_have_text("Job created: 1 volume.")
    assert (await _job(site))["config"] == {
        "profile": "accurate", "encoding": "wylie", "line_mode": "masked", "merge_lines": True,
        "failed_pages_allowed": 0.25, "reducer": "combine", "sources": [sources],
    }  # fmt: skip


async def test_invalid_settings_are_named(site: sites.Site) -> None:
    """No job is created."""
    person = await site.add_person()
    wrong = (
        ({"failed_pages_allowed": "many"}, "failed_pages_allowed: &#39;many&#39; is not a number"),
        ({"failed_pages_allowed": "nan"}, "failed_pages_allowed: "),
        ({"failed_pages_allowed": "2"}, "failed_pages_allowed: "),
        ({"profile": "lazy"}, "profile: "),
        ({"line_mode": "wide"}, "line_mode: "),
        ({"sources": "jobs/others/x.parquet"}, "does not belong to one of your jobs"),
        ({"sources": " ".join(f"jobs/{n}/x.parquet" for n in range(17))}, "sources: "),
    )
    async with site.client(person) as client:
        form = {"csrf": await csrf(client), "volumes": "W1-I1"}
        for changes, words in wrong:
            answer = await client.post("/volumes", data=form | changes)
            assert (answer.status_code, words in answer.text) == (400, True), changes
        zero = await client.post("/volumes", data=form | {"failed_pages_allowed": "0"})
        assert zero.status_code == 303
    assert (await _job(site))["config"] == {"failed_pages_allowed": 0}


async def test_a_stage_is_rerun_with_other_settings(site: sites.Site, tmp_path: Path) -> None:
    """Unchanged settings stay."""
    person = await site.add_person()
    await volume_jobs.finish_job(site, person, tmp_path, config=OLD)
    home = await volume_jobs.open_house(site, person, tmp_path)
    async with site.browser(person) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto(JOB)
        await page.get_by_role("button", name="Rerun").click()
        await expect(page.locator("#notice")).to_contain_text("Queued again for ocr")
        assert (await _job(site))["config"] == OLD
        await home.work(home.worker())
        await page.get_by_text("Change settings").click()
        again = page.locator("#again")
        await expect(again.get_by_label("Language")).to_have_value("bod")
        await expect(again.get_by_label("ALTO")).to_be_checked()
        await again.get_by_label("Rerun from").select_option("line_detection")
        await again.get_by_label("Engine").select_option("rapid")
        await again.get_by_label("Encoding").select_option("wylie")
        await again.get_by_label("Straighten curved pages").select_option("yes")
        await again.get_by_label("Merge line fragments").select_option("no")
        await again.get_by_label("Language").fill("")
        await again.get_by_label("ALTO").uncheck()
        await again.get_by_label("text", exact=True).check()
        await page.get_by_role("button", name="Rerun").click()
        await expect(page.locator("#notice")).to_contain_text("Queued again for line_detection")
        await home.work(home.worker())
        await page.get_by_text("Change settings").click()
        await again.get_by_label("text", exact=True).uncheck()
        await page.get_by_role("button", name="Rerun").click()
        await expect(page.locator("#notice")).to_contain_text("Queued again for ocr")
    job = await _job(site)
    assert job["config"] == {
        "engine": "rapid", "encoding": "wylie", "use_tps": True, "merge_lines": False,
        "language": "", "exports": [],
    }  # fmt: skip


async def test_settings_of_other_stages_are_rejected(site: sites.Site, tmp_path: Path) -> None:
    """As are unknown ones; nothing is rerun."""
    person = await site.add_person()
    await volume_jobs.finish_job(site, person, tmp_path, config=OLD)
    wrong = (
        ({"stage": "ocr", "engine": "nonsense"}, "engine: "),
        ({"stage": "ocr", "use_tps": "true"}, "only line_detection uses it"),
        ({"stage": "reduce", "engine": "rapid"}, "only ocr uses it"),
        ({"stage": "reduce", "exports": ["", "docx"]}, "exports.0: "),
    )
    async with site.client(person) as client:
        token = await csrf(client)
        for form, words in wrong:
            answer = await client.post(f"{JOB}/rerun", data={"csrf": token} | form)
            assert answer.status_code == 303, answer.text
            shown = (await client.get(JOB)).text
            assert '<p class="notice bad">' in shown
            assert words in shown, form
            assert await _stages(site) == ["done"]
        strange = {"csrf": token, "stage": "ocr", "use_tps": "perhaps"}
        assert (await client.post(f"{JOB}/rerun", data=strange)).status_code == 404
    assert (await _job(site))["config"] == OLD
