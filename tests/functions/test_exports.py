"""Exports over HTTP: what was read, in every format, for those who may see it."""

from __future__ import annotations

import json
import tempfile
import uuid
from typing import TYPE_CHECKING

import pikepdf
import pypdfium2  # type: ignore[import-untyped, unused-ignore]  # it has no types
import pytest

from pagewarden import exports
from tests.functions import house
from tests.ocr import samples
from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx

    from pagewarden.database import Database
    from pagewarden.settings import Settings
    from tests.functions.house import House
    from tests.support import databases


async def _read(functions: House) -> tuple[uuid.UUID, str]:
    """Have a PDF of two pages read; give its owner and id."""
    user = await functions.factory.user()
    answer = await functions.upload(user, house.READABLE_PDF, "Ein Brief.pdf")
    await functions.read()
    return user, answer.json()["document_id"]


async def _export(functions: House, user: uuid.UUID, document: str, **query: str) -> httpx.Response:
    return await functions.call("GET", f"documents/{document}/export", user=user, params=query)


async def test_every_format_can_be_downloaded(reading_functions: House) -> None:
    """Each has its media type and a name, and says what the page says."""
    user, document = await _read(reading_functions)
    for name, form in exports.FORMATS.items():
        answer = await _export(reading_functions, user, document, format=name)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].split(";")[0] == form.media_type
        assert f"Ein%20Brief{form.suffix}" in answer.headers["content-disposition"]
        assert answer.content


async def test_text_json_and_pdf_hold_what_the_pages_say(reading_functions: House) -> None:
    """The text is the default; the PDF is the original with its pages."""
    user, document = await _read(reading_functions)
    text = await _export(reading_functions, user, document)
    assert text.text.count(samples.PROSE[0]) == 2
    found = json.loads((await _export(reading_functions, user, document, format="json")).content)
    assert len(found["pages"]) == 2
    pdf = await _export(reading_functions, user, document, format="pdf")
    target = reading_functions.folder / "export.pdf"
    target.write_bytes(pdf.content)
    with pikepdf.open(target) as opened:
        assert len(opened.pages) == 2


async def test_every_format_says_what_people_made_of_a_page(reading_functions: House) -> None:
    """A text that somebody typed is laid over the page, and the other page stays as it was."""
    user, document = await _read(reading_functions)
    answer = await reading_functions.factory.call(
        "correct_page",
        p_document_id=document,
        p_page_number=2,
        p_base_version=0,
        p_text="Zwetschgenknoedel\n\nby hand",
    )
    assert answer["success"]
    for name in set(exports.FORMATS) - {"pdf"}:
        export = await _export(reading_functions, user, document, format=name)
        assert "Zwetschgenknoedel" in export.text, name
    text = (await _export(reading_functions, user, document)).text
    assert text.count(samples.PROSE[0]) == 1
    assert text.endswith("\fZwetschgenknoedel\n\nby hand\n")
    pdf = await _export(reading_functions, user, document, format="pdf")
    with pypdfium2.PdfDocument(pdf.content) as opened:
        assert "Zwetschgenknoedel" in opened[1].get_textpage().get_text_range()


async def test_an_export_removes_what_one_that_was_killed_left_behind(
    reading_functions: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Originals and texts of people do not stay in the folder of everybody."""
    user, document = await _read(reading_functions)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed = tmp_path / "pagewarden-files-killed"
    killed.mkdir()
    (killed / "in-use").touch()
    (killed / "original").write_bytes(b"a secret")
    assert (await _export(reading_functions, user, document, format="pdf")).status_code == 200
    await polling.wait_until(lambda: not list(tmp_path.glob("pagewarden-files-*")))


async def test_large_export_is_a_link_to_the_store(limited: House) -> None:
    """Small ones stay as they are; the file behind the link is removed after a day."""
    user, document = await _read(limited)
    small = await _export(limited, user, document)
    assert (small.status_code, samples.PROSE[0] in small.text) == (200, True)
    large = await _export(limited, user, document, format="pdf")
    assert large.status_code == 303
    linked = await limited.session.get(large.headers["location"])
    assert linked.content.startswith(b"%PDF")
    assert "/Ein%20Brief.pdf?" in large.headers["location"]
    assert (await limited.serve("retention")).json()["expired"] == 0
    await limited.factory.conn.execute("update private.temporary_files set expires_at = now()")
    assert (await limited.serve("retention")).json()["expired"] == 1
    assert len(limited.stored()) == 1
    assert (await limited.session.get(large.headers["location"])).status_code == 404


@pytest.fixture
async def limited(
    database: databases.Database, gateway: Database, chosen: Settings
) -> AsyncIterator[House]:
    """Serve all functions as if behind a gateway that limits responses."""
    settings = chosen.model_copy(update={"max_direct_download": 1000})
    async with house.opened(database, gateway, settings) as opened:
        yield opened


async def test_a_document_without_text_yet_says_how_far_it_is(functions: House) -> None:
    """The client can ask again."""
    user = await functions.factory.user()
    document = (await functions.upload(user, house.PNG)).json()["document_id"]
    answer = await _export(functions, user, document)
    assert (answer.status_code, answer.json()["error"]) == (409, "NOT_READ")
    assert "queued" in answer.json()["message"]


async def test_somebody_elses_document_is_not_there(reading_functions: House) -> None:
    """Nobody learns that it exists."""
    _, document = await _read(reading_functions)
    stranger = await reading_functions.factory.user()
    answers = [
        await _export(reading_functions, stranger, document, format="pdf"),
        await _export(reading_functions, stranger, str(uuid.uuid4()), format="pdf"),
    ]
    assert {answer.status_code for answer in answers} == {404}
    assert answers[0].json() == answers[1].json()


@pytest.mark.parametrize("query", [{"format": "docx"}, {"format": ""}])
async def test_an_unknown_format_is_refused_with_the_known_ones(
    functions: House, query: dict[str, str]
) -> None:
    """The message lists them."""
    user = await functions.factory.user()
    answer = await _export(functions, user, str(uuid.uuid4()), **query)
    assert answer.status_code == 400
    assert "hocr" in answer.json()["message"]
