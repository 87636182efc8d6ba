"""Files of a volume: what was published can be downloaded, by whoever may see the volume."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.async_api import expect

from pagewarden.database import tables
from tests.dashboard import browsing, volume_jobs
from tests.dashboard.volume_jobs import book, chosen, read
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.dashboard import site as sites

__all__ = ["book", "chosen", "read"]

PATH, VOLUME = volume_jobs.PATH, volume_jobs.VOLUME
PARQUET = [f"{VOLUME}_{name}" for name in books.PARQUET.values()]


def _add(book: books.Book, name: str, content: bytes) -> None:
    path = book.artifacts / "reduce" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


async def test_published_files_are_downloaded(
    site: sites.Site, book: books.Book, tmp_path: Path
) -> None:
    """With their size; files of an earlier run are marked."""
    person = await site.add_person()
    await volume_jobs.finish_job(site, person, tmp_path, config={"exports": ["txt"]})
    _add(book, f"{VOLUME}.txt", "རྒྱ".encode())
    _add(book, f"{VOLUME}.alto.zip", b"x" * 12_345)
    _add(book, "secret.txt", b"secret")
    async with site.browser(person) as page:
        await page.goto(PATH)
        files = page.get_by_role("region", name="Files")
        await expect(files.get_by_role("link")).to_have_text(
            [*PARQUET, f"{VOLUME}.txt", f"{VOLUME}.alto.zip"]
        )
        await expect(files.get_by_role("listitem").last).to_contain_text("12 KB")
        await expect(files.get_by_role("listitem").last).to_contain_text("from a previous run")
        await expect(files.get_by_text("from a previous run")).to_have_count(1)
        async with page.expect_download() as begun:
            await files.get_by_role("link", name=f"{VOLUME}.txt").click()
        saved = await begun.value
        assert saved.suggested_filename == f"{VOLUME}.txt"
        assert (await browsing.read_download(saved)).decode() == "རྒྱ"
    async with site.client(person) as client:
        answer = await client.get(f"{PATH}/files/{PARQUET[2]}")
    texts = book.artifacts / "ocr" / books.PARQUET["ocr"]
    assert answer.content == texts.read_bytes()
    assert answer.headers["content-disposition"] == f'attachment; filename="{PARQUET[2]}"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


async def test_files_larger_than_the_cache_are_sent(
    site: sites.Site, book: books.Book, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is kept until it has been sent."""
    monkeypatch.setattr("pagewarden.volumes.page_view._CACHE_BYTES", 0)
    person = await site.add_person()
    await volume_jobs.finish_job(site, person, tmp_path)
    content = bytes(range(256)) * 40_000
    _add(book, f"{VOLUME}.txt", content)
    async with site.client(person) as client:
        answer = await client.get(f"{PATH}/files/{VOLUME}.txt")
    assert answer.content == content


async def test_files_are_for_users_with_access(
    site: sites.Site, book: books.Book, tmp_path: Path
) -> None:
    """Names only select from a fixed set of files."""
    owner, stranger = await site.add_person(), await site.add_person()
    admin = await site.add_person(admin=True)
    await volume_jobs.finish_job(site, owner, tmp_path)
    _add(book, f"{VOLUME}.txt", b"text")
    _add(book, "secret.txt", b"secret")
    (book.root / "secret.txt").write_bytes(b"secret")
    names = [*PARQUET, f"{VOLUME}.txt"]
    wrong = (
        "secret.txt", "..%2fsecret.txt", "../secret.txt", "%2e%2e%2f%2e%2e%2fsecret.txt",
        books.PARQUET["ocr"], "ocr%2focr_results.parquet", f"{VOLUME}.docx", f"{VOLUME}.alto.zip",
        f"{VOLUME}.txt%00", "%ff", "%2fetc%2fpasswd", "",
    )  # fmt: skip
    async with site.client(stranger) as client:
        answers = [await client.get(f"{PATH}/files/{name}") for name in (*names, *wrong)]
        assert {answer.status_code for answer in answers} == {404}
    async with site.client() as client:
        for name in names:
            answer = await client.get(f"{PATH}/files/{name}")
            assert answer.headers["location"].startswith("/sign-in")
    for person in (owner, admin):
        async with site.client(person) as client:
            assert {(await client.get(f"{PATH}/files/{n}")).status_code for n in names} == {200}
            for name in wrong:
                answer = await client.get(f"{PATH}/files/{name}")
                assert (answer.status_code, "secret" in answer.text) == (404, False), name


async def test_a_missing_text_export_is_created_by_a_rerun(
    site: sites.Site, book: books.Book, tmp_path: Path
) -> None:
    """The page of the volume links to the form, with the stage preselected."""
    person = await site.add_person()
    assert book.artifacts.is_dir()
    await volume_jobs.finish_job(site, person, tmp_path)
    async with site.browser(person) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto(PATH)
        await page.locator("#make-text").click()
        await page.get_by_label("text", exact=True).check()
        await page.get_by_role("button", name="Rerun").click()
        await expect(page.locator("#notice")).to_contain_text("Queued again for reduce")
    (job,) = await site.functions.used.database.select(tables.volume_jobs)
    assert job["config"] == {"exports": ["txt"]}


async def test_unavailable_files_are_explained(
    site: sites.Site, book: books.Book, tmp_path: Path
) -> None:
    """A deleted file, a text that was not exported, and an inaccessible bucket."""
    person = await site.add_person()
    await volume_jobs.finish_job(site, person, tmp_path)
    async with site.client(person) as client:
        html = (await client.get(PATH)).text
        assert re.findall(r'id="file-([^"]+)"', html) == [
            "line_detection",
            "line_images",
            "ocr_results",
        ]
        assert "plain text of the whole volume was not exported" in html
        (book.artifacts / "ocr" / books.PARQUET["ocr"]).unlink()
        gone = await client.get(f"{PATH}/files/{VOLUME}.txt")
        assert (gone.status_code, "does not exist" in gone.text) == (404, True)
        (book.root / "output").rename(book.root / "gone")
        (book.root / "output").write_text("no folder")
        await site.functions.factory.conn.execute(
            "update volume_tasks set publications = publications + 1"
        )
        html = (await client.get(PATH)).text
        assert "files cannot be listed" in html
        assert "was not exported" not in html
        assert (await client.get(f"{PATH}/files/{PARQUET[0]}")).status_code == 503
