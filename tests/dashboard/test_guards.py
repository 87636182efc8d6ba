"""What the dashboard keeps out: foreign code, foreign forms, strangers."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

import pytest

from dashboard import app, vendor
from tests.dashboard import screens
from tests.dashboard.test_doors import csrf

if TYPE_CHECKING:
    from pathlib import Path

    from tests.dashboard import place as places

EVIL = '<script>document.title="ran"</script><img src=x onerror="document.title=\'ran\'">'


@pytest.fixture
def reader() -> screens.Reader:
    """Read in pictures what was drawn in them."""
    return screens.Reader()


async def test_every_answer_is_guarded(place: places.Place) -> None:
    """Pages, redirects, refusals and files alike tell the browser what must not be."""
    person = await place.person(admin=True)
    paths = ("/sign-in", "/", "/overview", "/documents", "/documents/x", "/static/style.css")
    async with place.visitor(person) as client:
        answers = {path: (await client.get(path)).headers for path in paths}

    for path, headers in answers.items():
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy, path
        assert "frame-ancestors 'none'" in policy, path
        assert "unsafe" not in policy, path
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["referrer-policy"] == "same-origin", path
        assert headers["cache-control"] == ("no-cache" if "static" in path else "no-store"), path


async def test_no_page_has_code_or_style_of_its_own(
    place: places.Place, reader: screens.Reader
) -> None:
    """All of it comes from files of ours."""
    person = await place.person(admin=True)
    job = await screens.submitted(place, reader, person, {"a.png": screens.BAD})
    await place.functions.read()
    document = await place.functions.factory.completed(person.case)
    letter = await place.functions.factory.dead_letter(person.case)
    await place.functions.factory.queued(person.case, lane=None)
    paths = (entry.path for entry in app.MENU)
    behind = (
        f"/documents/{document}",
        f"/dead-letters/{letter.dlq_id}",
        f"/checks/{job}",
        f"/checks/{job}/pictures/1",
    )
    async with place.visitor(person) as client:
        for path in ("/sign-in", *paths, *behind):
            html = (await client.get(path)).text
            assert re.findall(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", html) == []
            assert re.findall(r'(?:src|href)="(?!/|#)', html) == []


async def test_a_foreign_form_does_nothing(place: places.Place) -> None:
    """From elsewhere, or without the token of the session, nothing is done."""
    person = await place.person()
    document = await place.functions.factory.completed(person.case)
    async with place.visitor(person) as client:
        right = await csrf(client)
        attempts = [("", place.url), ("0" * 64, place.url), (right + "0", place.url)]
        attempts += [(right, origin) for origin in ("https://evil.example", "null", "", "http://")]
        for token, origin in attempts:
            answer = await client.post(
                f"/documents/{document}/delete", data={"csrf": token}, headers={"Origin": origin}
            )
            assert answer.status_code == 403, (token, origin)
        assert "in the bin" not in (await client.get(f"/documents/{document}")).text


async def test_the_token_of_another_session_does_not_count(place: places.Place) -> None:
    """A token is bound to its session."""
    person, other = await place.person(), await place.person()
    document = await place.functions.factory.completed(person.case)
    async with place.visitor(person) as client, place.visitor(other) as another:
        path = f"/documents/{document}/delete"
        refused = await client.post(path, data={"csrf": await csrf(another)})
        done = await client.post(path, headers={"X-CSRF-Token": await csrf(client)})
    assert (refused.status_code, done.status_code) == (403, 303)


async def test_a_foreign_form_signs_nobody_in(place: places.Place) -> None:
    """Nobody is made to work in somebody else's account."""
    async with place.visitor() as client:
        form = {"email": "a@example.org", "password": "x"}
        answer = await client.post(
            "/sign-in", data=form, headers={"Origin": "https://evil.example"}
        )
    assert answer.status_code == 403


async def test_a_stranger_finds_nothing(place: places.Place) -> None:
    """Another's document, page and export are answered as if they were not there."""
    owner, stranger = await place.person(), await place.person()
    document = await place.functions.factory.completed(owner.case, text="secret")
    async with place.visitor(stranger) as client:
        paths = [f"/documents/{document}", f"/documents/{document}/export/txt"]
        paths += [f"/documents/{document}/progress", f"/documents/{uuid.uuid4()}/progress"]
        paths.append(f"/documents/{uuid.uuid4()}")
        answers = [await client.get(path) for path in paths]
        token = {"csrf": await csrf(client)}
        answers.append(await client.post(f"/documents/{document}/delete", data=token))
        listed = await client.get("/documents?q=secret")
        assert (await client.get("/overview")).status_code == 403
        assert (await client.get("/overview/live")).status_code == 403

    assert {answer.status_code for answer in answers} == {404}
    assert str(document) not in listed.text


async def test_nothing_in_names_or_texts_runs(place: places.Place) -> None:
    """Markup in a name or a text is shown as it is, in lists, hits and pages."""
    person = await place.person(admin=True)
    factory = place.functions.factory
    document = await factory.completed(person.case, text=f"treaty {EVIL}")
    await factory.conn.execute(
        "update public.documents set name = %s where id = %s", (EVIL, document)
    )
    async with place.browser(person) as page:
        for path in ("/documents", "/documents?q=treaty", f"/documents/{document}"):
            await page.goto(path)
            assert await page.get_by_text("onerror").count() > 0
            assert await page.title() != "ran"
            assert await page.locator("main script, main img").count() == 0


async def test_what_is_missing_is_told(
    place: places.Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without the packages of Node, pages say how to get them."""
    monkeypatch.setattr(vendor, "_PACKAGES", tmp_path)
    async with place.visitor() as client:
        assert "make setup" in (await client.get("/sign-in")).text
        assert (await client.get("/static/vendor/htmx.min.js")).status_code == 404
