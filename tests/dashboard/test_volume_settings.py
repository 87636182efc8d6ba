"""Settings of jobs of volumes: what is ordered with which, and done again with others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from playwright.async_api import expect

from pagewarden.database import tables
from tests.dashboard import shelves
from tests.dashboard.test_accessibility import AXE
from tests.dashboard.test_doors import csrf
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path

    from tests.dashboard import place as places

JOB = f"/volumes/{books.JOB}"
OLD: dict[str, Any] = {"engine": "tesseract", "language": "bod", "exports": ["alto"]}


async def _job(place: places.Place) -> Any:
    """Give the job that was ordered last."""
    *_, job = await place.functions.used.database.select(tables.volume_jobs, order="id")
    return job


async def _stages(place: places.Place) -> list[str]:
    rows = await place.functions.used.database.select(tables.volume_tasks, order="id")
    return [row["current_stage"] for row in rows]


async def test_a_job_is_ordered_with_whatever_can_be_set(
    place: places.Place, tmp_path: Path
) -> None:
    """What most never think of is behind a disclosure, which stays open when something is wrong."""
    person = await place.person()
    sources = "jobs/other/volumes/{w_id}-{i_id}/ocr/ocr_results.parquet"
    home = await shelves.ordering(place, person, tmp_path)
    await home.order("W1-I1", p_job_key="other")
    async with place.browser(person) as page:
        await page.goto("/volumes")
        await page.get_by_text("Order volumes").click()
        await page.get_by_label("Volumes, one on a line").fill("W1-I1")
        await expect(page.get_by_label("Profile")).to_be_hidden()
        await page.get_by_text("More settings").click()
        await page.get_by_label("Profile").select_option("accurate")
        await page.get_by_label("Encoding").select_option("wylie")
        await page.get_by_label("How lines are cut out").select_option("masked")
        await page.get_by_label("Join pieces").check()
        await page.get_by_label("Share of pages that may fail").fill("0.25")
        await page.get_by_label("Combine with").fill(f"{sources}\n../x")
        await page.get_by_role("button", name="Order them").click()
        await expect(page.locator("#problem")).to_contain_text("Nothing was ordered")
        await expect(page.get_by_label("Encoding")).to_have_value("wylie")
        await expect(page.get_by_label("Join pieces")).to_be_checked()
        await page.evaluate(AXE.read_text("utf-8"))
        found = await page.evaluate("axe.run().then((found) => found.violations)")
        assert [x["id"] for x in found if x["impact"] in {"serious", "critical"}] == []
        place.problems.clear()  # the browser tells of what was refused
        await page.get_by_label("Combine with").fill(sources)
        await page.get_by_role("button", name="Order them").click()
        await expect(page.locator("#notice")).to_have_text("1 volume ordered.")
    assert (await _job(place))["config"] == {
        "profile": "accurate", "encoding": "wylie", "line_mode": "masked", "merge_lines": True,
        "failed_pages_allowed": 0.25, "reducer": "combine", "sources": [sources],
    }  # fmt: skip


async def test_settings_that_make_no_sense_are_named(place: places.Place) -> None:
    """Nothing is ordered with them."""
    person = await place.person()
    wrong = (
        ({"failed_pages_allowed": "many"}, "failed_pages_allowed: &#39;many&#39; is no number"),
        ({"failed_pages_allowed": "nan"}, "failed_pages_allowed: "),
        ({"failed_pages_allowed": "2"}, "failed_pages_allowed: "),
        ({"profile": "lazy"}, "profile: "),
        ({"line_mode": "wide"}, "line_mode: "),
        ({"sources": "jobs/others/x.parquet"}, "is not of a job of yours"),
        ({"sources": " ".join(f"jobs/{n}/x.parquet" for n in range(17))}, "sources: "),
    )
    async with place.visitor(person) as client:
        form = {"csrf": await csrf(client), "volumes": "W1-I1"}
        for changes, words in wrong:
            answer = await client.post("/volumes", data=form | changes)
            assert (answer.status_code, words in answer.text) == (400, True), changes
        zero = await client.post("/volumes", data=form | {"failed_pages_allowed": "0"})
        assert zero.status_code == 303
    assert (await _job(place))["config"] == {"failed_pages_allowed": 0}


async def test_a_stage_is_done_again_with_other_settings(
    place: places.Place, tmp_path: Path
) -> None:
    """Only what was changed is other than it was; without a change, nothing is."""
    person = await place.person()
    await shelves.finished(place, person, tmp_path, config=OLD)
    home = await shelves.ordering(place, person, tmp_path)
    async with place.browser(person) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto(JOB)
        await page.get_by_role("button", name="Do it again").click()
        await expect(page.locator("#notice")).to_contain_text("in the queue of ocr again")
        assert (await _job(place))["config"] == OLD
        await home.work(home.worker())
        await page.get_by_text("with other settings").click()
        again = page.locator("#again")
        await expect(again.get_by_label("Language")).to_have_value("bod")
        await expect(again.get_by_label("ALTO")).to_be_checked()
        await again.get_by_label("Do again").select_option("line_detection")
        await again.get_by_label("Engine").select_option("rapid")
        await again.get_by_label("Encoding").select_option("wylie")
        await again.get_by_label("Set curved pages straight").select_option("yes")
        await again.get_by_label("Join pieces").select_option("no")
        await again.get_by_label("Language").fill("")
        await again.get_by_label("ALTO").uncheck()
        await again.get_by_label("text", exact=True).check()
        await page.get_by_role("button", name="Do it again").click()
        await expect(page.locator("#notice")).to_contain_text("of line_detection again")
        await home.work(home.worker())
        await page.get_by_text("with other settings").click()
        await again.get_by_label("text", exact=True).uncheck()
        await page.get_by_role("button", name="Do it again").click()
        await expect(page.locator("#notice")).to_contain_text("of ocr again")
    job = await _job(place)
    assert job["config"] == {
        "engine": "rapid", "encoding": "wylie", "use_tps": True, "merge_lines": False,
        "language": "", "exports": [],
    }  # fmt: skip


async def test_settings_that_a_stage_cannot_have_change_nothing(
    place: places.Place, tmp_path: Path
) -> None:
    """One that is unknown, or of a stage that is not done again: it is said, and nothing done."""
    person = await place.person()
    await shelves.finished(place, person, tmp_path, config=OLD)
    wrong = (
        ({"stage": "ocr", "engine": "nonsense"}, "engine: "),
        ({"stage": "ocr", "use_tps": "true"}, "it matters in line_detection"),
        ({"stage": "reduce", "engine": "rapid"}, "it matters in ocr"),
        ({"stage": "reduce", "exports": ["", "docx"]}, "exports.0: "),
    )
    async with place.visitor(person) as client:
        token = await csrf(client)
        for form, words in wrong:
            answer = await client.post(f"{JOB}/rerun", data={"csrf": token} | form)
            assert answer.status_code == 303, answer.text
            shown = (await client.get(JOB)).text
            assert '<p class="notice bad">' in shown
            assert words in shown, form
            assert await _stages(place) == ["done"]
        strange = {"csrf": token, "stage": "ocr", "use_tps": "perhaps"}
        assert (await client.post(f"{JOB}/rerun", data=strange)).status_code == 404
    assert (await _job(place))["config"] == OLD
