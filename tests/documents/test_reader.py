"""Documents whose files are in a store are fetched, read and saved; nothing stays behind."""

from __future__ import annotations

import contextlib
import io
import tempfile
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from pagewarden import errors, settings, storage
from pagewarden.database import tables
from pagewarden.documents.claim import Claim, ReadOptions
from pagewarden.documents.pages import parse_row
from pagewarden.documents.reader import LocalReader, open_local_reader
from pagewarden.ocr.engines import fakes
from tests.database import queries
from tests.documents import readers
from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from pagewarden.storage import FileStore

WHITE = 255
FAKE = ReadOptions("fake-remote")
"""Reads every white page as its size and its languages."""


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Have temporary files of this process in a place of the test's own, which ends up empty."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FileStore]:
    """Have a store on this disk."""
    async with storage.open_store(settings.Settings(files=str(tmp_path / "files"))) as opened:
        yield opened


def tiff(*shades: int) -> bytes:
    """Draw a document whose pages are of these shades of grey; page n is 100 + n pixels wide."""
    pages = [Image.new("L", (100 + n, 50), shade) for n, shade in enumerate(shades, 1)]
    file = io.BytesIO()
    pages[0].save(file, "TIFF", save_all=True, append_images=pages[1:])
    return file.getvalue()


def fetched(scratch: Path) -> list[Path]:
    """Find the files that are being read."""
    return list(scratch.rglob("document"))


async def keep(store: FileStore, desk: readers.Desk, content: bytes, **wishes: str) -> str:
    """Store a file and queue its document."""

    async def chunks() -> AsyncIterator[bytes]:
        yield content

    case = await desk.factory.case()
    path = f"{case}/file.tif"
    await store.write(path, chunks())
    wanted = {f"p_{name}": value for name, value in wishes.items()}
    return str(await desk.factory.queued(case, p_new_dropbox_path=f"/{path}", **wanted))


@contextlib.asynccontextmanager
async def reading(store: FileStore, wishes: ReadOptions = FAKE) -> AsyncIterator[LocalReader]:
    """Start a reader with one process."""
    async with open_local_reader(store, options=wishes, processes=1) as opened:
        yield opened


@pytest.mark.usefixtures("scratch")
async def test_a_document_is_read_from_its_store(store: FileStore, desk: readers.Desk) -> None:
    """Page by page, in a run that names engine, version and profile, and can be made again."""
    document = await keep(store, desk, tiff(WHITE, WHITE), language="fr-CA", profile="fast")

    async with reading(store) as reader:
        assert await desk.drain(reader) == {"completed": 1}

    assert (await desk.row(document))["page_count"] == 2
    saved = await desk.link.select(tables.ocr_pages, order="page_number")
    assert [page["text"] for page in saved] == ["101x50 fra", "102x50 fra"]
    assert [(page["status"], page["width"], page["language"]) for page in saved] == [
        ("read", 101, "fr"),
        ("read", 102, "fr"),
    ]
    (run,) = await desk.link.select(tables.ocr_runs)
    assert (run["engine"], run["engine_version"], run["profile"]) == ("fake-remote", "1", "fast")
    again = parse_row(saved[1])
    assert (again.text, again.width, again.source, again.usage.input_tokens) == (
        "102x50 fra", 102, "ocr", 1,
    )  # fmt: skip


@pytest.mark.usefixtures("scratch")
async def test_bad_pages_and_blank_ones_are_saved_as_what_they_are(
    store: FileStore, desk: readers.Desk
) -> None:
    """One bad page of many does not lose the document."""
    shades = [WHITE] * 11
    shades[4] = fakes.SHADES["damaged"]
    await keep(store, desk, tiff(*shades))

    async with reading(store, ReadOptions("fake")) as reader:
        assert await desk.drain(reader) == {"completed": 1}

    saved = await desk.link.select(tables.ocr_pages, order="page_number")
    assert [page["status"] for page in saved] == ["blank"] * 4 + ["failed"] + ["blank"] * 6
    assert "the page is damaged" in (saved[4]["error"] or "")
    assert parse_row(saved[4]).error == saved[4]["error"]
    assert await queries.violations(desk.factory.conn) == []


async def test_a_reading_that_is_stopped_leaves_no_file_and_is_taken_up_again(
    store: FileStore, desk: readers.Desk, scratch: Path
) -> None:
    """The pages it has are kept, the others are read by whoever comes next."""
    await keep(store, desk, tiff(WHITE, WHITE, fakes.SHADES["hang"], WHITE))

    async with reading(store) as reader:
        async with readers.at_work(desk.worker(reader)):
            await desk.has_saved(2)
            assert len(fetched(scratch)) == 1
        assert fetched(scratch) == []
        (row,) = await desk.link.select(tables.documents)
        assert (row["ocr_status"], row["attempts"]) == ("queued", 0)
        claim = Claim.from_row(row)
        async with contextlib.aclosing(reader.read(claim, frozenset({1, 2, 3}))) as rest:
            assert [(page.number, page.of) async for page in rest] == [(4, 4)]


@pytest.mark.usefixtures("scratch")
async def test_engines_and_profiles_are_those_that_documents_wish_for(
    store: FileStore, desk: readers.Desk
) -> None:
    """Each is started once, when it is first wished for."""
    for _ in range(2):
        await keep(store, desk, tiff(WHITE), engine="null", profile="accurate")
    await keep(store, desk, tiff(WHITE))

    async with reading(store) as reader:
        assert await desk.drain(reader) == {"completed": 3}

    runs = await desk.link.select(tables.ocr_runs, order="engine")
    assert [(run["engine"], run["profile"]) for run in runs] == [
        ("fake-remote", "balanced"),
        ("null", "accurate"),
        ("null", "accurate"),
    ]


@pytest.mark.usefixtures("scratch")
async def test_a_wish_that_cannot_be_met_fails_its_document_alone(
    store: FileStore, desk: readers.Desk
) -> None:
    """The lane goes on; the message says what could be wished for instead."""
    wishes = ({"engine": "fake"}, {"engine": "nope"}, {"profile": "nope"})
    failing = [await keep(store, desk, tiff(WHITE), **wish) for wish in wishes]
    await keep(store, desk, tiff(WHITE))

    async with reading(store) as reader:
        assert await desk.drain(reader) == {"completed": 1, "failed": 3}

    for document in failing:
        row = await desk.row(document)
        assert row["retry_count"] == 1
        assert "read the document again with one of" in row["ocr_error"]


@pytest.mark.usefixtures("scratch")
async def test_a_file_that_is_gone_is_for_people_to_find(
    store: FileStore, desk: readers.Desk
) -> None:
    """It may come a little later than its document; who waited in vain is a dead letter."""
    document, fileless = await keep(store, desk, tiff(WHITE)), await desk.factory.awaiting_file()
    path = (await desk.row(document))["dropbox_path"].lstrip("/")
    await store.delete(path)
    await desk.factory.conn.execute(
        "update public.documents set ocr_status = 'queued', lane = 'image' where id = %s",
        (fileless,),
    )

    async with reading(store) as reader:
        assert await desk.drain(reader) == {"failed": 2}
        for lost in (document, fileless):
            row = await desk.row(lost)
            assert (row["ocr_status"], "file" in row["ocr_error"]) == ("queued", True)
        await desk.factory.conn.execute(
            "update public.documents set max_attempts = 2, retry_at = null"
        )
        assert await desk.drain(reader) == {"failed": 2}

    for lost in (document, fileless):
        assert (await desk.row(lost))["ocr_status"] == "dead_letter"


@pytest.mark.usefixtures("scratch")
async def test_an_engine_that_is_away_pauses_the_lane(store: FileStore, desk: readers.Desk) -> None:
    """The document is given back uncounted."""
    document = await keep(store, desk, tiff(fakes.SHADES["engine-away"]))

    async with reading(store) as reader:
        assert await desk.drain(reader) == {"given_back": 1}

    assert (await desk.row(document))["attempts"] == 0


@pytest.mark.usefixtures("scratch")
async def test_an_engine_that_is_missing_is_known_before_anything_is_claimed(
    store: FileStore,
) -> None:
    """A worker without an engine does not begin to work."""
    with pytest.raises(errors.EngineNotInstalled):
        async with reading(store, ReadOptions("fake-unloadable")):
            pass


@pytest.mark.usefixtures("scratch")
async def test_the_usual_engine_without_its_key_is_an_outage(
    store: FileStore, desk: readers.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever set it up wrongly mends it once, and no document is lost meanwhile."""

    def refuse(*_: object) -> None:
        raise errors.ApiKeyRejected("the service wants another key")

    monkeypatch.setattr(fakes.FakeRemoteEngine, "recognise", refuse)
    document = await keep(store, desk, tiff(WHITE))

    async with reading(store) as reader:
        assert await desk.drain(reader) == {"given_back": 1}

    (lane,) = await desk.link.select(tables.lanes, where={"lane": "image"})
    assert lane["pause_reason"] == "the service wants another key"
    assert (await desk.row(document))["retry_count"] == 0


@pytest.mark.usefixtures("scratch")
async def test_many_documents_share_one_reader(store: FileStore, desk: readers.Desk) -> None:
    """Several workers of a process take turns with its children."""
    for _ in range(6):
        await keep(store, desk, tiff(WHITE))

    async with reading(store) as reader, contextlib.AsyncExitStack() as crew:
        for number in range(3):
            worker = desk.worker(reader, worker_id=f"worker-{number}", idle_seconds=0.1)
            await crew.enter_async_context(readers.at_work(worker))
        await desk.has_saved(6)

        async def all_completed() -> bool:
            rows = await desk.link.select(tables.documents, columns="ocr_status")
            return {row["ocr_status"] for row in rows} == {"completed"}

        await polling.wait_until(all_completed)
