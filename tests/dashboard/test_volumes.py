"""Volumes: jobs are ordered and watched, stages done again, pages looked at with their lines."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from pagewarden import errors
from pagewarden.database import tables
from tests.dashboard import shelves
from tests.dashboard.shelves import book, chosen, read
from tests.dashboard.test_accessibility import require_usable
from tests.dashboard.test_checks import CORNERS
from tests.dashboard.test_doors import csrf
from tests.dashboard.test_guards import EVIL
from tests.volumes import fakes
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path

    import httpx
    from playwright.async_api import Page

    from pagewarden.volumes.artifacts import rows
    from tests.dashboard import place as places

__all__ = ["book", "chosen", "read"]

PATH, JOB = shelves.PATH, f"/volumes/{books.JOB}"


async def _tasks(place: places.Place) -> list[tuple[str, str, str | None]]:
    rows_found = await place.functions.used.database.select(tables.volume_tasks, order="id")
    return [(row["current_stage"], row["status"], row["forced_stage"]) for row in rows_found]


async def test_a_job_is_ordered_and_watched_to_its_end(place: places.Place, tmp_path: Path) -> None:
    """The board changes by itself, from stage to stage; so does the list."""
    person = await place.person()
    home = await shelves.ordering(place, person, tmp_path)
    async with place.browser(person) as page:
        await page.goto("/volumes")
        await expect(page.locator("#results")).to_contain_text("pagewarden volumes create")
        await page.get_by_label("Volumes, one on a line").fill("W1-I1\nW1-I2\n\nW-2-I3")
        await page.get_by_label("Key of the job").fill("kangyur")
        await page.get_by_label("Engine").select_option("tesseract")
        await page.get_by_label("Language").fill("bod")
        await page.get_by_label("ALTO").check()
        await page.get_by_role("button", name="Order them").click()
        await page.wait_for_url("**/volumes/kangyur")
        await expect(page.locator("#notice")).to_have_text("3 volumes ordered.")
        await expect(page.locator(".facts")).to_contain_text("alto")
        await expect(page.locator(".column.pending li")).to_have_count(3)
        await home.orchestrator.look()
        (first, *_) = await home.tasks("id")
        begun = {"p_task_id": first[0], "p_stage": "line_detection", "p_attempt": 1}
        answer = await home.link.rpc("start_volume_stage", **begun, p_worker_id="w7")
        pages = {"p_pages_done": 3, "p_pages_total": 12, "p_token": answer["token"]}
        await home.link.rpc("extend_volume_lock", p_task_id=first[0], **pages)
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
    (job,) = await place.functions.used.database.select(tables.volume_jobs)
    assert job["user_id"] == str(person.id)
    assert job["config"] == {"engine": "tesseract", "language": "bod", "exports": ["alto"]}


async def test_what_is_wrong_with_an_order_is_named(place: places.Place) -> None:
    """What was typed stays, and nothing is ordered."""
    person = await place.person()
    async with place.visitor(person) as client:
        form = {"csrf": await csrf(client), "volumes": "W1-I1"}
        wrong: list[tuple[dict[str, Any], tuple[str, ...]]] = [
            ({"engine": "nonsense", "exports": ["txt", "docx"]}, ("engine: ", "exports.1: ")),
            ({"language": "x" * 101}, ("language: ",)),
            ({"volumes": " \n"}, ("name at least one volume",)),
            ({"volumes": "W1"}, ("&#39;W1&#39; is no volume",)),
            ({"volumes": "W1-I1\n../x-I2"}, ("a volume cannot be called",)),
            ({"job_key": "a/b"}, ("a job cannot be called a/b",)),
        ]
        for changes, words in wrong:
            answer = await client.post("/volumes", data=form | changes)
            assert answer.status_code == 400, changes
            assert [word for word in words if word not in answer.text] == []
            assert (form | changes)["volumes"] in answer.text
        assert (await client.post("/volumes", data=form | {"job_key": "a"})).status_code == 303
        again = await client.post("/volumes", data=form | {"job_key": "a"})
    assert (again.status_code, "this key already" in again.text) == (400, True)
    assert len(await place.functions.used.database.select(tables.volume_jobs)) == 1


async def test_jobs_are_for_whoever_ordered_them_and_hac(
    place: places.Place, book: books.Book, tmp_path: Path
) -> None:
    """For others there is no such job, volume, page or picture, and nothing can be done."""
    owner, stranger = await place.person(), await place.person()
    admin = await place.person(admin=True)
    await shelves.finished(place, owner, tmp_path)
    paths = (JOB, PATH, f"{PATH}/pages/page1", f"{PATH}/pictures/page1")
    acts = (f"{JOB}/cancel", f"{JOB}/retry", f"{JOB}/rerun", f"{PATH}/rerun")
    async with place.visitor(stranger) as client:
        form = {"csrf": await csrf(client), "stage": "ocr"}
        answers = [await client.get(path) for path in (*paths, "/volumes/other", f"{JOB}/W1-I1")]
        answers += [await client.post(path, data=form) for path in acts]
        assert {answer.status_code for answer in answers} == {404}
        assert books.JOB not in (await client.get("/volumes")).text
    for person, by in ((owner, "you"), (admin, owner.email)):
        async with place.visitor(person) as client:
            assert {(await client.get(path)).status_code for path in paths} == {200}
            listed = (await client.get("/volumes")).text
            assert JOB in listed
            assert f'data-label="By">{by}<' in listed
            assert (await client.get(f"{JOB}/W1-I1")).status_code == 404
    async with place.visitor() as client:
        for path in paths:
            assert (await client.get(path)).headers["location"].startswith("/sign-in")
    assert await _tasks(place) == [("done", "done", None)]
    assert book.artifacts.is_dir()


async def test_acts_need_the_token_of_the_session(place: places.Place, tmp_path: Path) -> None:
    """Without it, or from another site, nothing is ordered, cancelled or done again."""
    person = await place.person()
    home = await shelves.ordering(place, person, tmp_path)
    await home.order(shelves.VOLUME, p_job_key=books.JOB)
    acts = ("/volumes", f"{JOB}/cancel", f"{JOB}/retry", f"{JOB}/rerun", f"{PATH}/rerun")
    async with place.visitor(person) as client:
        right = await csrf(client)
        for path in acts:
            for token, origin in (("", place.url), ("0" * 64, place.url), (right, "https://evil")):
                form = {"csrf": token, "stage": "line_detection", "volumes": "W1-I1"}
                answer = await client.post(path, data=form, headers={"Origin": origin})
                assert answer.status_code == 403, (path, token, origin)
        assert (await client.get(f"{JOB}/cancel")).status_code == 404
    assert await _tasks(place) == [("pending", "pending", None)]
    (job,) = await place.functions.used.database.select(tables.volume_jobs)
    assert job["status"] == "running"


async def _done(client: httpx.AsyncClient, path: str, **form: str) -> str:
    """Send a form, and give what the page says then."""
    answer = await client.post(path, data={"csrf": await csrf(client), **form})
    assert answer.status_code == 303, answer.text
    shown = (await client.get(answer.headers["location"])).text
    found = re.search(r'<p class="notice (?:good|bad)">(.*?)</p>', shown)
    assert found
    return found[1]


async def test_stages_are_done_again_and_jobs_cancelled(
    place: places.Place, tmp_path: Path
) -> None:
    """Of a volume, of all, of those that failed; a cancelled job goes on."""
    person = await place.person()
    home = await shelves.ordering(place, person, tmp_path)
    await home.order("W1-I1", "W1-I2", p_job_key=books.JOB, p_max_attempts=1)
    broken = errors.DamagedFile("it is no image")
    await home.work(home.worker(fakes.failing(broken, times=1)))
    assert sorted(await _tasks(place)) == [("done", "done", None), ("ocr", "failed", None)]
    async with place.visitor(person) as client:
        shown = (await client.get(JOB)).text
        assert shown.index("it is no image") < shown.index("What it took")
        failed, well = re.findall(r'id="volume-\d+" href="([^"]+)"', shown)
        refused = await _done(client, f"{well}/rerun")
        assert "Nothing was done" in refused
        assert await _done(client, f"{JOB}/rerun", stage="reduce") == (
            "1 volume is in the queue of reduce again. 1 volume had not come to it yet."
        )
        await home.work(home.worker())
        again = await _done(client, f"{JOB}/rerun", stage="line_extraction", only_failed="true")
        assert again == "1 volume is in the queue of line_extraction again."
        assert sorted(await _tasks(place)) == [
            ("done", "done", None),
            ("line_detection", "done", "line_extraction"),
        ]
        assert "is cancelled" in await _done(client, f"{JOB}/cancel")
        assert "ended" in await _done(client, f"{JOB}/cancel")
        assert "The job goes on" in await _done(client, f"{JOB}/retry")
        await home.work(home.worker(fakes.failing(broken, times=1)))
        assert "the stage that failed" in await _done(client, f"{failed}/rerun")
        await home.work(home.worker())
        assert {stage for stage, *_ in await _tasks(place)} == {"done"}
        assert "2 volumes are in the queue of ocr" in await _done(
            client, f"{JOB}/rerun", stage="ocr"
        )
        nonsense = {"csrf": await csrf(client), "stage": "done"}
        assert (await client.post(f"{JOB}/rerun", data=nonsense)).status_code == 404


async def test_a_large_job_is_counted_and_listed_page_by_page(
    place: places.Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few cards of each stage, failed volumes first, and none twice."""
    monkeypatch.setattr("dashboard.boards.CARDS", 2)
    monkeypatch.setattr("dashboard.pages.volume_job.ROWS", 2)
    monkeypatch.setattr("dashboard.pages.volumes.ROWS", 1)
    person = await place.person()
    home = await shelves.ordering(place, person, tmp_path)
    names = [f"W1-I{number}" for number in range(5)]
    for key in ("early", "late"):
        await home.order(*names, p_job_key=key, p_max_attempts=1)
    await home.work(home.worker(fakes.failing(errors.DamagedFile("gone"), times=1)))
    async with place.visitor(person) as client:
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


async def test_failed_pages_come_first(
    place: places.Place, book: books.Book, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what went wrong; the others in their order, page by page, with their figures."""
    monkeypatch.setattr("dashboard.leaves.PAGES", 2)
    person = await place.person()
    await shelves.finished(place, person, tmp_path)
    async with place.visitor(person) as client:
        first, second, beyond = [
            (await client.get(f"{PATH}?page={number}")).text for number in (1, 2, 3)
        ]
    names = [re.findall(r"<bdi>([^<]+)</bdi>", html) for html in (first, second, beyond)]
    assert names == [[shelves.BROKEN, "page1"], ["page2", "page3"], []]
    (failed,) = [row for row in book.detected() if not row.ok]
    assert failed.error_message
    assert "failed in line_detection" in first
    assert failed.error_message.replace("'", "&#39;") in first
    assert "failed in" not in second
    assert '<td data-label="Read">2</td>' in second
    assert "reader-1" in first
    assert "There are no further pages" in beyond


async def _require_places(page: Page, lines: list[rows.LineImage], width: int) -> None:
    picture = await page.locator("#picture").bounding_box()
    assert picture
    scale = picture["width"] / width
    for number, line in enumerate(lines, 1):
        for drawn, places in (("core", line.contour), ("frame", line.corners)):
            found = await page.locator(f"#mark-{number} .{drawn}").evaluate(CORNERS)
            assert places
            for corner, (x, y) in zip(found, places, strict=True):
                wanted = [picture["x"] + x * scale, picture["y"] + y * scale]
                assert corner == pytest.approx(wanted, abs=0.5), (number, drawn)


async def test_lines_are_drawn_where_they_were_found_with_their_text(
    place: places.Place, book: books.Book, tmp_path: Path
) -> None:
    """Whoever points at a line or goes to it sees it on both sides; keys lead to other pages."""
    person = await place.person()
    await shelves.finished(place, person, tmp_path)
    lines = [line for line in book.lines() if line.image_name == "page2"]
    texts = [text.text or "" for text in book.texts() if text.image_name == "page2"]
    (detected,) = [row for row in book.detected() if row.image_name == "page2"]
    assert detected.rotated_width
    async with place.browser(person) as page:
        title, keys = page.locator("h1"), page.keyboard
        await page.goto(f"{PATH}/pages/page2")
        await place.becomes(page, "document.getElementById('picture').naturalWidth > 0")
        await expect(page.locator("#lines .text")).to_have_text(texts)
        assert [text.split()[0] for text in texts] == ["to", "Nobody"]
        await expect(page.locator("#marks .frame")).to_have_count(len(lines))
        await _require_places(page, lines, detected.rotated_width)
        await page.get_by_role("button", name="Zoom in").click()
        await _require_places(page, lines, detected.rotated_width)
        await page.get_by_role("button", name="Fit").click()
        await page.locator("#line-2").hover()
        await expect(page.locator("#mark-2.lit")).to_be_visible()
        await page.locator("#mark-1 .frame").hover()
        await expect(page.locator("#line-1.lit")).to_be_visible()
        await expect(page.locator("#mark-2.lit")).to_have_count(0)
        await page.locator("#mark-2 .frame").click()
        await expect(page.locator("#line-2 .number")).to_be_focused()
        await keys.press("l")  # after the last comes the first
        await expect(page.locator("#line-1 .number")).to_be_focused()
        await expect(page.locator("#mark-1.lit")).to_be_visible()
        for key, then in (("n", "page3"), ("p", "page2"), ("p", "page1"), ("f", shelves.BROKEN)):
            await keys.press(key)
            await expect(title).to_have_text(then)
            await expect(page.get_by_role("button", name="Keys")).to_be_visible()
        await expect(page.locator("main")).to_contain_text("It failed in line_detection")
        await expect(page.locator("main")).to_contain_text("There is no picture of this page")
        await keys.press("?")
        await page.get_by_label("Use these keys").uncheck()
        await page.get_by_role("button", name="Close").click()
        await keys.press("p")
        await expect(title).to_have_text(shelves.BROKEN)


async def test_what_was_combined_is_shown_with_where_it_came_from(
    place: places.Place, book: books.Book, tmp_path: Path
) -> None:
    """A page that another job has read is no failed one; each line says whose text it has."""
    person = await place.person()
    shelves.combine(book, lost="page2")
    everywhere = shelves.OTHER.replace(shelves.VOLUME, "{w_id}-{i_id}")
    combining = {"reducer": "combine", "sources": [shelves.OTHER, everywhere]}
    await shelves.finished(place, person, tmp_path, config=combining)
    async with place.browser(person) as page:
        await page.goto(PATH)
        await expect(page.locator(".leaves .failed th")).to_have_text([shelves.BROKEN])
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


async def test_combined_texts_that_do_not_fit_are_not_shown(
    place: places.Place, book: books.Book, tmp_path: Path
) -> None:
    """Neither of lines that were read anew since, nor where the job does not combine any more."""
    person = await place.person()
    shelves.combine(book, lost="page2")
    combining = {"reducer": "combine", "sources": [shelves.OTHER]}
    job = await shelves.finished(place, person, tmp_path, config=combining)
    conn = place.functions.factory.conn
    async with place.visitor(person) as client:

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
        shelves.rewrite(book, text=lambda row: {"model_version": "newer"} if row.ok else {})
        assert await failed() == (True, False)


async def test_names_lead_nowhere_but_to_pages(
    place: places.Place, book: books.Book, tmp_path: Path
) -> None:
    """A name finds a row; what has none is not there, whatever lies in the bucket."""
    person = await place.person()
    await shelves.finished(place, person, tmp_path)
    (book.root / "output" / "secret.jpg").write_bytes(b"secret")
    (book.root / "secret.jpg").write_bytes(b"secret")
    names = (
        "secret", "../../../../secret", "..%2f..%2f..%2f..%2f..%2f..%2fsecret", "%2e%2e/secret",
        "..%5c..%5csecret", "%2fetc%2fpasswd", f"{book.root}/secret.jpg", "page1%00", "page1.jpg",
        "PAGE1", "%ff", "", shelves.BROKEN,
    )  # fmt: skip
    async with place.visitor(person) as client:
        for name in names:
            for kind in ("pictures", "pages") if name != shelves.BROKEN else ("pictures",):
                answer = await client.get(f"{PATH}/{kind}/{name}")
                assert (answer.status_code, "secret\n" in answer.text) == (404, False), name
        for volume in ("..", "%2e%2e", "..%2f..", f"{shelves.VOLUME}%2f..", "-", "%00-x"):
            answer = await client.get(f"{JOB}/{volume}/pictures/page1")
            assert answer.status_code in {400, 404}, volume
        picture = await client.get(f"{PATH}/pictures/page1")
    rotated = book.artifacts / "line_detection" / "rotated_images" / "page1.jpg"
    assert picture.content == rotated.read_bytes()
    assert picture.headers["content-type"] == "image/jpeg"
    assert picture.headers["cache-control"] == "private, max-age=300"
    assert picture.headers["x-content-type-options"] == "nosniff"


async def test_nothing_in_texts_names_or_errors_runs(
    place: places.Place, book: books.Book, tmp_path: Path
) -> None:
    """Markup in what was read, or in what went wrong, is shown as it is, to HAC as well."""
    person, admin = await place.person(), await place.person(admin=True)
    shelves.rewrite(
        book,
        page=lambda row: {} if row.ok else {"image_name": EVIL, "error_message": EVIL},
        text=lambda row: {"text": EVIL} if row.ok else {},
    )
    evil = errors.DamagedFile(EVIL)
    await shelves.finished(place, person, tmp_path, fakes.failing(evil, times=1))
    async with place.browser(admin) as page:
        for path in (JOB, PATH, f"{PATH}/pages/page1"):
            await page.goto(path)
            assert await page.get_by_text("onerror").count() > 0, path
            assert await page.locator("main script, main [onerror]").count() == 0
            assert await page.title() != "ran"
            html = await (await page.request.get(path)).text()
            assert re.findall(r"<script(?![^>]*\ssrc=)|<style|\sstyle=", html) == []


async def test_what_cannot_be_had_is_said(
    place: places.Place, book: books.Book, tmp_path: Path
) -> None:
    """A picture that is gone, files cut short or not there yet, a bucket that cannot be used."""
    person = await place.person()
    await shelves.finished(place, person, tmp_path)
    rotated = book.artifacts / "line_detection" / "rotated_images"
    (rotated / "page1.jpg").unlink()
    (rotated / "page2.jpg").write_bytes((rotated / "page3.jpg").read_bytes())
    async with place.browser(person) as page:
        for name, why in (("page1", "is not there"), ("page2", "is of another run")):
            await page.goto(f"{PATH}/pages/{name}")
            await expect(page.locator("#picture-problem")).to_contain_text(why)
            await expect(page.locator("#lines li")).to_have_count(2)
        place.problems.clear()  # the browser tells of pictures that are not there
    files = [book.artifacts / stage / name for stage, name in books.PARQUET.items()]
    detection, _, texts = files

    async def shown(client: httpx.AsyncClient, path: str) -> str:
        # With each change, as with each turn of a worker, it is another version.
        await place.functions.factory.conn.execute(
            "update volume_tasks set publications = publications + 1"
        )
        answer = await client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    async with place.visitor(person) as client:
        texts.unlink()
        assert "not been read yet" in await shown(client, f"{PATH}/pages/page3")
        shelves.rewrite(book, page=lambda _: {"model_version": "x"}, fitting=False)
        again = await shown(client, f"{PATH}/pages/page3")
        assert "line_extraction and ocr come next" in again
        assert again.count('class="frame"') == 2
        detection.write_bytes(detection.read_bytes()[:-100])
        for path in (PATH, f"{PATH}/pages/page3"):
            assert "it is cut short" in await shown(client, path)
        detection.unlink()
        for path in (PATH, f"{PATH}/pages/page3"):
            assert "line_detection makes them" in await shown(client, path)
        assert (await client.get(f"{PATH}/pictures/page3")).status_code == 404
        (book.root / "output").rename(book.root / "gone")
        (book.root / "output").write_text("no folder")
        for path in (PATH, f"{PATH}/pages/page3"):
            assert "why-none" in await shown(client, path)
        assert (await client.get(f"{PATH}/pictures/page3")).status_code == 503


async def test_axe_finds_nothing_serious(
    place: places.Place, book: books.Book, tmp_path: Path
) -> None:
    """On none of the pages behind the list, light and dark, whatever is on them."""
    person = await place.person()
    assert book.artifacts.is_dir()
    broken = fakes.failing(errors.DamagedFile("it is no image"), times=1)
    await shelves.finished(place, person, tmp_path, broken)
    home = await shelves.ordering(place, person, tmp_path)
    await home.order(*(f"W{number}-I1" for number in range(3)), p_job_key="open")
    await home.orchestrator.look()
    await place.functions.factory.conn.execute(
        "update volume_tasks set published_at = now() - interval '5 minutes' where token is null"
    )
    async with place.browser(person) as page:
        for path in (
            *("/volumes", JOB, f"{JOB}?again=reduce", "/volumes/open", "/volumes/open?find=W1"),
            *("/volumes/open?find=W9", PATH, f"{PATH}?show=failed", f"{PATH}/pages/page1"),
        ):
            await require_usable(page, path)
