"""pagewarden archive: documents are archived whole, and erased only then."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import TYPE_CHECKING

import pytest
from typer import testing

from pagewarden import cli, errors, settings, storage
from tests.database import factories, queries

if TYPE_CHECKING:
    import uuid
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support import databases


@pytest.fixture
async def factory(
    database: databases.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> factories.Factory:
    """Let the command find a database and a store of the test's own."""
    monkeypatch.setenv("PAGEWARDEN_DATABASE_URL", database.url())
    monkeypatch.setenv("PAGEWARDEN_FILES", str(tmp_path / "files"))
    return await factories.Factory.of(database)


async def typed(folder: Path, *words: str, code: int = 0) -> str:
    """Type a command, and give what it said."""
    command = ["archive", str(folder), "--older-than", "365", *words]
    result = await asyncio.to_thread(testing.CliRunner().invoke, cli.app, command)
    if isinstance(result.exception, errors.PagewardenError):
        raise result.exception
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


async def _old(factory: factories.Factory, content: bytes | None, text: str) -> uuid.UUID:
    """Have a document that was read long ago; without content its file is missing."""
    document = await factory.completed(text=text)

    async def chunks() -> AsyncIterator[bytes]:
        yield content or b""

    path = f"old/{document}"
    if content is not None:
        async with storage.open_store(settings.load()) as store:
            await store.write(path, chunks())
    await factory.conn.execute(
        "update documents set dropbox_path = %s, name = name || '.png', "
        "created_at = now() - interval '400 days' where id = %s",
        (f"/{path}", document),
    )
    return document


async def test_old_documents_are_archived_with_their_files_and_erased(
    factory: factories.Factory, tmp_path: Path
) -> None:
    """What the manifest says is there, and what is new stays in the system."""
    old = [await _old(factory, b"scan", "Dear Ada"), await _old(factory, b"more", "Dear Ben")]
    new = await factory.completed()
    folder = tmp_path / "archive"

    assert "2 documents would be archived" in await typed(folder, "--dry-run", "--erase")
    assert "2 documents archived" in await typed(folder)
    assert "0 documents archived (0.0 MB), 2 already archived" in await typed(folder)
    said = await typed(folder, "--erase")

    assert "2 already archived, 2 erased" in said
    rows = await queries.rows(factory.conn, "select id from documents")
    assert [row["id"] for row in rows] == [new]
    lines = [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]
    assert {line["document_id"] for line in lines} == {str(document) for document in old}
    for line in lines:
        for name, digest in line["files"].items():
            assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    texts = sorted(path.read_text() for path in folder.rglob("text.txt"))
    assert texts == ["Dear Ada", "Dear Ben"]
    assert sorted(path.read_bytes() for path in folder.rglob("original.png")) == [b"more", b"scan"]
    (kept, *_) = folder.rglob("document.json")
    assert {"document", "page_texts", "page_corrections", "ocr_processing_logs"} < {
        *json.loads(kept.read_text())
    }


async def test_a_document_whose_file_is_missing_is_named_and_stays(
    factory: factories.Factory, tmp_path: Path
) -> None:
    """The others are archived."""
    missing = await _old(factory, None, "lost")
    await _old(factory, b"scan", "Dear Ada")

    said = await typed(tmp_path / "archive", "--erase", code=1)

    assert "1 document archived" in said
    rows = await queries.rows(factory.conn, "select id from documents")
    assert [row["id"] for row in rows] == [missing]


async def test_a_document_with_an_incomplete_manifest_line_is_archived_again(
    factory: factories.Factory, tmp_path: Path
) -> None:
    """It is written again before it is erased, in a line of its own."""
    document = await _old(factory, b"scan", "Dear Ada")
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "manifest.jsonl").write_text(f'{{"document_id": "{document}", "na')

    assert "1 document archived" in await typed(folder)
    assert "1 already archived, 1 erased" in await typed(folder, "--erase")


async def _correct(factory: factories.Factory, document: uuid.UUID, text: str) -> None:
    """Have a person correct the first page."""
    answer = await factory.call(
        "correct_page", p_document_id=document, p_page_number=1, p_base_version=0, p_text=text
    )
    assert answer["success"], answer


async def test_a_document_that_changed_after_it_was_archived_is_not_erased(
    factory: factories.Factory, tmp_path: Path
) -> None:
    """It is named; archived again, with the correction, it can go."""
    document = await _old(factory, b"scan", "Dear Ada")
    folder = tmp_path / "archive"
    await typed(folder)
    await _correct(factory, document, "Dear Eve")

    refused = await typed(folder, "--erase", code=1)

    assert f"({document}) was not erased: the document has changed since" in refused
    assert "without --erase to archive the document again" in refused
    assert len(await queries.rows(factory.conn, "select from documents")) == 1
    assert "1 document would be archived" in await typed(folder, "--dry-run")
    assert "1 document archived" in await typed(folder)
    (text,) = folder.rglob("text.txt")
    assert text.read_text() == "Dear Eve"
    (kept,) = folder.rglob("document.json")
    archived = json.loads(kept.read_text())
    assert [page["text"] for page in archived["ocr_pages"]] == ["Dear Ada"]
    assert [page["text"] for page in archived["page_corrections"]] == ["Dear Eve"]
    assert "1 already archived, 1 erased" in await typed(folder, "--erase")


async def test_a_document_whose_archived_file_is_damaged_is_not_erased(
    factory: factories.Factory, tmp_path: Path
) -> None:
    """The next run without --erase writes it again."""
    await _old(factory, b"scan", "Dear Ada")
    folder = tmp_path / "archive"
    await typed(folder)
    (original,) = folder.rglob("original.png")
    original.write_bytes(b"")

    assert "damaged or missing" in await typed(folder, "--erase", code=1)
    assert "1 document archived" in await typed(folder)
    assert original.read_bytes() == b"scan"


async def test_a_folder_that_cannot_be_used_is_said_to_be(
    factory: factories.Factory, tmp_path: Path
) -> None:
    """Nothing is erased."""
    await _old(factory, b"scan", "Dear Ada")
    (tmp_path / "file").write_text("")

    with pytest.raises(errors.LocalFileError, match="choose another folder"):
        await typed(tmp_path / "file", "--erase")
