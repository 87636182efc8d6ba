from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer import testing

from benchmarks import ocr
from benchmarks.ocr import contest, contestants, corpus, report, scoring
from pagewarden import errors
from tests.ocr import printed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_COLUMNS = ("file", "gt", "doc_id", "metric_hint")


def _page(
    truth: str,
    *,
    path: Path,
    collection: str = "eng",
    measure: corpus.Measure = corpus.Measure.ORDER,
    joined: bool = False,
) -> corpus.Page:
    return corpus.Page(path, truth, collection, collection, "book:1", measure, joined)


def _corpus(folder: Path, rows: Sequence[tuple[str, str]]) -> Path:
    """Write a corpus; `rows` has the name and the metric hint of each page."""
    lines = ["\t".join(_COLUMNS)]
    for name, hint in rows:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(printed.page(printed.ENGLISH).pixels).save(target)
        target.with_suffix(".gt.txt").write_text("\n".join(printed.ENGLISH), encoding="utf-8")
        lines.append("\t".join((name, str(target.with_suffix(".gt.txt")), "book:1", hint)))
    (folder / corpus.MANIFEST).write_text("\n".join(lines), encoding="utf-8")
    return folder


def _score(wrong: int, characters: int = 1000) -> scoring.Score:
    return scoring.Score(wrong, characters, wrong, characters // 5)


def _result(name: str, page: corpus.Page, wrong: int, seconds: float) -> contest.Result:
    result = contest.Result(name, seconds={page.collection: seconds})
    result.scores[page.name] = _score(wrong)
    return result


def test_errors_are_counted_by_character_and_by_word(tmp_path: Path) -> None:
    """One wrong character makes one wrong word."""
    found = scoring.score(_page("der Hund bellt", path=tmp_path), "der Bund bellt")
    assert (found.wrong_characters, found.characters) == (1, 14)
    assert (found.wrong_words, found.words) == (1, 3)


def test_texts_are_normalised(tmp_path: Path) -> None:
    """Differences in white space, Unicode composition and line-end hyphens do not count."""
    found = scoring.score(_page("Stra¬\nße  für", path=tmp_path), "Stra-\n\nße fu\u0308r\f")
    assert found.wrong_characters == 0


def test_hyphenated_words_are_joined_if_the_truth_joins_them(tmp_path: Path) -> None:
    """Otherwise a hyphen counts as a character."""
    read = "the gar-\nden"
    assert not scoring.score(_page("the garden", path=tmp_path, joined=True), read).wrong_characters
    assert scoring.score(_page("the garden", path=tmp_path), read).wrong_characters == 2


@given(st.lists(st.text("abcdef", min_size=1, max_size=5)), st.randoms(use_true_random=False))
def test_bag_ignores_order(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], random: object
) -> None:
    """Shuffled words have no errors."""
    shuffled = list(words)
    getattr(random, "shuffle")(shuffled)  # noqa: B009  # hypothesis does not type it
    path = tmp_path_factory.getbasetemp()
    page = _page(" ".join(words), path=path, measure=corpus.Measure.BAG)
    assert scoring.score(page, " ".join(shuffled)).wrong_characters == 0


@given(st.lists(st.text("abc", min_size=1, max_size=4)), st.lists(st.text("abc", min_size=1)))
def test_bag_errors_are_bounded(
    tmp_path_factory: pytest.TempPathFactory, truth: list[str], read: list[str]
) -> None:
    """At most all words of the truth are missing and all words read are extra."""
    path = tmp_path_factory.getbasetemp()
    page = _page(" ".join(truth), path=path, measure=corpus.Measure.BAG)
    found = scoring.score(page, " ".join(read))
    letters = sum(map(len, truth)) + sum(map(len, read))
    assert 0 <= found.wrong_characters <= letters + abs(len(truth) - len(read))


def test_bag_pairs_most_similar_words(tmp_path: Path) -> None:
    """A misread word costs its wrong characters, at any position."""
    page = _page("rote Rosen im Garten", path=tmp_path, measure=corpus.Measure.BAG)
    found = scoring.score(page, "Gartem im rote Rosen")
    assert (found.wrong_characters, found.wrong_words) == (1, 1)


def test_corpus_is_loaded_from_manifest(tmp_path: Path) -> None:
    """Black letter has its own language; the hint determines the measure."""
    rows = [("deu_frak/a.png", "cer"), ("eng/b.png", "bow or order-tolerant")]
    first, second = corpus.load(_corpus(tmp_path, rows))
    assert (first.language, first.collection) == ("frk", "deu_frak")
    assert (first.measure, second.measure) == (corpus.Measure.ORDER, corpus.Measure.BAG)


def test_folder_without_manifest_is_rejected(tmp_path: Path) -> None:
    """The message names the folder and the option."""
    with pytest.raises(errors.SettingsError, match="--corpus"):
        corpus.load(tmp_path)


@given(st.integers(1, 200), st.integers(1, 200))
def test_sample_has_requested_size(
    tmp_path_factory: pytest.TempPathFactory, total: int, count: int
) -> None:
    """A sample has no duplicates, and at most all pages."""
    path = tmp_path_factory.getbasetemp()
    pages = [_page(str(number), path=path) for number in range(total)]
    chosen = corpus.sample(pages, count)
    assert len(chosen) == min(count, total) == len({page.truth for page in chosen})


def test_difference_is_significant_only_if_many_pages_agree() -> None:
    """A single bad page is not significant."""
    good = [_score(10)] * 20
    assert scoring.compare([_score(15)] * 20, good).is_worse
    assert not scoring.compare([*[_score(9)] * 19, _score(90)], good).is_worse
    assert not scoring.compare(good, good).is_worse


def test_scan_has_page_per_image(tmp_path: Path) -> None:
    """Transparent images and implausible resolutions are handled."""
    found = corpus.load(_corpus(tmp_path, [("eng/a.png", "cer"), ("eng/b.png", "cer")]))
    clear = np.zeros((50, 60, 4), np.uint8)
    Image.fromarray(clear).save(found[0].path, dpi=(1, 1))
    corpus.make_scan(found, tmp_path / "scan.pdf")
    assert (tmp_path / "scan.pdf").read_bytes().startswith(b"%PDF")


def test_verdict_has_a_line_per_goal(tmp_path: Path) -> None:
    """Goals are judged by the figures of this run."""
    page = _page("x", path=tmp_path / "x.png")
    figures = {
        "fast": (60, 1.0),
        "balanced": (30, 1.2),
        "accurate": (20, 2.0),
        ocr.RAPIDOCR: (25, 4.0),
        ocr.TESSERACT: (70, 1.0),
        ocr.OCRMYPDF: (65, 1.4),
    }
    results = [_result(name, page, *each) for name, each in figures.items()]
    found = report.Report([page], results, {})
    lines = report.make_verdict(found).plain.splitlines()
    assert "NOT REACHED: fast: 1.5 times as fast as OCRmyPDF" in lines
    assert "reached: balanced: faster than OCRmyPDF" in lines
    assert "reached: accurate: on no collection worse than the better bare engine" in lines
    assert [line for line in lines if line.startswith("NOT")] == lines[:1]


def test_small_run(tmp_path: Path) -> None:
    """Every chosen contestant reads every page and is measured."""
    folder = _corpus(tmp_path, [("eng/a.png", "cer"), ("eng/b.png", "cer")])
    app = typer.Typer()
    app.command()(ocr.command)
    figures = tmp_path / "figures.json"
    chosen = f"tesseract,{ocr.TESSERACT}"
    run = testing.CliRunner().invoke(
        app, ["--corpus", str(folder), "--contestants", chosen, "--output", str(figures)]
    )
    assert run.exit_code == 0, run.output
    rows = json.loads(figures.read_text(encoding="utf-8"))["rows"]
    assert {row["contestant"] for row in rows} == set(chosen.split(","))
    assert all(row["cer"] < 0.05 and row["pages_per_second"] > 0 for row in rows)
    assert "All pages" in run.output


def test_unknown_contestant_is_rejected(tmp_path: Path) -> None:
    """The message lists the known ones."""
    app = typer.Typer()
    app.command()(ocr.command)
    run = testing.CliRunner().invoke(app, ["--corpus", str(tmp_path), "--contestants", "abbyy"])
    assert isinstance(run.exception, errors.SettingsError)
    assert "OCRmyPDF" in str(run.exception)


def test_every_name_has_contestant() -> None:
    """All names of the option can be run."""
    assert tuple(contestants.CONTESTANTS) == ocr.ALL
