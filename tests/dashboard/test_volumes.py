"""Volumes: jobs are ordered and watched, stages done again, pages looked at with their lines."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from pagewarden import errors
from pagewarden.database import tables
from pagewarden.database.answers import require_field
from tests.dashboard import volume_jobs
from tests.dashboard.test_accessibility import require_usable
from tests.dashboard.test_checks import CORNERS
from tests.dashboard.test_guards import EVIL
from tests.dashboard.test_login import csrf
from tests.dashboard.volume_jobs import book, chosen, read
from tests.volumes import fakes
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path

    import httpx
    from playwright.async_api import Page

    from pagewarden.volumes.artifacts import rows
    from tests.dashboard.site import Site

__all__ = ["book", "chosen", "read"]

PATH, JOB = volume_jobs.PATH, f"/volumes/{books.JOB}"


async def _tasks(site: Site) -> list[tuple[str, str, str | None]]:
    rows_found = await site.functions.used.database.select(tables.volume_tasks, order="id")
    return [(row["current_stage"], row["status"], row["forced_stage"]) for row in rows_found]


async def test_a_job_is_created_and_completes(site: Site, tmp_path: Path) -> None:
    """Board and list are updated from stage to stage."""
    person = await site.add_person()
    home = await volume_jobs.open_house(site, person, tmp_path)
    async with site.browser(person) as page:
        await page.goto("/volumes")
        await expect(page.locator("#results")).to_contain_text("pagewarden volumes create")
        await page.get_by_label("Volumes, one per line").fill("W1-I1\nW1-I2\n\nW-2-I3")
        await page.get_by_label("Job key").fill("kangyur")
        await page.get_by_label("Engine").select_option("tesseract")
        await page.get_by_label("Language").fill("bod")
        await page.get_by_label("ALTO").check()
        await page.get_by_role("button", name="Create job").click()
        await page.wait_for_url("**/volumes/kangyur")
        await expect(page.locator("#notice")).to_have_text("Job created: 3 volumes.")
        await expect(page.locator(".facts")).to_contain_text("alto")
        await expect(page.locator(".column.pending li")).to_have_count(3)
        await home.orchestrator.step()
        (first, *_) = await home.tasks("id")
        answer = await home.link.start_volume_stage(
            task_id=first[0], stage="line_detection", attempt=1, worker_id="w7"
        )
        token = require_field(answer["token"])
        await home.link.extend_volume_lock(
            task_id=first[0], token=token, pages_done=3, pages_total=12
        )
        held = page.locator(".column.line_detection li.held")
        await expect(held).to_contain_text("3 of 12 pages")
        await expect(page.locator(".column.line_detection li")).to_have_count(3)
        await home.abandon()
        await home.work(home.worker())
        await expect(page.locator(".facts .completed")).to_be_visible()
        await expect(page.locator(".column.done li")).to_have_count(3)
        await expect(page.locator(".timing .bar")).to_have_count(12)
        await expect(page.locator("#cancel")).to_have_count(0)
        await page.get_by_role("link", name="All jobs").click()
        cells = page.get_by_role("row", name="kangyur").locator("td")
        await expect(cells).to_have_text(
            ["completed", "3 of 3", "0", "0", re.compile("UTC"), "you"]
        )
    (job,) = await site.functions.used.database.select(tables.volume_jobs)
    assert job["user_id"] == str(person.id)
    assert job["config"] == {"engine": "tesseract", "language": "bod", "exports": ["alto"]}


async def test_problems_of_a_new_job_are_named(site: Site) -> None:
    """The form keeps its values, and no job is created."""
    person = await site.add_person()
    async with site.client(person) as client:
        form = {"csrf": await csrf(client), "volumes": "W1-I1"}
        wrong: list[tuple[dict[str, Any], tuple[str, ...]]] = [
            ({"engine": "nonsense", "exports": ["txt", "docx"]}, ("engine: ", "exports.1: ")),
            ({"language": "x" * 101}, ("language: ",)),
            ({"volumes": " \n"}, ("enter at least one volume",)),
            ({"volumes": "W1"}, ("&#39;W1&#39; is not a volume",)),
            ({"volumes": "W1-I1\n../x-I2"}, ("invalid volume name",)),
            ({"job_key": "a/b"}, ("invalid job key a/b",)),
        ]
        for changes, words in wrong:
            answer = await client.post("/volumes", data=form | changes)
            assert answer.status_code == 400, changes
            assert [word for word in words if word not in answer.text] == []
            assert (form | changes)["volumes"] in answer.text
        assert (await client.post("/volumes", data=form | {"job_key": "a"})).status_code == 303
        again = await client.post("/volumes", data=form | {"job_key": "a"})
    assert (again.status_code, "this key already" in again.text) == (400, True)
    assert len(await site.functions.used.database.select(tables.volume_jobs)) == 1


async def test_jobs_are_for_their_owner_and_hac(
    site: Site, book: books.Book, tmp_path: Path
) -> None:
    """Other users get a 404 for job, volume, page and picture."""
    owner, stranger = await site.add_person(), await site.add_person()
    admin = await site.add_person(admin=True)
    await volume_jobs.finish_job(site, owner, tmp_path)
    paths = (JOB, PATH, f"{PATH}/pages/page1", f"{PATH}/pictures/page1")
    acts = (f"{JOB}/cancel", f"{JOB}/retry", f"{JOB}/rerun", f"{PATH}/rerun")
    async with site.client(stranger) as client:
        form = {"csrf": await csrf(client), "stage": "ocr"}
        answers = [await client.get(path) for path in (*paths, "/volumes/other", f"{JOB}/W1-I1")]
        answers += [await client.post(path, data=form) for path in acts]
        assert {answer.status_code for answer in answers} == {404}
        assert books.JOB not in (await client.get("/volumes")).text
    for person, by in ((owner, "you"), (admin, owner.email)):
        async with site.client(person) as client:
            assert {(await client.get(path)).status_code for path in paths} == {200}
            listed = (await client.get("/volumes")).text
            assert JOB in listed
            assert f'data-label="Created by">{by}<' in listed
            assert (await client.get(f"{JOB}/W1-I1")).status_code == 404
    async with site.client() as client:
        for path in paths:
            assert (await client.get(path)).headers["location"].startswith("/sign-in")
    assert await _tasks(site) == [("done", "done", None)]
    assert book.artifacts.is_dir()


async def test_actions_need_the_csrf_token(site: Site, tmp_path: Path) -> None:
    """Without it, or from another site, nothing changes."""
    person = await site.add_person()
    home = await volume_jobs.open_house(site, person, tmp_path)
    await home.order(volume_jobs.VOLUME, job_key=books.JOB)
    acts = ("/volumes", f"{JOB}/cancel", f"{JOB}/retry", f"{JOB}/rerun", f"{PATH}/rerun")
    async with site.client(person) as client:
        right = await csrf(client)
        for path in acts:
            for token, origin in (("", site.url), ("0" * 64, site.url), (right, "https://evil")):
                form = {"csrf": token, "stage": "line_detection", "volumes": "W1-I1"}
                answer = await client.post(path, data=form, headers={"Origin": origin})
                assert answer.status_code == 403, (path, token, origin)
        assert (await client.get(f"{JOB}/cancel")).status_code == 404
    assert await _tasks(site) == [("pending", "pending", None)]
    (job,) = await site.functions.used.database.select(tables.volume_jobs)
    assert job["status"] == "running"


async def _done(client: httpx.AsyncClient, path: str, **form: str) -> str:
    """Send a form, and return the notice of the next page."""
    answer = await client.post(path, data={"csrf": await csrf(client), **form})
    assert answer.status_code == 303, answer.text
    shown = (await client.get(answer.headers["location"])).text
    found = re.search(r'<p class="notice (?:good|bad)">(.*?)</p>', shown)
    assert found
    return found[1]


async def test_stages_are_rerun_and_jobs_cancelled(site: Site, tmp_path: Path) -> None:
    """For one volume, all or the failed ones; a cancelled job is resumed."""
    person = await site.add_person()
    home = await volume_jobs.open_house(site, person, tmp_path)
    await home.order("W1-I1", "W1-I2", job_key=books.JOB, max_attempts=1)
    broken = errors.DamagedFile("it is no image")
    await home.work(home.worker(fakes.failing(broken, times=1)))
    assert sorted(await _tasks(site)) == [("done", "done", None), ("ocr", "failed", None)]
    async with site.client(person) as client:
        shown = (await client.get(JOB)).text
        assert shown.index("it is no image") < shown.index("Durations")
        failed, well = re.findall(r'id="volume-\d+" href="([^"]+)"', shown)
        refused = await _done(client, f"{well}/rerun")
        assert "Nothing was rerun" in refused
        assert await _done(client, f"{JOB}/rerun", stage="reduce") == (
            "Queued again for reduce: 1 volume. Skipped, stage not reached yet: 1 volume."
        )
        await home.work(home.worker())
        again = await _done(client, f"{JOB}/rerun", stage="line_extraction", only_failed="true")
        assert again == "Queued again for line_extraction: 1 volume."
        assert sorted(await _tasks(site)) == [
            ("done", "done", None),
            ("line_detection", "done", "line_extraction"),
        ]
        assert "was cancelled" in await _done(client, f"{JOB}/cancel")
        assert "ended" in await _done(client, f"{JOB}/cancel")
        assert "The job was resumed" in await _done(client, f"{JOB}/retry")
        await home.work(home.worker(fakes.failing(broken, times=1)))
        assert "the failed stage" in await _done(client, f"{failed}/rerun")
        await home.work(home.worker())
        assert {stage for stage, *_ in await _tasks(site)} == {"done"}
        assert "Queued again for ocr: 2 volumes" in await _done(client, f"{JOB}/rerun", stage="ocr")
        nonsense = {"csrf": await csrf(client), "stage": "done"}
        assert (await client.post(f"{JOB}/rerun", data=nonsense)).status_code == 404


async def test_large_jobs_are_counted_and_paged(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some cards per stage; failed volumes first, each once."""
    monkeypatch.setattr("pagewarden.dashboard.pages.volumes.job.CARDS", 2)
    monkeypatch.setattr("pagewarden.dashboard.pages.volumes.job.ROWS", 2)
    monkeypatch.setattr("pagewarden.dashboard.pages.volumes.jobs.ROWS", 1)
    person = await site.add_person()
    home = await volume_jobs.open_house(site, person, tmp_path)
    names = [f"W1-I{number}" for number in range(5)]
    for key in ("early", "late"):
        await home.order(*names, job_key=key, max_attempts=1)
    await home.work(home.worker(fakes.failing(errors.DamagedFile("gone"), times=1)))
    async with site.client(person) as client:
        html = (await client.get("/volumes")).text
        assert re.findall(r'id="job-\d+" href="/volumes/([^"]+)"', html) == ["late"]
        more = re.search(r'class="more" href="([^"]+)"', html)
        assert more
        html = (await client.get(more[1].replace("&amp;", "&"))).text
        assert re.findall(r'id="job-\d+" href="/volumes/([^"]+)"', html) == ["early"]
        done = re.compile(r'id="column-done"><span>done</span> <span class="number">(\d)')
        boards = {key: (await client.get(f"/volumes/{key}")).text for key in ("early", "late")}
        (spoiled,) = [key for key, shown in boards.items() if "gone" in shown]
        assert {key: int(done.findall(shown)[0]) for key, shown in boards.items()} == {
            key: 4 if key == spoiled else 5 for key in boards
        }
        assert "and 2 more" in boards[spoiled]
        seen, path = [], f"/volumes/{spoiled}"
        while path:
            html = (await client.get(path)).text
            seen += re.findall(r'id="volume-\d+" href="[^"]+/([^"]+)"', html)
            more = re.search(r'class="more" href="([^"]+)"', html)
            path = more[1].replace("&amp;", "&") if more else ""
    assert sorted(seen) == names
    (first,) = re.findall(r'class="bad">\s*<a id="card-\d+" href="[^"]+/([^"]+)"', boards[spoiled])
    assert seen[0] == first


async def test_failed_pages_are_first(
    site: Site, book: books.Book, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With their errors; other pages in order, with their figures."""
    monkeypatch.setattr("pagewarden.dashboard.pages.volumes.volume.PAGES", 2)
    person = await site.add_person()
    await volume_jobs.finish_job(site, person, tmp_path)
    async with site.client(person) as client:
        first, second, beyond = [
            (await client.get(f"{PATH}?page={number}")).text for number in (1, 2, 3)
        ]
    names = [re.findall(r"<bdi>([^<]+)</bdi>", html) for html in (first, second, beyond)]
    assert names == [[volume_jobs.BROKEN, "page1"], ["page2", "page3"], []]
    (failed,) = [row for row in book.detected() if not row.ok]
    assert failed.error_message
    assert "failed in line_detection" in first
    assert failed.error_message.replace("'", "&#39;") in first
    assert "failed in" not in second
    assert '<td data-label="Read">2</td>' in second
    assert "reader-1" in first
    assert "No more pages" in beyond


async def _require_places(page: Page, lines: list[rows.LineImage], width: int) -> None:
    picture = await page.locator("#picture").bounding_box()
    assert picture
    scale = picture["width"] / width
    for number, line in enumerate(lines, 1):
        for drawn, sites in (("core", line.contour), ("frame", line.corners)):
            found = await page.locator(f"#mark-{number} .{drawn}").evaluate(CORNERS)
            assert sites
            for corner, (x, y) in zip(found, sites, strict=True):
                wanted = [picture["x"] + x * scale, picture["y"] + y * scale]
                assert corner == pytest.approx(wanted, abs=0.5), (number, drawn)


async def test_lines_are_marked_in_the_picture(
    site: Site, book: books.Book, tmp_path: Path
) -> None:
    """Marks and lines highlight each other; keys go to other pages."""
    person = await site.add_person()
    await volume_jobs.finish_job(site, person, tmp_path)
    lines = [line for line in book.lines() if line.image_name == "page2"]
    texts = [text.text or "" for text in book.texts() if text.image_name == "page2"]
    (detected,) = [row for row in book.detected() if row.image_name == "page2"]
    assert detected.rotated_width
    async with site.browser(person) as page:
        title, keys = page.locator("h1"), page.keyboard
        await page.goto(f"{PATH}/pages/page2")
        await site.wait_until(page, "document.getElementById('picture').naturalWidth > 0")
        await expect(page.locator("#lines .text")).to_have_text(texts)
        assert [text.split()[0] for text in texts] == ["to", "Nobody"]
        await expect(page.locator("#marks .frame")).to_have_count(len(lines))
        await _require_places(page, lines, detected.rotated_width)
        await page.get_by_role("button", name="Zoom in").click()
        await _require_places(page, lines, detected.rotated_width)
        await page.get_by_role("button", name="Fit").click()
        await page.locator("#line-2").hover()
        await expect(page.locator("#mark-2.highlighted")).to_be_visible()
        await page.locator("#mark-1 .frame").hover()
        await expect(page.locator("#line-1.highlighted")).to_be_visible()
        await expect(page.locator("#mark-2.highlighted")).to_have_count(0)
        await page.locator("#mark-2 .frame").click()
        await expect(page.locator("#line-2 .number")).to_be_focused()
        await keys.press("l")  # after the last comes the first
        await expect(page.locator("#line-1 .number")).to_be_focused()
        await expect(page.locator("#mark-1.highlighted")).to_be_visible()
        for key, then in (
            ("n", "page3"),
            ("p", "page2"),
            ("p", "page1"),
            ("f", volume_jobs.BROKEN),
        ):
            await keys.press(key)
            await expect(title).to_have_text(then)
            await expect(page.get_by_role("button", name="Shortcuts")).to_be_visible()
        await expect(page.locator("main")).to_contain_text("This page failed in line_detection")
        await expect(page.locator("main")).to_contain_text("This page has no picture")
        await keys.press("?")
        await page.get_by_label("Enable these shortcuts").uncheck()
        await page.get_by_role("button", name="Close").click()
        await keys.press("p")
        await expect(title).to_have_text(volume_jobs.BROKEN)


async def test_combined_lines_show_their_source(
    site: Site, book: books.Book, tmp_path: Path
) -> None:
    """A page that another job has read does not count as failed."""
    person = await site.add_person()
    volume_jobs.combine(book, lost="page2")
    everywhere = volume_jobs.OTHER.replace(volume_jobs.VOLUME, "{w_id}-{i_id}")
    combining = {"reducer": "combine", "sources": [volume_jobs.OTHER, everywhere]}
    await volume_jobs.finish_job(site, person, tmp_path, config=combining)
    async with site.browser(person) as page:
        await page.goto(PATH)
        await expect(page.locator(".page-list .failed th")).to_have_text([volume_jobs.BROKEN])
        await page.get_by_role("link", name="page2").click()
        lines = page.locator("#lines li")
        await expect(lines.locator(".text")).to_contain_text(["best: to cut", "best: Nobody"])
        await expect(lines.locator(".source")).to_have_text(
            ["other, 2 of 2 agree", "other, 1 of 2 agree"]
        )
        await page.goto(f"{PATH}/pages/page1")
        await expect(lines.locator(".source")).to_have_text(
            ["this job, 2 of 2 agree", "this job, 1 of 2 agree"]
        )
        await require_usable(page, f"{PATH}/pages/page1")


async def test_outdated_combined_texts_are_not_shown(
    site: Site, book: books.Book, tmp_path: Path
) -> None:
    """After lines were read again, or if the job no longer combines texts."""
    person = await site.add_person()
    volume_jobs.combine(book, lost="page2")
    combining = {"reducer": "combine", "sources": [volume_jobs.OTHER]}
    job = await volume_jobs.finish_job(site, person, tmp_path, config=combining)
    conn = site.functions.factory.conn
    async with site.client(person) as client:

        async def failed() -> tuple[bool, bool]:
            await conn.execute("update volume_tasks set publications = publications + 1")
            listed = (await client.get(PATH)).text
            shown = (await client.get(f"{PATH}/pages/page2")).text
            return "failed in ocr" in listed, "best: " in shown

        assert await failed() == (False, True)
        await conn.execute("update volume_jobs set config = '{}' where id = %s", (job,))
        assert await failed() == (True, False)
        await conn.execute(
            "update volume_jobs set config = %s where id = %s", (json.dumps(combining), job)
        )
        assert await failed() == (False, True)
        volume_jobs.rewrite(book, text=lambda row: {"model_version": "newer"} if row.ok else {})
        assert await failed() == (True, False)


async def test_page_names_are_no_paths(site: Site, book: books.Book, tmp_path: Path) -> None:
    """A name only selects a row; other files of the bucket are not found."""
    person = await site.add_person()
    await volume_jobs.finish_job(site, person, tmp_path)
    (book.root / "output" / "secret.jpg").write_bytes(b"secret")
    (book.root / "secret.jpg").write_bytes(b"secret")
    names = (
        "secret", "../../../../secret", "..%2f..%2f..%2f..%2f..%2f..%2fsecret", "%2e%2e/secret",
        "..%5c..%5csecret", "%2fetc%2fpasswd", f"{book.root}/secret.jpg", "page1%00", "page1.jpg",
        "PAGE1", "%ff", "", volume_jobs.BROKEN,
    )  # fmt: skip
    async with site.client(person) as client:
        for name in names:
            for kind in ("pictures", "pages") if name != volume_jobs.BROKEN else ("pictures",):
                answer = await client.get(f"{PATH}/{kind}/{name}")
                assert (answer.status_code, "secret\n" in answer.text) == (404, False), name
        for volume in ("..", "%2e%2e", "..%2f..", f"{volume_jobs.VOLUME}%2f..", "-", "%00-x"):
            answer = await client.get(f"{JOB}/{volume}/pictures/page1")
            assert answer.status_code in {400, 404}, volume
        picture = await client.get(f"{PATH}/pictures/page1")
    rotated = book.artifacts / "line_detection" / "rotated_images" / "page1.jpg"
    assert picture.content == rotated.read_bytes()
    assert picture.headers["content-type"] == "image/jpeg"
    assert picture.headers["cache-control"] == "private, max-age=300"
    assert picture.headers["x-content-type-options"] == "nosniff"


async def test_markup_in_volumes_is_escaped(site: Site, book: books.Book, tmp_path: Path) -> None:
    """In recognised texts, names and errors, for HAC too."""
    person, admin = await site.add_person(), await site.add_person(admin=True)
    volume_jobs.rewrite(
        book,
        page=lambda row: {} if row.ok else {"image_name": EVIL, "error_message": EVIL},
        text=lambda row: {"text": EVIL} if row.ok else {},
    )
    evil = errors.DamagedFile(EVIL)
    await volume_jobs.finish_job(site, person, tmp_path, fakes.failing(evil, times=1))
    async with site.browser(admin) as page:
        for path in (JOB, PATH, f"{PATH}/pages/page1"):
            await page.goto(path)
            assert await page.get_by_text("onerror").count() > 0, path
            assert await page.locator("main script, main [onerror]").count() == 0
            assert await page.title() != "ran"
            html = await (await page.request.get(path)).text()
            assert re.findall(r"<script(?![^>]*\ssrc=)|<style|\sstyle=", html) == []


async def test_unavailable_artifacts_are_explained(
    site: Site, book: books.Book, tmp_path: Path
) -> None:
    """A missing picture, truncated or missing files, an inaccessible bucket."""
    person = await site.add_person()
    await volume_jobs.finish_job(site, person, tmp_path)
    rotated = book.artifacts / "line_detection" / "rotated_images"
    (rotated / "page1.jpg").unlink()
    (rotated / "page2.jpg").write_bytes((rotated / "page3.jpg").read_bytes())
    async with site.browser(person) as page:
        for name, why in (("page1", "is missing"), ("page2", "is from another run")):
            await page.goto(f"{PATH}/pages/{name}")
            await expect(page.locator("#picture-problem")).to_contain_text(why)
            await expect(page.locator("#lines li")).to_have_count(2)
        site.problems.clear()  # the browser tells of pictures that are not there
    files = [book.artifacts / stage / name for stage, name in books.PARQUET.items()]
    detection, _, texts = files

    async def shown(client: httpx.AsyncClient, path: str) -> str:
        # With each change, as with each turn of a worker, it is another version.
        await site.functions.factory.conn.execute(
            "update volume_tasks set publications = publications + 1"
        )
        answer = await client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    async with site.client(person) as client:
        texts.unlink()
        assert "not read yet" in await shown(client, f"{PATH}/pages/page3")
        volume_jobs.rewrite(book, page=lambda _: {"model_version": "x"}, fitting=False)
        again = await shown(client, f"{PATH}/pages/page3")
        assert "next stages are line_extraction and ocr" in again
        assert again.count('class="frame"') == 2
        detection.write_bytes(detection.read_bytes()[:-100])
        for path in (PATH, f"{PATH}/pages/page3"):
            assert "it is truncated" in await shown(client, path)
        detection.unlink()
        for path in (PATH, f"{PATH}/pages/page3"):
            assert "line_detection creates them" in await shown(client, path)
        assert (await client.get(f"{PATH}/pictures/page3")).status_code == 404
        (book.root / "output").rename(book.root / "gone")
        (book.root / "output").write_text("no folder")
        for path in (PATH, f"{PATH}/pages/page3"):
            assert "why-none" in await shown(client, path)
        assert (await client.get(f"{PATH}/pictures/page3")).status_code == 503


async def test_axe_finds_nothing_serious(site: Site, book: books.Book, tmp_path: Path) -> None:
    """On all pages below the list of jobs, light and dark."""
    person = await site.add_person()
    assert book.artifacts.is_dir()
    broken = fakes.failing(errors.DamagedFile("it is no image"), times=1)
    await volume_jobs.finish_job(site, person, tmp_path, broken)
    home = await volume_jobs.open_house(site, person, tmp_path)
    await home.order(*(f"W{number}-I1" for number in range(3)), job_key="open")
    await home.orchestrator.step()
    await site.functions.factory.conn.execute(
        "update volume_tasks set published_at = now() - interval '5 minutes' where token is null"
    )
    async with site.browser(person) as page:
        for path in (
            *("/volumes", JOB, f"{JOB}?again=reduce", "/volumes/open", "/volumes/open?find=W1"),
            *("/volumes/open?find=W9", PATH, f"{PATH}?show=failed", f"{PATH}/pages/page1"),
        ):
            await require_usable(page, path)
