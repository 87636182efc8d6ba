"""Checks: pictures are submitted by dropping them, watched, looked at and decided about."""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from pagewarden import errors
from pagewarden.database import tables
from tests.checks import written
from tests.dashboard import browsing, screens
from tests.dashboard.test_guards import EVIL
from tests.dashboard.test_login import csrf

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Page

    from pagewarden.database import rows
    from tests.dashboard import site as sites

GOOD, BAD = screens.GOOD, screens.BAD

CORNERS = """(polygon) => [...polygon.points].map((point) => {
  const { x, y } = point.matrixTransform(polygon.getScreenCTM());
  return [x, y];
})"""


@pytest.fixture
def reader() -> screens.Reader:
    """Return a reader of the drawn lines."""
    return screens.Reader()


async def _drop(page: Page, *paths: Path) -> None:
    """Drop files and folders with the mouse."""
    session = await page.context.new_cdp_session(page)
    carried = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        event = {"type": kind, "x": 600, "y": 200, "data": carried}
        await session.send("Input.dispatchDragEvent", event)


async def _job(site: sites.Site, job: str) -> rows.CheckJobDetails:
    found = (await site.functions.used.database.check_job(job_id=job))["job"]
    assert found is not None
    return found


async def _decisions(site: sites.Site, job: str) -> list[str | None]:
    return [one["decision"] for one in (await _job(site, job))["results"]]


async def test_a_dropped_folder_becomes_a_job(
    site: sites.Site, reader: screens.Reader, tmp_path: Path
) -> None:
    """Pictures are submitted with their texts; job and list update live."""
    person = await site.add_person()
    folder = tmp_path / "écrans"
    folder.mkdir()
    for name, screen in {"a.png": GOOD, "b.png": BAD, "c.png": GOOD}.items():
        (folder / name).write_bytes(screens.draw((*screen.lines, name)))
        reader.lines[f"écrans/{name}"] = screen.lines
    (folder / "b.txt").write_text("\n".join(BAD.expected))
    (folder / ".DS_Store").write_bytes(b"?")
    async with site.browser(person) as page:
        await page.goto("/checks")
        await expect(page.locator("#results")).to_contain_text("You have no jobs yet")
        await _drop(page, folder)
        files = page.locator("#files li")
        await expect(files).to_have_count(4)
        await page.get_by_role("button", name="Remove écrans/c.png").click()
        await page.get_by_label("Text language").select_option("fr")
        await page.get_by_label("Job name").fill("Release 7")
        await page.get_by_text("Expected text", exact=True).click()
        await page.get_by_label("Expected strings for pictures").fill("Enregistrer\nAnnuler")
        await page.get_by_label("Words allowed in any language").fill("Acme\nZeta")
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        await page.get_by_role("button", name="Check 3 files").click()
        await page.wait_for_url("**/checks/*-*")
        await expect(page.locator("h1")).to_have_text("Release 7")
        await expect(page.locator(".facts .pending")).to_be_visible()
        await site.functions.read()
        await expect(page.locator(".facts .succeeded")).to_be_visible()
        await expect(page.locator(".facts")).to_contain_text("2 of 2")
        await expect(page.locator(".pictures .pass")).to_have_count(1)
        assert len([url for url in asked if url.endswith("/pages/1/picture")]) == 2
        await page.get_by_role("link", name="All checks").click()
        row = page.get_by_role("row", name="Release 7")
        await expect(row).to_contain_text("French (fr)")
        await expect(row.locator("td")).to_have_text(
            ["French (fr)", "succeeded", "2 of 2", "1", "1", "1", re.compile("UTC")]
        )
    (job,) = await site.functions.used.database.select(tables.check_jobs)
    assert (job["submitted_by"], job["allowed"]) == (str(person.id), ["Acme", "Zeta"])
    results = (await _job(site, job["id"]))["results"]
    assert [(one["image"], one["reference"]) for one in results] == [
        ("écrans/a.png", list(GOOD.expected)),
        ("écrans/b.png", list(BAD.expected)),
    ]


async def test_problems_are_shown_beside_their_picture(site: sites.Site, tmp_path: Path) -> None:
    """The corrected job is submitted; an interrupted connection creates no second job."""
    person = await site.add_person()
    evil = '<img src=x onerror=alert(1)>".png'
    for name, content in {"a.png": screens.draw("a"), evil: b"hello", "lone.txt": b"x"}.items():
        (tmp_path / name).write_bytes(content)
    async with site.browser(person) as page:
        await page.goto("/checks")
        button = page.get_by_role("button", name=re.compile("^Check"))
        problems, files = page.locator("#problems"), page.locator("#files li")
        await page.get_by_label("Text language").select_option("fr")
        await button.click()
        await expect(problems).to_have_text("Select pictures first, or drop them on this page.")
        inputs = [tmp_path / name for name in ("a.png", evil, "lone.txt")]
        await page.set_input_files("input[name=images]", inputs)
        await page.get_by_text("Expected text", exact=True).click()
        await page.get_by_label("Reject the job unless").check()
        await button.click()
        await expect(problems).to_be_focused()
        await expect(problems).to_contain_text("4 problems found")
        await expect(files.nth(0)).to_contain_text("the picture has no reference, and references")
        await expect(files.nth(1).locator(".problem")).to_have_text(
            [re.compile("no reference"), re.compile("plain text, not a supported picture")]
        )
        await expect(files.nth(2)).to_contain_text("this text file matches no picture")
        assert await page.locator("main img").count() == 0
        for name in (evil, "lone.txt"):
            await page.get_by_role("button", name=f"Remove {name}").click()
        await page.get_by_label("Reject the job unless").uncheck()
        async with _answers_lost(page, "/checks"):
            await button.click()
            await expect(problems).to_contain_text("The connection was interrupted")
        await button.click()
        await page.wait_for_url("**/checks/*-*")
        site.problems.clear()  # the browser tells of what was refused
    assert len(await site.functions.used.database.select(tables.check_jobs)) == 1


@contextlib.asynccontextmanager
async def _answers_lost(page: Page, path: str) -> AsyncIterator[None]:
    """Let requests reach the server, but drop its responses."""
    session = await page.context.new_cdp_session(page)
    losing = set()

    def lose(event: dict[str, Any]) -> None:
        lost = {"requestId": event["requestId"], "errorReason": "ConnectionReset"}
        losing.add(asyncio.ensure_future(session.send("Fetch.failRequest", lost)))

    session.on("Fetch.requestPaused", lose)
    patterns = [{"urlPattern": f"*{path}", "requestStage": "Response"}]
    await session.send("Fetch.enable", {"patterns": patterns})
    yield
    await asyncio.gather(*losing)
    await session.detach()


async def test_everything_but_dropping_works_without_scripts(
    site: sites.Site, reader: screens.Reader, tmp_path: Path
) -> None:
    """Submit, see the problems, decide and rerun."""
    person = await site.add_person()
    for name, content in {"a.png": screens.draw(BAD.lines), "b.png": b"?"}.items():
        (tmp_path / name).write_bytes(content)
    reader.lines["a.png"] = BAD.lines
    async with site.browser(person, script=False) as page:
        for names in (["a.png", "b.png"], ["a.png"]):
            await page.goto("/checks")
            await page.get_by_label("Text language").select_option("fr")
            await page.get_by_text("Expected text", exact=True).click()
            await page.get_by_label("Expected strings for pictures").fill("\n".join(BAD.expected))
            paths = [tmp_path / name for name in names]
            await page.set_input_files("input[name=images]", paths)
            await page.get_by_role("button", name="Check pictures").click()
            if "b.png" in names:
                await expect(page.locator("h1")).to_have_text("Job not accepted")
                await expect(page.locator(".problems")).to_contain_text("b.png: the file is")
                site.problems.clear()  # the browser tells of what was refused
        await expect(page.locator("#notice")).to_have_text("The pictures were queued.")
        await site.functions.read()
        await page.reload()
        await page.get_by_role("link", name="Review 1 picture").click()
        await page.get_by_role("link", name="Issue 1: show it").click()
        assert page.url.endswith("#mark-1")
        await page.get_by_role("button", name="Accept").click()
        await expect(page.locator("#notice")).to_have_text(
            "a.png is accepted. No undecided pictures are left."
        )
        await page.get_by_role("button", name="Rerun all").click()
        await expect(page.locator(".facts .pending")).to_be_visible()


async def test_issues_are_marked_in_the_picture(site: sites.Site, reader: screens.Reader) -> None:
    """At any zoom; marks and issues highlight each other; differences are shown by letter."""
    person = await site.add_person()
    job = await screens.submit_job(site, reader, person, {"a.png": BAD})
    await site.functions.read()
    issues = (await _job(site, job))["results"][0]["issues"]
    kinds = [issue["kind"] for issue in issues]
    assert kinds == ["placeholder", "different", "truncated", "missing"]
    async with site.browser(person) as page:
        await page.goto(f"/checks/{job}/pictures/1")
        await site.wait_until(page, "document.getElementById('picture').naturalWidth > 500")
        marks, listed = page.locator("#marks .mark"), page.locator(".issues > li")
        await _drawn_rightly(page, issues[:3])
        await page.keyboard.press("+")
        await page.get_by_role("button", name="Zoom in").click()
        await _drawn_rightly(page, issues[:3])
        await page.keyboard.press("0")
        await expect(marks).to_have_text(["1", "2", "3"])
        await listed.nth(1).hover()
        await expect(marks.nth(1)).to_have_class(re.compile("highlighted"))
        await marks.nth(0).locator("polygon").hover()
        await expect(listed.nth(0)).to_have_class(re.compile("highlighted"))
        await expect(marks.nth(1)).not_to_have_class(re.compile("highlighted"))
        await marks.nth(0).locator("polygon").click()
        await expect(page.get_by_role("link", name="Issue 1: show it")).to_be_focused()
        await page.keyboard.press("i")
        await page.keyboard.press("i")
        await expect(marks.nth(2)).to_have_class(re.compile("highlighted"))
        await page.keyboard.press("Shift+I")
        await expect(marks.nth(1)).to_have_class(re.compile("highlighted"))
        for _ in range(2):
            await page.keyboard.press("i")
        await expect(listed.nth(3)).to_have_class(re.compile("highlighted"))  # which is nowhere
        different = listed.nth(1)
        await expect(different).to_contain_text("Expected 'Enregistrer'")
        await expect(different.locator("del")).to_have_text("r")
        await expect(different.locator("ins")).to_have_text("z")
        await expect(page.locator(".references .status")).to_have_text(
            ["different", "match", "truncated", "missing"]
        )
        await expect(page.locator(".references del")).to_have_text(["r", "asse"])
        await expect(page.locator("pre")).to_have_text("\n".join(BAD.lines))


async def _drawn_rightly(page: Page, issues: list[dict[str, Any]]) -> None:
    picture = await page.locator("#picture").bounding_box()
    assert picture is not None
    scale = picture["width"] / written.WIDTH
    assert picture["height"] == pytest.approx(written.HEIGHT * scale, abs=1)
    for number, issue in enumerate(issues, start=1):
        found = await page.locator(f"#mark-{number} polygon").evaluate(CORNERS)
        for corner, (x, y) in zip(found, issue["quad"], strict=True):
            wanted = [picture["x"] + x * scale, picture["y"] + y * scale]
            assert corner == pytest.approx(wanted, abs=0.5), number


async def test_pictures_are_decided_with_the_keyboard(
    site: sites.Site, reader: screens.Reader
) -> None:
    """From one undecided picture to the next; decisions are undone; the URL keeps the filter."""
    person = await site.add_person()
    names = {"a.png": BAD, "b.png": GOOD, "c.png": BAD, "d.png": BAD}
    job = await screens.submit_job(site, reader, person, names)
    await site.functions.read()
    async with site.browser(person) as page:
        title, notice, keys = page.locator("h1"), page.locator("#notice"), page.keyboard

        async def press(key: str, then: str) -> None:
            await expect(page.get_by_role("button", name="Shortcuts")).to_be_visible()
            await site.wait_until(page, "document.getElementById('picture').complete")
            await keys.press(key)
            await expect(title).to_have_text(then)

        await page.goto(f"/checks/{job}?show=manual")
        pictures = page.locator(".pictures h2")
        await expect(pictures).to_have_text(["a.png", "c.png", "d.png"])
        await pictures.nth(1).get_by_role("link").click()
        await expect(title).to_have_text("c.png")
        await press("p", "a.png")
        await press("n", "c.png")
        await press("a", "d.png")
        await expect(notice).to_have_text("c.png is accepted.")
        await press("r", "a.png")
        await expect(notice).to_have_text("d.png is rejected.")
        await press("p", "a.png")  # which is the first
        await keys.press("?")
        await page.get_by_label("Enable these shortcuts").uncheck()
        await page.get_by_role("button", name="Close").click()
        await press("n", "a.png")  # switched off
        await page.get_by_role("button", name="Shortcuts").click()
        await page.get_by_label("Enable these shortcuts").check()
        await keys.press("Escape")
        await press("a", "Release 7")
        await expect(notice).to_have_text("a.png is accepted. No undecided pictures are left.")
        assert await _decisions(site, job) == ["accepted", None, "accepted", "rejected"]
        await page.goto(f"/checks/{job}?show=undecided")
        await expect(page.locator(".empty")).to_have_text("No pictures need a decision.")
        await page.goto(f"/checks/{job}/pictures/4")
        await expect(page.locator(".state .rejected")).to_be_visible()
        await press("u", "d.png")
        await expect(notice).to_have_text("The decision was undone.")
    assert await _decisions(site, job) == ["accepted", None, "accepted", None]


async def test_a_job_is_cancelled_and_rerun(site: sites.Site, reader: screens.Reader) -> None:
    """Cancelling asks for confirmation; a rerun reads what has no result; errors are shown."""
    person = await site.add_person()
    job = await screens.submit_job(site, reader, person, {"a.png": BAD, "b.png": GOOD})
    async with site.browser(person) as page:
        await page.goto(f"/checks/{job}")
        await page.get_by_role("button", name="Cancel").click()  # dialogs are dismissed
        assert (await _job(site, job))["status"] == "PENDING"
        page.on("dialog", lambda dialog: dialog.accept())
        await page.get_by_role("button", name="Cancel").click()
        await expect(page.locator("#notice")).to_contain_text("The job was cancelled")
        await expect(page.locator(".facts .cancelled")).to_be_visible()
        reader.lines["b.png"] = errors.DamagedFile("it breaks off in the middle")
        await page.get_by_role("button", name="Rerun", exact=True).click()
        await expect(page.locator("#notice")).to_contain_text(
            "Pictures without a result were queued again"
        )
        await site.functions.read()
        await page.reload()
        await expect(page.locator(".notice.bad")).to_contain_text(
            "The job failed: b.png: it breaks off in the middle."
        )
        await expect(page.locator(".pictures > li").nth(1)).to_contain_text("it breaks off")
        reader.lines["b.png"] = GOOD.lines
        await page.get_by_role("button", name="Rerun", exact=True).click()
        await site.functions.read()
        await page.reload()
        await expect(page.locator(".facts .succeeded")).to_be_visible()
        await page.get_by_role("button", name="Rerun all").click()
        await expect(page.locator(".facts .pending")).to_be_visible()
        await expect(page.locator(".facts")).to_contain_text("Runs4")
        await site.functions.read()
        for kind in ("HTML", "CSV", "JSON"):
            async with page.expect_download() as download:
                await page.get_by_role("link", name=kind).click()
            content = (await browsing.read_download(await download.value)).decode()
            assert "Expected 'Enregistrer'" in content.replace("&#39;", "'")


async def test_decisions_about_an_earlier_run_are_rejected(
    site: sites.Site, reader: screens.Reader
) -> None:
    """So are decisions about pictures without a result."""
    person = await site.add_person()
    job = await screens.submit_job(site, reader, person, {"a.png": BAD})
    path = f"/checks/{job}/pictures/1"
    async with site.client(person) as client:
        form = {"csrf": await csrf(client), "decision": "accepted", "run": "1"}
        await client.post(path, data=form)
        assert "the picture has no result yet" in (await client.get(path)).text
        await site.functions.read()
        again = {"csrf": form["csrf"]}
        assert (await client.post(f"/checks/{job}/rerun-all", data=again)).status_code == 303
        await site.functions.read()
        await client.post(path, data=form)
        assert "rerun in the meantime" in (await client.get(path)).text
        assert await _decisions(site, job) == [None]
        await client.post(path, data=form | {"run": "2"})
        assert await _decisions(site, job) == ["accepted"]
        nowhere = await client.get(f"/checks/{job}/pictures/2")
        assert (nowhere.status_code, "no such picture" in nowhere.text) == (404, True)


async def test_jobs_are_visible_to_members_and_hac(
    site: sites.Site, reader: screens.Reader
) -> None:
    """Viewers cannot act; HAC sees the jobs of all users on request."""
    owner, stranger, viewer = [await site.add_person() for _ in range(3)]
    admin = await site.add_person(admin=True)
    job = await screens.submit_job(site, reader, owner, {"a.png": BAD})
    await site.functions.read()
    picture = f"/checks/{job}/pictures/1"
    paths = (f"/checks/{job}", picture, f"/checks/{job}/report/csv", f"/checks/{uuid.uuid4()}")
    acts = (picture, f"/checks/{job}/cancel", f"/checks/{job}/rerun-all")
    async with site.client(stranger) as client:
        form = {"csrf": await csrf(client), "decision": "accepted", "run": "1"}
        answers = [await client.get(path) for path in paths]
        answers += [await client.post(path, data=form) for path in acts]
        assert {answer.status_code for answer in answers} == {404}
        for query in ("", "?everybody=true"):
            assert job not in (await client.get(f"/checks{query}")).text
    share = site.functions.used.database.share_case
    await share(case_id=job, user_id=str(viewer.id), role="viewer")
    async with site.client(viewer) as client:
        form["csrf"] = await csrf(client)
        shown = (await client.get(picture)).text
        assert "Accept" not in shown
        assert "Enregistrez" in shown
        assert {(await client.post(path, data=form)).status_code for path in acts} == {403}
    async with site.client(admin) as client:
        assert job not in (await client.get("/checks")).text
        assert job in (await client.get("/checks?everybody=true")).text
        assert job in (await client.get("/checks?everybody=true&status=SUCCEEDED")).text
        assert job not in (await client.get("/checks?everybody=true&status=FAILED")).text
        form["csrf"] = await csrf(client)
        assert (await client.post(picture, data=form)).status_code == 303
    assert await _decisions(site, job) == ["accepted"]


async def test_a_job_from_another_site_is_rejected(site: sites.Site) -> None:
    """So is one without the token of the session, or without a session; nothing is saved."""
    person = await site.add_person()
    files = [("images", ("a.png", screens.draw(["a"])))]
    async with site.client(person) as client:
        right = await csrf(client)
        attempts = [("", site.url), ("0" * 64, site.url), (right, "https://evil.example")]
        for token, origin in attempts:
            answer = await client.post(
                "/checks",
                data={"language": "fr", "csrf": token},
                files=files,
                headers={"Origin": origin},
            )
            assert answer.status_code == 403, (token, origin)
        in_json = await client.post("/checks", json={"language": "fr", "csrf": right})
        assert in_json.status_code == 403
        client.cookies.clear()
        answer = await client.post("/checks", data={"language": "fr", "csrf": right}, files=files)
        assert answer.headers["location"].startswith("/sign-in")
    assert await site.functions.used.database.select(tables.check_jobs) == []
    assert site.functions.stored() == []


async def test_a_job_without_a_language_is_marked(site: sites.Site) -> None:
    """In the list, on the page of the job, and in the form."""
    person = await site.add_person()
    files = [("images", ("a.png", screens.draw(["a"])))]
    async with site.client(person) as client:
        form = {"language": "", "csrf": await csrf(client)}
        answer = await client.post("/checks", data=form, files=files)
        assert answer.status_code == 303, answer.text
        assert "<dd>not checked</dd>" in (await client.get(answer.headers["location"])).text
        shown = (await client.get("/checks")).text
    assert '<td data-label="Language">not checked</td>' in shown
    assert '<option value="">Do not check the language</option>' in shown


async def test_the_list_of_jobs_is_paged(site: sites.Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the filter in the URL of the next page."""
    monkeypatch.setattr("pagewarden.dashboard.pages.checks.ROWS", 2)
    admin = await site.add_person(admin=True)
    jobs = [str(await site.functions.factory.check_job()) for _ in range(5)]
    seen, path = [], "/checks?everybody=true&status=PENDING"
    async with site.client(admin) as client:
        while path:
            html = (await client.get(path)).text
            seen += re.findall(r'id="job-([^"]+)"', html)
            more = re.search(r'class="more" href="([^"]+)"', html)
            path = more[1].replace("&amp;", "&") if more else ""
    assert seen == jobs[::-1]


async def test_markup_in_jobs_is_escaped(site: sites.Site, reader: screens.Reader) -> None:
    """In recognised text, expected strings and names, for HAC too."""
    person, admin = await site.add_person(), await site.add_person(admin=True)
    name = '"><img src=x onerror=document.title=1>.png'
    lines = (EVIL, "</pre><script>document.title='ran'</script>")
    screen = screens.Screen(lines, (f"{EVIL}{EVIL}", lines[1], "</td><b>missing</b>"))
    job = await screens.submit_job(site, reader, person, {name: screen}, name=EVIL)
    await site.functions.read()
    async with site.browser(admin) as page:
        await page.goto("/checks")
        await page.get_by_label("All users").check()
        await expect(page.get_by_text("onerror")).to_be_visible()
        await expect(page).to_have_url(re.compile("everybody=true"))
        for path in ("/checks?everybody=true", f"/checks/{job}", f"/checks/{job}/pictures/1"):
            await page.goto(path)
            assert await page.get_by_text("onerror").count() > 0
            assert await page.locator("main script, main [onerror]").count() == 0
            assert await page.title() not in {"ran", "1"}
            assert await page.locator("main img").count() == int(
                "pictures" in path or path.endswith(job)
            )
