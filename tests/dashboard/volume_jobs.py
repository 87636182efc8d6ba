"""Volumes for the dashboard: one that was really read, and jobs of users."""

from __future__ import annotations

import dataclasses
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from pagewarden import database as gateways
from pagewarden import settings as settings_module
from pagewarden.volumes import artifact_keys, artifacts, stage_attempt
from pagewarden.volumes.artifacts import parquet, rows
from tests.volumes import fakes, house
from tests.volumes.stages import books

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pagewarden.volumes import stages
    from tests.dashboard import site as sites

VOLUME = f"{books.W_ID}-{books.I_ID}"
BROKEN = "page10"
PATH = f"/volumes/{books.JOB}/{VOLUME}"


def _read(root: Path) -> books.Book:
    """Read a volume with one broken page."""
    book = books.make(root).with_config(engine="tesseract", failed_pages_allowed=0.5)
    (book.originals / f"{BROKEN}.png").write_bytes(b"no image")
    books.run_sync(book, "line_detection", "line_extraction", "ocr")
    return book


def _copy(book: books.Book, output: Path) -> books.Book:
    """Copy the published artifacts into another bucket."""
    shutil.copytree(book.root / "output", output)
    return dataclasses.replace(book, root=output.parent)


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> books.Book:
    """Return a volume that went through the real stages; tests must not change it."""
    return _read(tmp_path_factory.mktemp("read"))


@pytest.fixture
def chosen(chosen: settings_module.Settings, tmp_path: Path) -> settings_module.Settings:
    """Keep artifacts in a folder of the test."""
    return chosen.model_copy(update={"volume_output": str(tmp_path / "bucket" / "output")})


@pytest.fixture
def book(read: books.Book, tmp_path: Path) -> books.Book:
    """Return a copy of the volume in that folder."""
    return _copy(read, tmp_path / "bucket" / "output")


async def open_house(site: sites.Site, person: sites.Person, scratch: Path) -> house.House:
    """Return a client for jobs of this person, and for workers that write to another bucket."""
    service = site.functions.used.database
    elsewhere = artifacts.open_bucket(str(scratch / "elsewhere"), settings_module.Settings())
    url = site.functions.database.url()
    return house.House(
        service.acting_as(gateways.User(str(person.id))),
        service,
        stage_attempt.StageEnvironment(elsewhere, elsewhere),
        scratch / "elsewhere",
        url,
        url,
        site.functions.factory.conn,
    )


async def finish_job(
    site: sites.Site,
    person: sites.Person,
    scratch: Path,
    find: Callable[[str], stages.Stage] | None = None,
    *,
    config: dict[str, Any] | None = None,
) -> int:
    """Create the job of the real volume, run it to its end, and return its id."""
    home = await open_house(site, person, scratch)
    if config and "sources" in config:  # users may only name their own jobs
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
    """Change published rows; with `fitting`, update the later files so that they match."""
    keys = artifact_keys.VolumeKeys(book.job_key, books.W_ID, books.I_ID)
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
        writer = parquet.ParquetWriter(path, table, stamp)
        for row in found:
            writer.add(dataclasses.replace(row, **change(row)))
        writer.close()
        with parquet.Reader(path, table, key) as reader:
            below = reader.digest


OTHER = f"jobs/other/volumes/{VOLUME}/ocr/ocr_results.parquet"
"""The key of another job's texts of the same lines."""


def combine(book: books.Book, *, lost: str, made_of: str | None = None) -> None:
    """Publish combined texts, where the other job has read a page that this one lost.

    All lines of that page are from the other job; on the first line of each page, both agree.
    `made_of` is the input digest, by default that of the volume's own texts.
    """
    keys = artifact_keys.VolumeKeys(book.job_key, books.W_ID, books.I_ID)
    lines, texts = book.lines(), {row.line_guid: row for row in book.texts() if row.ok}
    trouble = {"ok": False, "error_stage": "ocr", "error_type": "EngineFailed"}
    rewrite(book, text=lambda row: trouble if row.image_name == lost else {})
    own = book.root / "output" / keys.ocr_results
    with parquet.Reader(own, parquet.OCR_RESULTS, keys.ocr_results) as reader:
        stamp = parquet.Stamp("reduce", made_of or reader.digest, "others", "", reader.stamp.pages)
    path = book.root / "output" / keys.combined
    path.parent.mkdir(exist_ok=True)
    writer = parquet.ParquetWriter(path, parquet.COMBINED, stamp)
    for line in lines:
        if line.error:
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
