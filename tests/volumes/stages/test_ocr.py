"""Reading lines: the text of the one-pass reader, in either encoding, by any engine."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein

from pagewarden import errors
from pagewarden.ocr import limits, pages, reader
from pagewarden.ocr.engines import base, fakes
from pagewarden.ocr.images import pixels
from pagewarden.ocr.lines import ppocr_models
from pagewarden.ocr.sandbox import tasks
from pagewarden.volumes.artifacts import parquet, publish
from pagewarden.volumes.stages import child_protocol, ocr_child
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path

STAGE = "ocr"


async def test_the_text_is_what_the_one_pass_reader_gives(finished: books.Book) -> None:
    """A book read in stages is no other book."""
    async with reader.Reader(processes=1) as once:
        for number in (1, 2, 3):
            path = finished.originals / f"page{number}.png"
            (page,) = [page async for page in once.read(path, languages=["eng"])]
            texts = [row for row in finished.texts() if row.image_name == f"page{number}"]
            staged = "\n".join(books.text_of(texts))
            assert Levenshtein.normalized_distance(staged, page.text) < 0.01


async def test_each_line_says_what_was_read_how_surely_and_by_what(finished: books.Book) -> None:
    """And its words say where they stand along the line."""
    (first, *_) = finished.texts()
    line = finished.lines()[0]
    assert (first.image_name, first.line_index) == (line.image_name, line.line_index)
    assert (first.line_guid, first.encoding) == (line.line_guid, "unicode")
    assert first.text == books.TEXTS[0][0]
    assert 0.8 < (first.confidence or 0) <= 1
    assert "rapidocr" in first.model_version
    words = first.words or []
    assert [word["text"] for word in words] == books.TEXTS[0][0].split()
    places = [place for word in words for place in (word["left"], word["right"])]
    assert places == sorted(places)
    assert 0 <= places[0] < places[-1] <= 1


async def test_another_engine_reads_the_same_lines(copied: books.Book) -> None:
    """Nothing before it is touched."""
    before = copied.digests()
    await copied.with_config(engine="tesseract").run(STAGE)
    after = copied.digests()
    changed = {name for name in before if after[name] != before[name]}
    assert changed == {"jobs/first/volumes/W22084-I0886/ocr/ocr_results.parquet"}
    assert "tesseract" in copied.texts()[0].model_version
    assert books.text_of(copied.texts())[0] == books.TEXTS[0][0]


async def test_an_engine_for_pages_reads_lines_on_a_sheet(copied: books.Book) -> None:
    """What it finds on the sheet belongs to the line that is there."""
    await copied.with_config(engine="null").run(STAGE)
    assert [(row.text, row.confidence) for row in copied.texts()] == [("", None)] * 6
    await copied.with_config(engine="fake-steady").run(STAGE)
    said = [row.text for row in copied.texts() if row.text]
    assert len(said) == len(books.TEXTS)  # one for each sheet, in the middle of it


async def test_an_engine_that_needs_the_network_is_called_by_us(copied: books.Book) -> None:
    """Children only hand over the sheets; it knows the language."""
    await copied.with_config(engine="fake-remote").run(STAGE)
    said = [row.text or "" for row in copied.texts() if row.text]
    assert len(said) == len(books.TEXTS)
    assert all(text.endswith(" eng") for text in said)


async def test_a_page_that_kills_its_reader_costs_no_other(copied: books.Book) -> None:
    """Its row says so."""
    spoil(copied, "page2", "crash")
    done = await copied.with_config(engine="fake", failed_pages_allowed=0.5).run(STAGE)
    assert (done.pages, done.failed_pages) == (3, 1)
    (bad,) = (row for row in copied.texts() if not row.ok)
    assert (bad.image_name, bad.line_index) == ("page2", None)
    assert (bad.error_stage, bad.error_type) == (STAGE, "ReaderKilled")


async def test_an_engine_that_is_away_is_no_page_s_fault(copied: books.Book) -> None:
    """The volume can be given back; nothing was published."""
    before = copied.digests()
    spoil(copied, "page2", "engine-away")
    with pytest.raises(errors.EngineUnavailable) as caught:
        await copied.with_config(engine="fake", failed_pages_allowed=1.0).run(STAGE)
    assert caught.value.outage
    name = "jobs/first/volumes/W22084-I0886/ocr/ocr_results.parquet"
    assert copied.digests()[name] == before[name]


async def test_an_engine_that_is_not_installed_is_named(copied: books.Book) -> None:
    """Before any page is read."""
    with pytest.raises(errors.EngineNotInstalled):
        await copied.with_config(engine="fake-unloadable").run(STAGE)


async def test_a_language_without_data_is_named(copied: books.Book) -> None:
    """Tesseract has none for it."""
    with pytest.raises(errors.EngineNotInstalled, match="tesseract-ocr-xyz"):
        await copied.with_config(engine="tesseract", language="xyz").run(STAGE)


async def test_a_given_model_reads_the_lines(copied: books.Book) -> None:
    """Here the one that RapidOCR comes with, as somebody's own."""
    with resources.as_file(
        resources.files("rapidocr") / "models" / ppocr_models.RECOGNISER
    ) as model:
        await copied.run(STAGE, model=model)
        assert books.text_of(copied.texts())[0] == books.TEXTS[0][0]
        assert copied.texts()[0].model_version.startswith(f"{ppocr_models.RECOGNISER} sha256:")


async def test_a_model_for_something_else_is_named(copied: books.Book) -> None:
    """A detector reads nothing."""
    with (
        resources.as_file(resources.files("rapidocr") / "models" / ppocr_models.DETECTOR) as model,
        pytest.raises(errors.SettingsError, match="has no list of characters"),
    ):
        await copied.run(STAGE, model=model)


async def test_stages_without_a_model_refuse_one(copied: books.Book, tmp_path: Path) -> None:
    """Somebody has taken one stage for another."""
    for stage in ("line_extraction", "reduce"):
        with pytest.raises(errors.SettingsError, match=f"{stage} uses no model"):
            await copied.run(stage, model=tmp_path / "model.onnx")


def test_tibetan_is_written_in_wylie_if_asked_for() -> None:
    """Line and words alike."""
    text = _read_by(_Says("བཀྲ་ཤིས་ བདེ་ལེགས།"), wylie=True)
    assert text.text == "bkra shis _bde legs/"
    assert [word[0] for word in text.words] == ["bkra shis", "bde legs/"]
    assert _read_by(_Says("བཀྲ་ཤིས་"), wylie=False).text == "བཀྲ་ཤིས་"


def test_letters_that_no_file_can_carry_are_marked() -> None:
    """Half of a character would spoil the whole file."""
    assert _read_by(_Says("a\ud800b"), wylie=False).text == "a\N{REPLACEMENT CHARACTER}b"


class _Says(fakes.NullEngine):
    """Finds the same on every sheet."""

    def __init__(self, text: str) -> None:
        self._text = text

    def recognise(self, image: base.PageImage, hints: base.PageHints) -> base.RecognitionResult:
        """Say it."""
        del hints
        quad = pages.Box(24, 24, image.width - 24, image.height - 24).quad()
        words = tuple(pages.Word(word, quad, 0.9) for word in self._text.split(" "))
        return base.RecognitionResult([pages.Line(self._text, quad, 0.9, words)])


def _read_by(who: _Says, *, wylie: bool) -> child_protocol.RecognisedText:
    picture = pixels.encode_jpeg(np.full((40, 300), 255, np.uint8))
    work = tasks.TaskRequest({"name": "p", "sizes": [len(picture)]}, picture, limits.Limits(), who)
    worker = ocr_child.LineRecogniser(languages=["bod"], wylie=wylie, model=None, version="")
    (text,), _ = child_protocol.unpack(child_protocol.TEXTS, *worker.run(work))
    return text


def spoil(book: books.Book, name: str, failure: str) -> None:
    """Draw the lines of a page so that reading them fails in this way."""
    path = book.artifacts / "line_extraction" / "line_images.parquet"
    grey = pixels.encode_jpeg(np.full((60, 900), fakes.SHADES[failure], np.uint8))
    with parquet.Reader(path, parquet.LINE_IMAGES, "") as found:
        stamp, lines = found.stamp, list(found)
    path.unlink()
    writer = parquet.ParquetWriter(path, parquet.LINE_IMAGES, stamp)
    for line in lines:
        if line.image_name == name and line.line_index == 0:
            _save(book.root / "output" / (line.line_image_path or ""), grey)
            writer.add(replace(line, line_image_sha256=publish.compute_sha256(grey)))
        elif line.image_name != name:
            writer.add(line)
    writer.close()


def _save(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)
