"""What the dashboard keeps out: foreign code, foreign forms, strangers."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

import pytest

from pagewarden.dashboard import app, rendering
from tests.dashboard import screens
from tests.dashboard.test_login import csrf

if TYPE_CHECKING:
    from tests.dashboard import site as sites

EVIL = '<script>document.title="ran"</script><img src=x onerror="document.title=\'ran\'">'


@pytest.fixture
def reader() -> screens.Reader:
    """Return a reader of the drawn lines."""
    return screens.Reader()


async def test_every_response_has_security_headers(site: sites.Site) -> None:
    """Pages, redirects, errors and files."""
    person = await site.add_person(admin=True)
    paths = ("/sign-in", "/", "/overview", "/documents", "/documents/x", "/static/style.css")
    async with site.client(person) as client:
        answers = {path: (await client.get(path)).headers for path in paths}

    for path, headers in answers.items():
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy, path
        assert "frame-ancestors 'none'" in policy, path
        assert "unsafe" not in policy, path
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["referrer-policy"] == "same-origin", path
        assert headers["cache-control"] == ("no-cache" if "static" in path else "no-store"), path


async def test_no_page_has_inline_scripts_or_styles(
    site: sites.Site, reader: screens.Reader
) -> None:
    """All scripts and styles are served as files."""
    person = await site.add_person(admin=True)
    job = await screens.submit_job(site, reader, person, {"a.png": screens.BAD})
    await site.functions.read()
    document = await site.functions.factory.completed(person.case)
    letter = await site.functions.factory.dead_letter(person.case)
    await site.functions.factory.queued(person.case, lane=None)
    paths = (entry.path for entry in app.MENU)
    behind = (
        f"/documents/{document}",
        f"/dead-letters/{letter.dlq_id}",
        f"/checks/{job}",
        f"/checks/{job}/pictures/1",
    )
    async with site.client(person) as client:
        for path in ("/sign-in", *paths, *behind):
            html = (await client.get(path)).text
            assert re.findall(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", html) == []
            assert re.findall(r'(?:src|href)="(?!/|#)', html) == []


async def test_forms_of_other_sites_are_rejected(site: sites.Site) -> None:
    """So are forms without the token of the session."""
    person = await site.add_person()
    document = await site.functions.factory.completed(person.case)
    async with site.client(person) as client:
        right = await csrf(client)
        attempts = [("", site.url), ("0" * 64, site.url), (right + "0", site.url)]
        attempts += [(right, origin) for origin in ("https://evil.example", "null", "", "http://")]
        for token, origin in attempts:
            answer = await client.post(
                f"/documents/{document}/delete", data={"csrf": token}, headers={"Origin": origin}
            )
            assert answer.status_code == 403, (token, origin)
        assert "in the bin" not in (await client.get(f"/documents/{document}")).text


async def test_tokens_of_other_sessions_are_rejected(site: sites.Site) -> None:
    """A token is bound to its session."""
    person, other = await site.add_person(), await site.add_person()
    document = await site.functions.factory.completed(person.case)
    async with site.client(person) as client, site.client(other) as another:
        path = f"/documents/{document}/delete"
        refused = await client.post(path, data={"csrf": await csrf(another)})
        done = await client.post(path, headers={"X-CSRF-Token": await csrf(client)})
    assert (refused.status_code, done.status_code) == (403, 303)


async def test_other_sites_cannot_sign_users_in(site: sites.Site) -> None:
    """Otherwise users could work in the account of an attacker."""
    async with site.client() as client:
        form = {"email": "a@example.org", "password": "x"}
        answer = await client.post(
            "/sign-in", data=form, headers={"Origin": "https://evil.example"}
        )
    assert answer.status_code == 403


async def test_documents_of_other_users_are_not_found(site: sites.Site) -> None:
    """Document, page and export respond as if they did not exist."""
    owner, stranger = await site.add_person(), await site.add_person()
    document = await site.functions.factory.completed(owner.case, text="secret")
    async with site.client(stranger) as client:
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


async def test_markup_in_names_and_texts_is_escaped(site: sites.Site) -> None:
    """In lists, search results and pages."""
    person = await site.add_person(admin=True)
    factory = site.functions.factory
    document = await factory.completed(person.case, text=f"treaty {EVIL}")
    await factory.conn.execute(
        "update public.documents set name = %s where id = %s", (EVIL, document)
    )
    async with site.browser(person) as page:
        for path in ("/documents", "/documents?q=treaty", f"/documents/{document}"):
            await page.goto(path)
            assert await page.get_by_text("onerror").count() > 0
            assert await page.title() != "ran"
            assert await page.locator("main script, main img").count() == 0


async def test_missing_vendor_files_are_reported(
    site: sites.Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the npm packages, pages tell how to install them."""
    monkeypatch.setitem(rendering._VENDOR_FILES, "htmx.min.js", "node_modules/missing.js")  # noqa: SLF001
    async with site.client() as client:
        assert "make setup" in (await client.get("/sign-in")).text
        assert (await client.get("/static/vendor/htmx.min.js")).status_code == 404
