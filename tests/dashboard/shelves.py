"""Volumes for the dashboard: a real one, read once, and jobs that people ordered."""

from __future__ import annotations

import dataclasses
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from pagewarden import database as gateways
from pagewarden import settings
from pagewarden.volumes import artifacts, layout, turns
from pagewarden.volumes.artifacts import parquet, rows
from tests.volumes import fakes, house
from tests.volumes.stages import books

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pagewarden import settings as settings_module
    from pagewarden.volumes import stages
    from tests.dashboard import place as places

VOLUME = f"{books.W_ID}-{books.I_ID}"
BROKEN = "page10"
PATH = f"/volumes/{books.JOB}/{VOLUME}"


def _read(root: Path) -> books.Book:
    """Have a volume read of which one page is broken."""
    book = books.make(root).with_config(engine="tesseract", failed_pages_allowed=0.5)
    (book.originals / f"{BROKEN}.png").write_bytes(b"no image")
    books.run_sync(book, "line_detection", "line_extraction", "ocr")
    return book


def _copied(book: books.Book, output: Path) -> books.Book:
    """Have what was published for oneself, in this bucket."""
    shutil.copytree(book.root / "output", output)
    return dataclasses.replace(book, root=output.parent)


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> books.Book:
    """Have a volume that went through real stages, which nobody may change."""
    return _read(tmp_path_factory.mktemp("read"))


@pytest.fixture
def chosen(chosen: settings_module.Settings, tmp_path: Path) -> settings_module.Settings:
    """Look for artifacts in a folder of the test's own."""
    return chosen.model_copy(update={"volume_output": str(tmp_path / "shelf" / "output")})


@pytest.fixture
def book(read: books.Book, tmp_path: Path) -> books.Book:
    """Have the volume in that folder."""
    return _copied(read, tmp_path / "shelf" / "output")


async def ordering(place: places.Place, person: places.Person, scratch: Path) -> house.House:
    """Have jobs ordered by this person, and workers of fake stages that write elsewhere."""
    service = place.functions.used.database
    elsewhere = artifacts.open_bucket(str(scratch / "elsewhere"), settings.Settings())
    url = place.functions.database.url()
    return house.House(
        service.acting_as(gateways.User(str(person.id))),
        service,
        turns.Places(elsewhere, elsewhere),
        scratch / "elsewhere",
        url,
        url,
        place.functions.factory.conn,
    )


async def finished(
    place: places.Place,
    person: places.Person,
    scratch: Path,
    find: Callable[[str], stages.Stage] | None = None,
    *,
    config: dict[str, Any] | None = None,
) -> int:
    """Have the job of the real volume ordered, and ended one way or another; return its id."""
    home = await ordering(place, person, scratch)
    if config and "sources" in config:  # of which one may only name one's own
        await home.order(VOLUME, job_key="other")
    job = await home.order(VOLUME, job_key=books.JOB, max_attempts=1, config=config or {})
    await home.work(home.worker(find or fakes.steady(), name="reader-1"))
    return job


def rewrite(
    book: books.Book,
    *,
    page: Callable[[rows.DetectedPage], dict[str, Any]] = lambda _: {},
    text: Callable[[rows.LineText], dict[str, Any]] = lambda _: {},
    fitting: bool = True,
) -> None:
    """Change rows of what was published; unless it is fitting, later files stay as they were."""
    keys = layout.Volume(book.job_key, books.W_ID, books.I_ID)
    changes: tuple[tuple[str, parquet.Table[Any], Callable[[Any], dict[str, Any]]], ...] = (
        (keys.line_detection, parquet.LINE_DETECTION, page),
        (keys.line_images, parquet.LINE_IMAGES, lambda _: {}),
        (keys.ocr_results, parquet.OCR_RESULTS, text),
    )
    below = None
    for key, table, change in changes if fitting else changes[:1]:
        path = book.root / "output" / key
        with parquet.Reader(path, table, key) as reader:
            stamp, found = reader.stamp, list(reader)
        if below is not None:
            stamp = dataclasses.replace(stamp, input=below)
        path.unlink()
        writer = parquet.Writer(path, table, stamp)
        for row in found:
            writer.add(dataclasses.replace(row, **change(row)))
        writer.close()
        with parquet.Reader(path, table, key) as reader:
            below = reader.digest


OTHER = f"jobs/other/volumes/{VOLUME}/ocr/ocr_results.parquet"
"""Where another job has its texts of the same lines."""


def combine(book: books.Book, *, lost: str, made_of: str | None = None) -> None:
    """Publish texts as 'combine' makes them, where a page was lost that the other job has read.

    All lines of that page are the other's, and the first of every page is what both say. made_of
    is the digest of other texts than those of the volume.
    """
    keys = layout.Volume(book.job_key, books.W_ID, books.I_ID)
    lines, texts = book.lines(), {row.line_guid: row for row in book.texts() if row.ok}
    trouble = {"ok": False, "error_stage": "ocr", "error_type": "EngineFailed"}
    rewrite(book, text=lambda row: trouble if row.image_name == lost else {})
    own = book.root / "output" / keys.ocr_results
    with parquet.Reader(own, parquet.OCR_RESULTS, keys.ocr_results) as reader:
        stamp = parquet.Stamp("reduce", made_of or reader.digest, "others", "", reader.stamp.pages)
    path = book.root / "output" / keys.combined
    path.parent.mkdir(exist_ok=True)
    writer = parquet.Writer(path, parquet.COMBINED, stamp)
    for line in lines:
        if line.trouble:
            writer.add(rows.CombinedText(image_name=line.image_name, ok=False))
            continue
        read = texts[line.line_guid]
        writer.add(
            rows.CombinedText(
                image_name=line.image_name,
                line_index=line.line_index,
                line_guid=line.line_guid,
                text=f"best: {read.text}",
                confidence=read.confidence,
                source=OTHER if line.image_name == lost else keys.ocr_results,
                agreeing=1 if line.line_index else 2,
            )
        )
    writer.close()
