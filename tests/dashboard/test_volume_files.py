"""Files of a volume: what was published can be downloaded, by whoever may see the volume."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.async_api import expect

from pagewarden.database import tables
from tests.dashboard import browsing, shelves
from tests.dashboard.shelves import book, chosen, read
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.dashboard import place as places

__all__ = ["book", "chosen", "read"]

PATH, VOLUME = shelves.PATH, shelves.VOLUME
PARQUET = [f"{VOLUME}_{name}" for name in books.PARQUET.values()]


def _add(book: books.Book, name: str, content: bytes) -> None:
    place = book.artifacts / "reduce" / name
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(content)


async def test_what_was_published_is_downloaded(
    place: places.Place, book: books.Book, tmp_path: Path
) -> None:
    """Each with its size, and whole; what is of an earlier run says so."""
    person = await place.person()
    await shelves.finished(place, person, tmp_path, config={"exports": ["txt"]})
    _add(book, f"{VOLUME}.txt", "རྒྱ".encode())
    _add(book, f"{VOLUME}.alto.zip", b"x" * 12_345)
    _add(book, "secret.txt", b"secret")
    async with place.browser(person) as page:
        await page.goto(PATH)
        files = page.get_by_role("region", name="Files")
        await expect(files.get_by_role("link")).to_have_text(
            [*PARQUET, f"{VOLUME}.txt", f"{VOLUME}.alto.zip"]
        )
        await expect(files.get_by_role("listitem").last).to_contain_text("12 KB")
        await expect(files.get_by_role("listitem").last).to_contain_text("of an earlier run")
        await expect(files.get_by_text("of an earlier run")).to_have_count(1)
        async with page.expect_download() as begun:
            await files.get_by_role("link", name=f"{VOLUME}.txt").click()
        saved = await begun.value
        assert saved.suggested_filename == f"{VOLUME}.txt"
        assert (await browsing.downloaded(saved)).decode() == "རྒྱ"
    async with place.visitor(person) as client:
        answer = await client.get(f"{PATH}/files/{PARQUET[2]}")
    texts = book.artifacts / "ocr" / books.PARQUET["ocr"]
    assert answer.content == texts.read_bytes()
    assert answer.headers["content-disposition"] == f'attachment; filename="{PARQUET[2]}"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


async def test_a_file_that_is_too_large_to_be_kept_is_sent_whole(
    place: places.Place, book: books.Book, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its copy stays until the last piece of it is sent."""
    monkeypatch.setattr("functions.volume_pages._BYTES", 0)
    person = await place.person()
    await shelves.finished(place, person, tmp_path)
    content = bytes(range(256)) * 40_000
    _add(book, f"{VOLUME}.txt", content)
    async with place.visitor(person) as client:
        answer = await client.get(f"{PATH}/files/{VOLUME}.txt")
    assert answer.content == content


async def test_files_are_for_whoever_may_see_the_volume(
    place: places.Place, book: books.Book, tmp_path: Path
) -> None:
    """For strangers there are none, and names lead nowhere but to files of the fixed set."""
    owner, stranger = await place.person(), await place.person()
    admin = await place.person(admin=True)
    await shelves.finished(place, owner, tmp_path)
    _add(book, f"{VOLUME}.txt", b"text")
    _add(book, "secret.txt", b"secret")
    (book.root / "secret.txt").write_bytes(b"secret")
    names = [*PARQUET, f"{VOLUME}.txt"]
    wrong = (
        "secret.txt", "..%2fsecret.txt", "../secret.txt", "%2e%2e%2f%2e%2e%2fsecret.txt",
        books.PARQUET["ocr"], "ocr%2focr_results.parquet", f"{VOLUME}.docx", f"{VOLUME}.alto.zip",
        f"{VOLUME}.txt%00", "%ff", "%2fetc%2fpasswd", "",
    )  # fmt: skip
    async with place.visitor(stranger) as client:
        answers = [await client.get(f"{PATH}/files/{name}") for name in (*names, *wrong)]
        assert {answer.status_code for answer in answers} == {404}
    async with place.visitor() as client:
        for name in names:
            answer = await client.get(f"{PATH}/files/{name}")
            assert answer.headers["location"].startswith("/sign-in")
    for person in (owner, admin):
        async with place.visitor(person) as client:
            assert {(await client.get(f"{PATH}/files/{n}")).status_code for n in names} == {200}
            for name in wrong:
                answer = await client.get(f"{PATH}/files/{name}")
                assert (answer.status_code, "secret" in answer.text) == (404, False), name


async def test_a_text_that_nobody_asked_for_is_made_later(
    place: places.Place, book: books.Book, tmp_path: Path
) -> None:
    """The page of the volume leads to where that is done, with the right stage chosen."""
    person = await place.person()
    assert book.artifacts.is_dir()
    await shelves.finished(place, person, tmp_path)
    async with place.browser(person) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto(PATH)
        await page.locator("#make-text").click()
        await page.get_by_label("text", exact=True).check()
        await page.get_by_role("button", name="Do it again").click()
        await expect(page.locator("#notice")).to_contain_text("in the queue of reduce again")
    (job,) = await place.functions.used.database.select(tables.volume_jobs)
    assert job["config"] == {"exports": ["txt"]}


async def test_files_that_cannot_be_had_are_told(
    place: places.Place, book: books.Book, tmp_path: Path
) -> None:
    """One that is gone, a text that nobody asked for, and a bucket that cannot be used."""
    person = await place.person()
    await shelves.finished(place, person, tmp_path)
    async with place.visitor(person) as client:
        html = (await client.get(PATH)).text
        assert re.findall(r'id="file-([^"]+)"', html) == [
            "line_detection",
            "line_images",
            "ocr_results",
        ]
        assert "No text was made of the whole volume" in html
        (book.artifacts / "ocr" / books.PARQUET["ocr"]).unlink()
        gone = await client.get(f"{PATH}/files/{VOLUME}.txt")
        assert (gone.status_code, "is not there" in gone.text) == (404, True)
        (book.root / "output").rename(book.root / "gone")
        (book.root / "output").write_text("no folder")
        await place.functions.factory.conn.execute(
            "update volume_tasks set publications = publications + 1"
        )
        html = (await client.get(PATH)).text
        assert "cannot be listed now" in html
        assert "No text was made" not in html
        assert (await client.get(f"{PATH}/files/{PARQUET[0]}")).status_code == 503
