"""The last stage: figures, exports, and the best of several readings."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from pagewarden import errors
from pagewarden.volumes import artifacts, exports
from pagewarden.volumes.artifacts import parquet, rows
from pagewarden.volumes.artifacts.folder import FolderBucket
from tests.ocr import printed
from tests.volumes.stages import books

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from numpy.typing import NDArray

STAGE = "reduce"
ALTO = "{http://www.loc.gov/standards/alto/ns-v4#}"


async def test_the_figures_of_a_volume(copied: books.Book) -> None:
    """Those that the results of volumes have, and that nothing is published without being asked."""
    before = copied.digests()
    done = await copied.run(STAGE, seconds_before=10.0)
    assert (done.pages, done.failed_pages, done.skipped) == (3, 0, False)
    figures = done.metrics
    assert (figures["total_images"], figures["total_lines"]) == (3, 6)
    assert figures["total_characters"] == sum(len(line) for page in books.TEXTS for line in page)
    assert figures["dewarping_applied_count"] == 0
    assert figures["processing_duration_ms"] == 1000 * (10.0 + float(figures["seconds"]))
    assert 0.8 < float(figures["mean_confidence"]) <= 1
    assert copied.digests() == before


async def test_failed_blank_and_unread_pages_are_counted_apart(book: books.Book) -> None:
    """Failure must look like failure."""
    (book.originals / "page2.png").write_bytes(b"no image")
    book.add_pixels("page4.png", printed.page([" "]).pixels)
    done = await book.with_config(failed_pages_allowed=0.5, engine="null").run(
        "line_detection", "line_extraction", "ocr", STAGE
    )
    assert done.failed_pages == 1
    counts = [done.metrics[f"{kind}_images"] for kind in ("total", "failed", "blank", "unread")]
    assert counts == [4, 1, 1, 2]


async def test_the_volume_as_text(copied: books.Book) -> None:
    """Pages apart, in their order."""
    await copied.with_config(exports=["txt"]).run(STAGE)
    text = (copied.artifacts / "reduce" / "W22084-I0886.txt").read_text("utf-8")
    assert [page.split("\n") for page in text.rstrip("\n").split("\n\f")] == [
        list(page) for page in books.TEXTS
    ]


async def test_the_volume_as_alto_and_page(copied: books.Book) -> None:
    """A file for each page, named like its image, with words where they are printed."""
    await copied.with_config(exports=["alto", "page"]).run(STAGE)
    folder = copied.artifacts / "reduce"
    with zipfile.ZipFile(folder / "W22084-I0886.alto.zip") as archive:
        assert archive.namelist() == ["page1.xml", "page2.xml", "page3.xml"]
        root = _parsed(archive, "page2.xml")
    assert root.findtext(f".//{ALTO}fileName") == "page2.png"
    strings = root.findall(f".//{ALTO}String")
    placed = printed.placed(books.TEXTS[1])
    assert [string.get("CONTENT") for string in strings] == [word.text for word in placed]
    for string, word in zip(strings, placed, strict=True):
        assert abs(int(string.get("HPOS") or 0) - word.box.left) < 8
    with zipfile.ZipFile(folder / "W22084-I0886.page.zip") as archive:
        assert b"page3.png" in archive.read("page3.xml")


async def test_places_in_exports_are_those_of_the_original(tmp_path: Path) -> None:
    """Of a page that was dewarped, too."""
    book = _curved(tmp_path)
    done = await book.run("line_detection", "line_extraction", "ocr", STAGE)
    assert done.metrics["dewarping_applied_count"] == 1
    with zipfile.ZipFile(book.artifacts / "reduce" / "W22084-I0886.alto.zip") as archive:
        root = _parsed(archive, "p.xml")
    first = [string for string in root.iter(f"{ALTO}String") if string.get("CONTENT") == "The"]
    last = [string for string in root.iter(f"{ALTO}String") if string.get("CONTENT") == "roses,"]
    # The bend lifts the middle of a line most, and its ends hardly.
    middle = [string for string in root.iter(f"{ALTO}String") if string.get("CONTENT") == "old"]
    assert len(first) == len(last) == len(middle) == 6
    for ends, high in zip(zip(first, last, strict=True), middle, strict=True):
        between = sum(int(end.get("VPOS") or 0) for end in ends) / 2
        assert 6 < between - int(high.get("VPOS") or 0) < 24


@pytest.mark.parametrize("form", ["alto", "page"])
async def test_a_line_of_a_curved_page_is_around_its_words(tmp_path: Path, form: str) -> None:
    """A straight box between its ends would leave the middle out."""
    book = _curved(tmp_path).with_config(exports=[form])
    await book.run("line_detection", "line_extraction", "ocr", STAGE)
    with zipfile.ZipFile(book.artifacts / "reduce" / f"W22084-I0886.{form}.zip") as archive:
        root = _parsed(archive, "p.xml")
    kinds = ("String", "BASELINE") if form == "alto" else ("Word", "Baseline")
    lines = [element for element in root.iter() if element.tag.endswith("}TextLine")]
    assert len(lines) == 6
    for line in lines:
        outline = _points(line)
        words = [_points(word) for word in line if word.tag.endswith(kinds[0])]
        for word in words:
            (left, top), (right, bottom) = word.min(axis=0), word.max(axis=0)
            above = np.interp((left + right) / 2, *outline[: len(outline) // 2].T)
            below = np.interp((left + right) / 2, *outline[len(outline) // 2 :][::-1].T)
            assert abs(above - top) < 4
            assert abs(below - bottom) < 4
        stand = line.get(kinds[1]) or next(
            child.get("points") for child in line if child.tag.endswith(kinds[1])
        )
        heights = [int(point.partition(",")[2]) for point in (stand or "").split()]
        assert heights[0] - min(heights) > 8


async def test_the_same_volume_gives_the_same_exports(copied: books.Book) -> None:
    """On any day."""
    wanting = copied.with_config(exports=["txt", "alto", "page"])
    await wanting.run(STAGE)
    first = copied.digests()
    await wanting.run(STAGE)
    assert copied.digests() == first


async def test_files_of_different_runs_are_refused(copied: books.Book) -> None:
    """The lines were extracted anew, but not read."""
    await copied.with_config(k_factor=3.0).run("line_extraction")
    with pytest.raises(
        errors.InvalidArtifact, match=r"ocr_results.parquet was created from another"
    ):
        await copied.run(STAGE)


async def test_whoever_lost_the_task_exports_nothing(copied: books.Book) -> None:
    """Not even the text."""

    async def lost() -> None:
        raise errors.LockLost("somebody else owns the task")

    before = copied.digests()
    with pytest.raises(errors.LockLost):
        await copied.with_config(exports=["txt"]).run(STAGE, may_publish=lost)
    assert copied.digests() == before


@pytest.mark.parametrize("form", ["txt", "alto", "page"])
async def test_a_volume_can_be_exported_at_any_time(
    copied: books.Book, tmp_path: Path, form: str
) -> None:
    """The file is the one that the stage would have published."""
    await copied.with_config(exports=[form]).run(STAGE)
    work, target = copied.work(), tmp_path / "exported"
    languages = work.config.languages
    await exports.export_volume(work.output, work.keys, form, target, languages=languages)
    made = copied.artifacts / "reduce" / f"W22084-I0886{exports.SUFFIXES[form]}"
    assert target.read_bytes() == made.read_bytes()


async def test_an_export_in_an_unknown_format_is_refused(
    copied: books.Book, tmp_path: Path
) -> None:
    """With those there are."""
    work = copied.work()
    with pytest.raises(errors.SettingsError, match="choose one of txt, alto, page"):
        await exports.export_volume(work.output, work.keys, "pdf", tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


async def test_the_combined_text_can_be_exported(copied: books.Book, tmp_path: Path) -> None:
    """Instead of that of the job itself."""
    _alter(copied, "b", lambda text: replace(text, text="otherwise", confidence=1.1))
    await _combined(copied, "b")
    work, target = copied.work(), tmp_path / "exported"
    await exports.export_volume(work.output, work.keys, "txt", target, use_combined=True)
    assert target.read_text("utf-8").count("otherwise") == 6


# Combining ----------------------------------------------------------------------------------


async def test_of_three_readings_the_one_in_the_middle_is_taken(copied: books.Book) -> None:
    """Two agree but for a letter, the third is surer of something else."""
    line = books.TEXTS[0][0]
    _alter(copied, "b", lambda text: replace(text, text=(text.text or "") + ".", confidence=0.8))
    _alter(copied, "c", lambda text: replace(text, text="qwxyz", confidence=0.99))
    done = await _combined(copied, "b", "c")
    first = _rows(copied)[0]
    assert first.text == line
    assert (first.source or "").startswith("jobs/first/")
    assert first.agreeing == 1
    assert done["lines_with_choice"] == 6


async def test_of_two_readings_the_surer_is_taken_and_says_where_from(copied: books.Book) -> None:
    """Line by line."""
    surest = {"line_index": 1}

    def read_otherwise(text: rows.LineText) -> rows.LineText:
        sure = 1.1 if text.line_index == surest["line_index"] else 0.1
        return replace(text, text="otherwise", confidence=sure)

    _alter(copied, "b", read_otherwise)
    done = await _combined(copied, "b")
    taken = [(row.text == "otherwise", "jobs/b/" in (row.source or "")) for row in _rows(copied)]
    assert taken == [(False, False), (True, True)] * 3
    assert done["lines_from_elsewhere"] == 3
    text = (copied.artifacts / "reduce" / "W22084-I0886.txt").read_text("utf-8")
    assert text.count("otherwise") == 3


async def test_what_both_say_is_counted_as_agreed(copied: books.Book) -> None:
    """However their spaces fall."""
    _alter(copied, "b", lambda text: replace(text, text=f" {text.text} ", confidence=0.1))
    await _combined(copied, "b")
    assert {row.agreeing for row in _rows(copied)} == {2}


async def test_a_page_that_one_could_not_read_is_taken_from_the_other(copied: books.Book) -> None:
    """Combining saves it."""
    _alter(copied, "b", lambda text: text)
    _fail(copied, "page2")
    done = await _combined(copied, "b")
    assert done["failed_images"] == 0
    of_page = [row for row in _rows(copied) if row.image_name == "page2"]
    assert [row.text for row in of_page] == list(books.TEXTS[1])
    assert all("jobs/b/" in (row.source or "") for row in of_page)


async def test_a_page_that_nobody_could_read_is_failed(copied: books.Book) -> None:
    """Its row says so once."""
    _fail(copied, "page2")
    _alter(copied, "b", lambda text: text)
    done = await _combined(copied, "b")
    assert done["failed_images"] == 1


async def test_texts_of_other_lines_are_refused(copied: books.Book) -> None:
    """Nothing would be combined, and nobody would notice."""
    _alter(copied, "b", lambda text: replace(text, line_guid="another"))
    with pytest.raises(errors.InvalidArtifact, match="has the lines of"):
        await _combined(copied, "b")


async def test_texts_in_another_encoding_are_refused(copied: books.Book) -> None:
    """Wylie and Unicode have no letter in common."""
    _alter(copied, "b", lambda text: replace(text, encoding="wylie"))
    with pytest.raises(errors.InvalidArtifact, match="have different encodings"):
        await _combined(copied, "b")


async def test_a_source_that_is_not_there_is_named(copied: books.Book) -> None:
    """With its key."""
    with pytest.raises(errors.FileNotFound, match="jobs/nobody/"):
        await _combined(copied, "nobody")


@pytest.mark.parametrize("job", ["first", "b"])
async def test_a_source_that_is_named_twice_counts_once(copied: books.Book, job: str) -> None:
    """That of the job itself counts anyway; nothing outvotes others by being named often."""
    _alter(copied, "b", lambda text: replace(text, text="otherwise", confidence=0.9))
    _alter(copied, "c", lambda text: text)
    await _combined(copied, "c", "b", job, job)
    assert books.text_of(_rows(copied)) == [line for page in books.TEXTS for line in page]
    assert {row.agreeing for row in _rows(copied)} == {2}


async def test_combining_with_itself_alone_is_refused(copied: books.Book) -> None:
    """It would combine nothing."""
    with pytest.raises(errors.InvalidArtifact, match="only source of the job is its own text"):
        await _combined(copied, "first")


async def test_a_volume_without_lines_is_combined_to_nothing(tmp_path: Path) -> None:
    """It is nobody's fault."""
    book = books.Book(tmp_path)
    book.add_pixels("blank.png", printed.page([" "]).pixels)
    for job in ("b", "first"):
        await replace(book, job_key=job).run("line_detection", "line_extraction", "ocr")
    done = await _combined(book, "b")
    assert (done["total_lines"], done["blank_images"]) == (0, 1)


async def test_why_nobody_could_read_a_page_is_kept(copied: books.Book) -> None:
    """What the first of them met says more than that nobody could."""
    _fail(copied, "page2")
    _alter(copied, "b", lambda text: text)
    await _combined(copied, "b")
    (bad,) = (row for row in _rows(copied) if not row.ok)
    assert (bad.error_type, bad.error_message) == ("ReaderKilled", "it died")


async def test_a_combined_text_of_another_reading_is_not_exported(
    copied: books.Book, tmp_path: Path
) -> None:
    """The volume was read anew since."""
    _alter(copied, "b", lambda text: text)
    await _combined(copied, "b")
    _fail(copied, "page2")
    work = copied.work()
    with pytest.raises(errors.InvalidArtifact, match=r"combined.parquet was created from another"):
        await exports.export_volume(
            work.output, work.keys, "txt", tmp_path / "exported", use_combined=True
        )


async def test_no_name_in_an_archive_leads_out_of_it(book: books.Book) -> None:
    """Pages with unfit names failed, but are in it, and others of this name too."""

    class Odd(FolderBucket):
        async def list(self, within: str) -> AsyncGenerator[artifacts.Entry, None]:
            async for entry in super().list(within):
                yield entry
            yield artifacts.Entry(f"{within}/..\\page1.png", 1000, "etag")

    wanting = book.with_config(failed_pages_allowed=0.5, exports=["alto"], engine="null")
    await wanting.run("line_detection", input=Odd(book.root / "images"))
    await wanting.run("line_extraction", "ocr", STAGE)
    with zipfile.ZipFile(book.artifacts / "reduce" / "W22084-I0886.alto.zip") as archive:
        assert sorted(archive.namelist()) == [
            "1_page1.xml", "page1.xml", "page2.xml", "page3.xml",
        ]  # fmt: skip


def _points(element: ET.Element) -> NDArray[np.float64]:
    """Read the outline of an element of ALTO or PAGE."""
    own = [child for child in element if child.tag.endswith(("}Coords", "}Shape"))]
    text = own[0].get("points") or own[0][0].get("POINTS") or ""
    return np.array([point.split(",") for point in text.split()], np.float64)


def _parsed(archive: zipfile.ZipFile, name: str) -> ET.Element:
    return ET.fromstring(archive.read(name))  # noqa: S314  # written by us


async def _combined(book: books.Book, *jobs: str) -> Any:
    keys = [f"jobs/{job}/volumes/{{w_id}}-{{i_id}}/ocr/ocr_results.parquet" for job in jobs]
    wanting = book.with_config(reducer="combine", sources=keys, exports=["txt"])
    return (await wanting.run(STAGE)).metrics


def _rows(book: books.Book) -> list[rows.CombinedText]:
    path = book.artifacts / "reduce" / "combined.parquet"
    with parquet.Reader(path, parquet.COMBINED, "") as found:
        return list(found)


def _alter(book: books.Book, job: str, change: Callable[[rows.LineText], rows.LineText]) -> None:
    """Write texts of another job, as if another engine had read the same lines."""
    folder = replace(book, job_key=job).artifacts / "ocr"
    folder.mkdir(parents=True)
    _write(folder / "ocr_results.parquet", book, [change(text) for text in book.texts()])


def _fail(book: books.Book, name: str) -> None:
    texts = [text for text in book.texts() if text.image_name != name]
    bad = rows.LineText(
        image_name=name,
        ok=False,
        error_stage="ocr",
        error_type="ReaderKilled",
        error_message="it died",
    )
    at = next(number for number, text in enumerate(texts) if text.image_name > name)
    _write(book.artifacts / "ocr" / "ocr_results.parquet", book, [*texts[:at], bad, *texts[at:]])


def _write(path: Path, book: books.Book, texts: list[rows.LineText]) -> None:
    with parquet.Reader(
        book.artifacts / "ocr" / "ocr_results.parquet", parquet.OCR_RESULTS, ""
    ) as found:
        stamp = found.stamp
    path.unlink(missing_ok=True)
    writer = parquet.ParquetWriter(path, parquet.OCR_RESULTS, stamp)
    for text in texts:
        writer.add(text)
    writer.close()


def _curved(root: Path) -> books.Book:
    book = books.Book(root).with_config(use_tps=True, exports=["alto"])
    flat = printed.page([printed.ENGLISH[0]] * 6, size=30).pixels
    book.add_pixels("p.png", books.bent(flat, 24))
    return book
